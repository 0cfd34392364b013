"""Networks of infinite width: their kernels, what training makes of them, and what depth does to signals."""

from typing import TYPE_CHECKING, Any

from secant.kernels.any_loss import Outputs, training_on
from secant.kernels.criticality import (
    CriticalPoint,
    Susceptibilities,
    critical_points,
    next_covariance,
    next_variance,
    susceptibilities,
)
from secant.kernels.dual import Dual, dual
from secant.kernels.evidence import FittedVariances, fit_variances
from secant.kernels.infinite_width import Kernel, kernel
from secant.kernels.on_disk import stored_kernel
from secant.kernels.phases import PhaseDiagram, phase_diagram
from secant.kernels.predict import (
    Gaussian,
    SingularKernelError,
    Training,
    label_complexity,
    log_evidence,
    posterior,
    training,
)
from secant.kernels.recommend import Recommendation, recommend
from secant.kernels.solve import Solution, kernel_operator, kernel_product, kernel_solve

if TYPE_CHECKING:
    from secant.kernels.estimators import NNGPRegressor, NTKClassifier, NTKRegressor


def __getattr__(name: str) -> Any:
    """Estimators when they are first asked for: scikit-learn takes longer to import than all the rest."""
    if name in ("NNGPRegressor", "NTKClassifier", "NTKRegressor"):
        from secant.kernels import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "CriticalPoint",
    "Dual",
    "FittedVariances",
    "Gaussian",
    "Kernel",
    "NNGPRegressor",
    "NTKClassifier",
    "NTKRegressor",
    "Outputs",
    "PhaseDiagram",
    "Recommendation",
    "SingularKernelError",
    "Solution",
    "Susceptibilities",
    "Training",
    "critical_points",
    "dual",
    "fit_variances",
    "kernel",
    "kernel_operator",
    "kernel_product",
    "kernel_solve",
    "label_complexity",
    "log_evidence",
    "next_covariance",
    "next_variance",
    "phase_diagram",
    "posterior",
    "recommend",
    "stored_kernel",
    "susceptibilities",
    "training",
    "training_on",
]
