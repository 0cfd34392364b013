"""The edge of stability: models of one or two eigenvalues, and where training settles below two over the step size."""

from secant.theory.edge import (
    edge_limit,
    nullclines,
    quartic,
    single_eigenvalue,
    skeleton,
    stability,
    two_eigenvalue,
    two_step,
)

__all__ = [
    "edge_limit",
    "nullclines",
    "quartic",
    "single_eigenvalue",
    "skeleton",
    "stability",
    "two_eigenvalue",
    "two_step",
]
