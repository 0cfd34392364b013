"""Normalisation: functions that do not depend on the scale of their weights, with weight decay."""

from secant.theory.normalization import (
    factors,
    scale_invariance,
    weight_decay,
)

__all__ = [
    "factors",
    "scale_invariance",
    "weight_decay",
]
