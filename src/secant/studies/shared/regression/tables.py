"""Tables with an entry for each size of random quadratic regression, and means with errors from such tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import xarray as xr

from secant.lab import Estimate


def by_size(pairs: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """Coordinates along `size`: the name of a size $(D, P)$, and its two numbers."""
    D, P = zip(*pairs, strict=True)
    return {"size": [f"({D}, {P})" for D, P in pairs], "D": ("size", list(D)), "P": ("size", list(P))}


def measured(table: xr.Dataset, name: str, draws: Any, over: float = 1.0) -> Estimate:
    """A mean over `draws` draws, with the standard error under the name with `_error`, both divided by `over`."""
    return Estimate(float(table[name]) / over, float(table[f"{name}_error"]) / over, float(draws) - 1)
