"""Closed forms and exact reductions, one module a topic."""

from secant.theory import (
    catapult,
    catapult_samples,
    catapult_scaling,
    edge_limit,
    linear_network,
    nullclines,
    quadratic_model,
    quartic,
    single_eigenvalue,
    skeleton,
    tangent_hierarchy,
    two_eigenvalue,
    two_step,
)

__all__ = [
    "catapult",
    "catapult_samples",
    "catapult_scaling",
    "edge_limit",
    "linear_network",
    "nullclines",
    "quadratic_model",
    "quartic",
    "single_eigenvalue",
    "skeleton",
    "tangent_hierarchy",
    "two_eigenvalue",
    "two_step",
]
