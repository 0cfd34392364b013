"""How high the catapults of a wide model rise, against those at infinite width."""

from __future__ import annotations

import numpy as np
import xarray as xr

from secant.lab import Findings, Tolerance, claims


def heights(
    names: tuple[str, str],
    runs: xr.Dataset,
    excess: xr.DataArray,
    kept: xr.DataArray,
    peaks: np.ndarray,
    note: str = "",
) -> Findings:
    """That peaks are at least the lowest at infinite width, and at most the highest, as far as the start lets them.

    Args:
        names: of the two claims.
        runs: `peak_square`, `start_square` and `bend`, the size of the rescaled label, of models of one width.
        excess: step size times curvature, minus 2.
        kept: which runs are judged.
        peaks: of all phases at infinite width, along the last axis; the others are those of `excess`.
        note: on the first claim.
    """
    low, high = (excess.copy(data=peaks.min(axis=-1)), excess.copy(data=peaks.max(axis=-1)))
    # To first order the start adds its own square to the peak, and w, which alternates, b sqrt(u) to the excess.
    blur = (runs.start_square / high + runs.bend * np.sqrt(high) / excess).where(kept).max()
    near = Tolerance(float(blur), why="what the start adds at finite width, u(0) and b sqrt(u)/delta")
    yield claims.at_least(names[0], 1.0, (runs.peak_square / low).where(kept).min(), slack=near, note=note)
    yield claims.at_most(names[1], 1.0, (runs.peak_square / high).where(kept).max(), slack=near)
