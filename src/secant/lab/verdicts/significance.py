"""Exact tests, permutation tests, and shares of cases with their sampling error."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike
from scipy import stats

from secant.lab.verdicts.estimate import Estimate


def proportion(cases: ArrayLike) -> Estimate:
    r"""The share $k/n$ of cases in which something happens, with a standard error that never vanishes.

    The error is $\sqrt{\tilde p(1 - \tilde p)/n}$ at $\tilde p = (k + 1)/(n + 2)$, because even if all of a few cases
    agree, the next case may not. Without a case share and error are NaN.
    """
    happened = np.asarray(cases, bool).ravel()
    if not happened.size:
        return Estimate(np.nan, np.nan, 1.0)
    likely = (happened.sum() + 1) / (happened.size + 2)
    error = float(np.sqrt(likely * (1 - likely) / happened.size))
    return Estimate(float(happened.mean()), error, float(max(happened.size - 1, 1)))


def goes_with(pairs: Iterable[tuple[ArrayLike, ArrayLike]]) -> float:
    """One-sided p-value of two events that happen together more often than by chance; NaN if one never happens.

    This is Fisher's exact test within each of several runs. Given how often each event happens in a run, the test
    counts how often both happen together, summed over the runs. Differences between runs have no effect.

    Args:
        pairs: for every run two arrays: whether each event happens, step by step.
    """
    together, chance, possible = 0, np.ones(1), 0
    for one, other in pairs:
        a, b = np.asarray(one, bool), np.asarray(other, bool)
        together, possible = together + int((a & b).sum()), possible + min(int(a.sum()), int(b.sum()))
        counts = np.arange(min(int(a.sum()), int(b.sum())) + 1)
        chance = np.convolve(chance, stats.hypergeom.pmf(counts, a.size, a.sum(), b.sum()))
    return float(chance[together:].sum()) if possible else np.nan


def falling_trend(values: xr.DataArray, along: str = "ratio", draws: int = 9_999) -> tuple[float, float]:
    """Spearman correlation of values with their place on an axis, averaged over seeds, and its one-sided p-value.

    The places are permuted within each seed, so differences between seeds have no effect.

    Args:
        values: an array over `seed` and the axis. NaN marks a run that diverged, and is left out.
        along: name of the axis.
        draws: random permutations.

    Returns:
        Correlation and p-value. Both are NaN if no seed has three values that differ: there is no trend to judge.
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
        return np.nan, np.nan
    return total / seeds, float((1 + np.sum(chance <= total + 1e-9)) / (1 + draws))
