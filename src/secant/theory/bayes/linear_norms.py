r"""How long the vector is that a random deep linear network is.

$\theta^\top = W^{(L+1)}\cdots W^{(1)}$ with one output and weights of variance $1/n_{l-1}$ has
$|\theta|^2 = \prod_{l=0}^L \chi^2_{n_l}/n_l$ in law, and a uniform direction, independent of its length. Its logarithm
is normal with mean $-\frac12\sum_l 1/n_l$ and as much variance as the widths grow: infinitely wide networks have
length 1, infinitely deep ones 0, and between them $L/n$ decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from secant.core.arguments import whole


class LogLength(NamedTuple):
    r"""Mean and variance of $\log|\theta|$."""

    mean: float
    variance: float


def _checked(caller: str, widths: Sequence[Any]) -> tuple[int, ...]:
    if not len(widths):
        raise ValueError(f"{caller}: `widths` must name the inputs at least, such as (10, 50, 50), got {widths!r}.")
    return tuple(whole(caller, "widths", width) for width in widths)


def linear_draws(
    random: np.random.Generator, widths: Sequence[Any], draws: int, variance: float = 1.0
) -> Float[np.ndarray, "draws inputs"]:
    r"""Vectors $\theta$ of random deep linear networks, by multiplying their weights.

    Args:
        random: source of randomness.
        widths: $n_0, \dots, n_L$, from the inputs to the last hidden layer.
        draws: how many networks.
        variance: $\sigma^2$; weights have variance $\sigma^2/n_{l-1}$.
    """
    sizes, draws = _checked("linear_draws", widths), whole("linear_draws", "draws", draws)
    theta = np.ones((draws, 1, 1))
    above = 1
    for n in reversed(sizes):
        theta = theta @ (np.sqrt(variance / n) * random.standard_normal((draws, above, n)))
        above = n
    return theta[:, 0]


def length_draws(random: np.random.Generator, widths: Sequence[Any], draws: int) -> Float[np.ndarray, " draws"]:
    r"""Lengths $|\theta|$ of random deep linear networks, in law, from one $\chi^2$ a layer.

    Args:
        random: source of randomness.
        widths: $n_0, \dots, n_L$.
        draws: how many networks.
    """
    sizes = np.array(_checked("length_draws", widths), float)
    factors = random.standard_gamma(sizes / 2, (whole("length_draws", "draws", draws), len(sizes)))
    return np.exp(np.log(2 * factors / sizes).sum(1) / 2)


def log_length(widths: Sequence[Any]) -> LogLength:
    r"""Mean and variance of $\log|\theta|$, exactly.

    $\frac12\sum_{l=0}^L\bigl[\psi(\tfrac{n_l}2) - \log\tfrac{n_l}2\bigr]$ and
    $\frac14\sum_l\psi'(\tfrac{n_l}2)$, which are $\mp\frac12\sum_l 1/n_l$ up to relative corrections of order $1/n$.

    Args:
        widths: $n_0, \dots, n_L$.
    """
    from scipy import special

    half = np.array(_checked("log_length", widths), float) / 2
    return LogLength(
        float(np.sum(special.digamma(half) - np.log(half)) / 2), float(np.sum(special.polygamma(1, half)) / 4)
    )
