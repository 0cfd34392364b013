"""Closed forms and exact reductions, one module a topic."""

from secant.theory import (
    catapult,
    catapult_samples,
    catapult_scaling,
    edge_limit,
    linear_descent,
    linear_network,
    nullclines,
    power_law,
    quadratic_model,
    quartic,
    relu_gradients,
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
    "linear_descent",
    "linear_network",
    "nullclines",
    "power_law",
    "quadratic_model",
    "quartic",
    "relu_gradients",
    "single_eigenvalue",
    "skeleton",
    "tangent_hierarchy",
    "two_eigenvalue",
    "two_step",
]
