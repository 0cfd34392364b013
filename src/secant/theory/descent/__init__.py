"""First-order methods: rates with their constants, exact worst cases, and backpropagation with its work counted."""

from secant.theory.descent import (
    backprop,
    certificates,
    linear_descent,
    rates,
    step_matrices,
    worst_functions,
)

__all__ = [
    "backprop",
    "certificates",
    "linear_descent",
    "rates",
    "step_matrices",
    "worst_functions",
]
