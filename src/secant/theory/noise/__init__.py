"""Gradient noise: stochastic gradients and differential equations, moment by moment."""

from secant.theory.noise import (
    fluctuation,
    linear_noise,
    mean_square,
    weak_error,
)

__all__ = [
    "fluctuation",
    "linear_noise",
    "mean_square",
    "weak_error",
]
