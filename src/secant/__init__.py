"""Deep-learning theory you can run.

Secant predicts how a neural network will train, measures how it really trains, and lays the two side by side: at
finite step size, finite width and finite depth.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from secant._version import __version__

if TYPE_CHECKING:
    from secant import atlas, curvature, data, dynamics, features, lab, linalg, losses, models, nets, theory
    from secant.border import estimate_max_lr, find_max_lr
    from secant.curvature import (
        batch_critical_lr,
        critical_lr,
        gauss_newton,
        hessian,
        jacobian,
        loss_split,
        ntk,
        output_hessian,
        second_derivative,
    )
    from secant.dynamics import (
        Batches,
        Map,
        Outcome,
        Probe,
        Problem,
        Stop,
        Trajectory,
        control,
        flow,
        gradient_descent,
        gradient_field,
        measure,
        optimisers,
        schedules,
        simulate,
        train,
    )
    from secant.expansion import expand
    from secant.features import agop, alignment
    from secant.lab import Erratum, Finding, Study, Tolerance, catalog, run, sweep, verify
    from secant.models import Model, model

__all__ = [
    "Batches",
    "Erratum",
    "Finding",
    "Map",
    "Model",
    "Outcome",
    "Probe",
    "Problem",
    "Stop",
    "Study",
    "Tolerance",
    "Trajectory",
    "__version__",
    "agop",
    "alignment",
    "atlas",
    "batch_critical_lr",
    "catalog",
    "control",
    "critical_lr",
    "curvature",
    "data",
    "dynamics",
    "estimate_max_lr",
    "expand",
    "features",
    "find_max_lr",
    "flow",
    "gauss_newton",
    "gradient_descent",
    "gradient_field",
    "hessian",
    "jacobian",
    "lab",
    "linalg",
    "loss_split",
    "losses",
    "measure",
    "model",
    "models",
    "nets",
    "ntk",
    "optimisers",
    "output_hessian",
    "run",
    "schedules",
    "second_derivative",
    "simulate",
    "sweep",
    "theory",
    "train",
    "verify",
]

# Names are imported when they are first used, so that `import secant` costs no more than the part of it in use.
_ROOMS = ("atlas", "curvature", "data", "dynamics", "features", "lab", "linalg", "losses", "models", "nets", "theory")
_HOMES = {
    "secant.border": ("estimate_max_lr", "find_max_lr"),
    "secant.curvature": (
        "batch_critical_lr",
        "critical_lr",
        "gauss_newton",
        "hessian",
        "jacobian",
        "loss_split",
        "ntk",
        "output_hessian",
        "second_derivative",
    ),
    "secant.dynamics": (
        "Batches",
        "Map",
        "Outcome",
        "Probe",
        "Problem",
        "Stop",
        "Trajectory",
        "control",
        "flow",
        "gradient_descent",
        "gradient_field",
        "measure",
        "optimisers",
        "schedules",
        "simulate",
        "train",
    ),
    "secant.expansion": ("expand",),
    "secant.features": ("agop", "alignment"),
    "secant.lab": ("Erratum", "Finding", "Study", "Tolerance", "catalog", "run", "sweep", "verify"),
    "secant.models": ("Model", "model"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f"secant.{name}")
    if name in _HOME_OF:
        return getattr(importlib.import_module(_HOME_OF[name]), name)
    raise AttributeError(f"module 'secant' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
