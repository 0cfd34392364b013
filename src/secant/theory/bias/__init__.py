"""Implicit bias: in which solution a method ends, and the largest margins."""

from secant.theory.bias import (
    deep_linear,
    diagonal,
    interpolants,
    margins,
    potentials,
    reparametrization,
)

__all__ = [
    "deep_linear",
    "diagonal",
    "interpolants",
    "margins",
    "potentials",
    "reparametrization",
]
