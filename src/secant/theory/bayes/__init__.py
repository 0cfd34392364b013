"""Bayesian deep linear networks: posteriors, evidence, and the spectra behind them."""

from secant.theory.bayes import (
    linear_norms,
    linear_posterior,
    marchenko_pastur,
)

__all__ = [
    "linear_norms",
    "linear_posterior",
    "marchenko_pastur",
]
