"""Tables with an entry for each size of random quadratic regression, and means that lie in them beside their errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import xarray as xr

from secant.lab import Estimate


def by_size(pairs: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """Coordinates along `size`: what a size $(D, P)$ is called, and its two numbers."""
    D, P = zip(*pairs, strict=True)
    return {"size": [f"({D}, {P})" for D, P in pairs], "D": ("size", list(D)), "P": ("size", list(P))}


def measured(table: xr.Dataset, name: str, draws: Any, over: float = 1.0) -> Estimate:
    """A mean of so many draws whose standard error is called `name_error`, both over a number."""
    return Estimate(float(table[name]) / over, float(table[f"{name}_error"]) / over, float(draws) - 1)
