"""Trends over step sizes that a permutation test decides."""

from __future__ import annotations

import numpy as np
import xarray as xr
from scipy import stats


def falling_trend(values: xr.DataArray, along: str = "ratio", draws: int = 9_999) -> tuple[float, float]:
    """Spearman correlation of values with their place on an axis, averaged over seeds, and its one-sided p-value.

    By permutation of the places within each seed, so that differences between seeds count for nothing.

    Args:
        values: over `seed` and the axis; NaN where a run diverged, which is left out.
        along: name of the axis.
        draws: random permutations.
    """
    random = np.random.default_rng(0)
    total, chance, seeds = 0.0, np.zeros(draws), 0
    for row in values.transpose("seed", along).values:
        row = row[np.isfinite(row)]
        if len(row) < 3 or np.ptp(row) == 0:
            continue
        ranks, order = stats.rankdata(row), np.arange(len(row)) - (len(row) - 1) / 2
        ranks -= ranks.mean()
        size = float(np.linalg.norm(ranks) * np.linalg.norm(order))
        total, seeds = total + float(ranks @ order) / size, seeds + 1
        chance += random.permuted(np.tile(order, (draws, 1)), axis=1) @ ranks / size
    if not seeds:
        return np.nan, 1.0
    return total / seeds, float((1 + np.sum(chance <= total + 1e-9)) / (1 + draws))
