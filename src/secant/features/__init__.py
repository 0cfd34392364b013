"""Which input directions a function has learned to look at."""

from secant.features.agop import agop, agop_of
from secant.features.alignment import alignment

__all__ = ["agop", "agop_of", "alignment"]
