"""Models that are quadratic in their parameters: regression, random instances, phase planes."""

from secant.theory.regression import (
    linear_network,
    one_mode_border,
    phase_plane,
    quadratic_model,
    quadratic_regression,
    random_regression,
    tangent_hierarchy,
)

__all__ = [
    "linear_network",
    "one_mode_border",
    "phase_plane",
    "quadratic_model",
    "quadratic_regression",
    "random_regression",
    "tangent_hierarchy",
]
