"""Trends that a permutation test decides, and shares of cases with their sampling error."""

from __future__ import annotations

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike
from scipy import stats

from secant.lab import Estimate


def proportion(cases: ArrayLike) -> Estimate:
    r"""The share $k/n$ of cases in which something happens, with a standard error that never vanishes.

    It is $\sqrt{\tilde p(1 - \tilde p)/n}$ at $\tilde p = (k + 1)/(n + 2)$: that all of a few cases agree leaves open
    that the next one does not. Without a case both are NaN.
    """
    happened = np.asarray(cases, bool).ravel()
    if not happened.size:
        return Estimate(np.nan, np.nan, 1.0)
    likely = (happened.sum() + 1) / (happened.size + 2)
    error = float(np.sqrt(likely * (1 - likely) / happened.size))
    return Estimate(float(happened.mean()), error, float(max(happened.size - 1, 1)))


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
