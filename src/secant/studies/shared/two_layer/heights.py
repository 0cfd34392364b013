"""Peaks of the catapults of a wide model, compared with the peaks at infinite width."""

from __future__ import annotations

from functools import partial

import numpy as np
import xarray as xr

from secant.core.device import jit
from secant.lab import Findings, Tolerance, claim
from secant.theory.catapult.infinite_width import wide_limit


def peaks_at_infinite_width(excess: xr.DataArray, phases: int, steps: int = 1) -> tuple[xr.DataArray, xr.DataArray]:
    r"""The lowest and the highest peak of $u$ over all phases, after at least `steps` steps; NaN without an excess."""
    enough = max(steps, int(60 / np.nanmin(excess.values, initial=2.0)))
    peaks = np.asarray(jit(partial(wide_limit, phases=phases, steps=enough), quick=True)(excess.values).peak)
    return excess.copy(data=peaks.min(axis=-1)), excess.copy(data=peaks.max(axis=-1))


def heights(
    names: tuple[str, str],
    runs: xr.Dataset,
    excess: xr.DataArray,
    limits: tuple[xr.DataArray, xr.DataArray],
    kept: xr.DataArray,
    otherwise: str,
    *,
    bound: float = 1.0,
    note: str = "",
    skipna: bool = True,
) -> Findings:
    """The claims that peaks lie between the lowest and the highest at infinite width, up to the effect of the start.

    Args:
        names: sentences of the two claims.
        runs: `peak_square`, `start_square` and `bend`, the size of the rescaled label, of models of one width.
        excess: step size times curvature, minus 2.
        limits: the lowest and the highest peak at infinite width.
        kept: which runs are judged.
        otherwise: the reason to give if no run is judged.
        bound: the number with which the ratios are compared.
        note: a note on the first claim.
        skipna: whether runs whose peak is NaN are left out; otherwise a NaN leaves the claims undecided.
    """
    low, high = limits
    # To first order the start adds its own square to the peak; the alternating w adds b sqrt(u) to the excess.
    blur = (runs.start_square / high + runs.bend * np.sqrt(high) / excess).where(kept).max().fillna(0)
    near = Tolerance(float(blur), why=r"what the start adds at finite width, $u(0)$ and $b\sqrt{u}/\delta$")
    above = (runs.peak_square / low).where(kept, np.nan if skipna else np.inf).min(skipna=skipna)
    below = (runs.peak_square / high).where(kept, np.nan if skipna else -np.inf).max(skipna=skipna)
    yield claim("peak-lowest", names[0], given=kept, otherwise=otherwise).at_least(bound, above, slack=near, note=note)
    yield claim("peak-highest", names[1], given=kept, otherwise=otherwise).at_most(bound, below, slack=near)
