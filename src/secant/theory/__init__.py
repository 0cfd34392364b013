"""Closed forms and exact reductions: a folder a topic, a module a result."""

from secant.theory import (
    bayes,
    bias,
    catapult,
    descent,
    edge,
    landscape,
    noise,
    normalization,
    periodic_points,
    power_law,
    regression,
    wide,
)

__all__ = [
    "bayes",
    "bias",
    "catapult",
    "descent",
    "edge",
    "landscape",
    "noise",
    "normalization",
    "periodic_points",
    "power_law",
    "regression",
    "wide",
]
