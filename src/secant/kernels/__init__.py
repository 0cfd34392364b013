"""Networks of infinite width: what their layers do to the covariances of signals."""

from secant.kernels.criticality import (
    CriticalPoint,
    Susceptibilities,
    critical_points,
    next_covariance,
    next_variance,
    susceptibilities,
)
from secant.kernels.dual import Dual, dual

__all__ = [
    "CriticalPoint",
    "Dual",
    "Susceptibilities",
    "critical_points",
    "dual",
    "next_covariance",
    "next_variance",
    "susceptibilities",
]
