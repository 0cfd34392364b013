"""Landscapes: critical points, saddles, and how long escaping from a saddle takes."""

from secant.theory.landscape import (
    escape,
    rank_one,
)

__all__ = [
    "escape",
    "rank_one",
]
