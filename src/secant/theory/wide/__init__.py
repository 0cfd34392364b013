"""Networks of large width: their limits, their first corrections, and why wide networks stay lazy."""

from secant.theory.wide import (
    concentration,
    finite_width,
    gaussian_matrices,
    hermite,
    lazy_convergence,
    relu_gradients,
    relu_kernel,
    relu_paths,
)

__all__ = [
    "concentration",
    "finite_width",
    "gaussian_matrices",
    "hermite",
    "lazy_convergence",
    "relu_gradients",
    "relu_kernel",
    "relu_paths",
]
