"""Catapults: what a step size above the critical one does, on one sample, on several, and at every width."""

from secant.theory.catapult import (
    infinite_width,
    one_sample,
    scaling,
    several_samples,
)

__all__ = [
    "infinite_width",
    "one_sample",
    "scaling",
    "several_samples",
]
