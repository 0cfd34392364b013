"""Claims that a statistical test decides."""

from __future__ import annotations

import numpy as np
import xarray as xr
from scipy import stats

from secant.lab import Finding, Tolerance

LEVEL = 0.05
"""The level of all tests."""


def significant(claim: str, p: float, test: str, note: str = "") -> Finding:
    """The finding that a claim is significant: its p-value is at most the level.

    Args:
        claim: what the test is for.
        p: its p-value.
        test: which test it is.
        note: what else there is to say.
    """
    return Finding(
        f"{claim}: p-value",
        predicted=LEVEL,
        measured=p,
        relation="at most",
        tolerance=Tolerance(0.0, why=f"the level of the test, {test}"),
        note=note,
    )


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
