"""Measurements that differ from repeat to repeat: a value, its standard error, and the degrees of freedom."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

RISK = 1e-3
"""How often a true claim may fail its finding: once in a thousand seeds."""

LEVEL = 1e-2
"""How often an inequality may be found to hold without any effect: once in a hundred seeds."""


class Estimate(NamedTuple):
    """A measured value that has a sampling error.

    Attributes:
        value: the value.
        error: its standard error.
        freedom: degrees of freedom of the standard error: one less than the repeats of a mean, and infinite if the
            error is known and not estimated.
    """

    value: float
    error: float
    freedom: float = np.inf


def estimate(values: ArrayLike) -> Estimate:
    r"""The mean of independent repeats, $\bar x$ with standard error $s/\sqrt n$ and $n - 1$ degrees of freedom.

    Repeats that are NaN are left out. With fewer than two repeats the error is NaN, and no claim is decided.

    Example:
        ```python
        from secant.lab import estimate

        estimate([1.0, 2.0, 3.0])  # 2.0, 0.577, 2
        ```
    """
    kept = np.asarray(values, float).ravel()
    kept = kept[~np.isnan(kept)]
    if len(kept) < 2:
        return Estimate(float(kept[0]) if len(kept) else np.nan, np.nan, 1.0)
    return Estimate(float(kept.mean()), float(kept.std(ddof=1) / np.sqrt(len(kept))), float(len(kept) - 1))


def bootstrap(statistic: Callable[[np.ndarray], ArrayLike], repeats: int, times: int = 64) -> tuple[Estimate, ...]:
    r"""Statistics of independent repeats other than means, with standard errors by resampling.

    The repeats are drawn `times` times with replacement. The standard error is the spread of the statistic over these
    draws, times $\sqrt{n/(n - 1)}$. If a statistic is not a number for half of the draws or more, its error is NaN, and
    no claim is decided.

    Args:
        statistic: maps an array of indices of repeats to one or several numbers.
        repeats: number of repeats, $n$.
        times: how often the repeats are resampled.

    Example:
        ```python
        import numpy as np
        from secant.lab import bootstrap

        draws = np.array([1.0, 2.0, 3.0, 4.0, 10.0])
        (middle,) = bootstrap(lambda kept: np.median(draws[kept]), len(draws))
        print(middle.value, middle.freedom)
        ```
        ```text
        3.0 4.0
        ```
    """
    random = np.random.default_rng(0)
    values = np.atleast_1d(np.asarray(statistic(np.arange(repeats)), float))
    if repeats < 2:  # resampling one repeat shows no spread
        return tuple(Estimate(float(value), np.nan, 1.0) for value in values)
    found = np.stack(
        [np.atleast_1d(np.asarray(statistic(random.integers(repeats, size=repeats)), float)) for _ in range(times)]
    )
    spread = np.full(len(values), np.nan)
    known = np.isfinite(found).mean(0) > 0.5
    if known.any():
        spread[known] = np.nanstd(np.where(np.isfinite(found), found, np.nan)[:, known], axis=0)
        spread *= np.sqrt(repeats / (repeats - 1))
    return tuple(Estimate(float(v), float(s), float(repeats - 1)) for v, s in zip(values, spread, strict=True))


def ratio_of_means(above: ArrayLike, below: ArrayLike) -> Estimate:
    r"""The ratio of two means over the same repeats, with its standard error to first order.

    For $r = \bar x/\bar y$ the error is that of the mean of $(x - ry)/\bar y$. Pairs without two numbers are left out.

    Example:
        ```python
        from secant.lab import ratio_of_means

        ratio_of_means([1.0, 2.0, 3.0], [2.0, 4.0, 7.0])  # 0.462, 0.019, 2
        ```
    """
    over, under = (np.asarray(values, float).ravel() for values in (above, below))
    kept = np.isfinite(over) & np.isfinite(under)
    over, under = over[kept], under[kept]
    if len(over) < 2 or under.mean() == 0:
        return Estimate(np.nan, np.nan, 1.0)
    ratio = over.mean() / under.mean()
    error = (over - ratio * under).std(ddof=1) / np.sqrt(len(over)) / abs(under.mean())
    return Estimate(float(ratio), float(error), float(len(over) - 1))


def miss(freedom: float, risk: float = RISK) -> float:
    r"""How many standard errors chance exceeds with probability `risk`, on either side together.

    A quantile of Student's distribution: 3.3 for a known error, 8.6 for five repeats.
    """
    return float(_quantile(freedom, 1 - risk / 2))


def evidence(freedom: float, level: float = LEVEL) -> float:
    r"""How many standard errors chance clears a bound by with probability `level`.

    The one-sided quantile of Student's distribution: 2.3 for a known error, 3.7 for five repeats.
    """
    return float(_quantile(freedom, 1 - level))


def _quantile(freedom: float, probability: float) -> float:
    from scipy import special

    return special.ndtri(probability) if np.isinf(freedom) else special.stdtrit(freedom, probability)
