r"""Random deep linear networks with one output are vectors: the law of their length.

Let $\theta^\top = W^{(L+1)}\cdots W^{(1)}$ have one output and weights of variance $1/n_{l-1}$. In law
$|\theta|^2 = \prod_{l=0}^L \chi^2_{n_l}/n_l$, and the direction is uniform and independent of the length. For large
widths $\log|\theta|$ is normal with mean $-\frac12\sum_l 1/n_l$ and variance $\frac12\sum_l 1/n_l$. Infinitely wide
networks have length 1, infinitely deep networks 0, and between these limits $L/n$ decides.
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
        raise ValueError(
            f"{caller}: `widths` must hold at least the number of inputs, for example (10, 50, 50), got {widths!r}."
        )
    return tuple(whole(caller, "widths", width) for width in widths)


def linear_draws(
    random: np.random.Generator, widths: Sequence[Any], draws: int, variance: float = 1.0
) -> Float[np.ndarray, "draws inputs"]:
    r"""Vectors $\theta$ of random deep linear networks, by multiplying their weights.

    Args:
        random: source of randomness.
        widths: $n_0, \dots, n_L$, from the inputs to the last hidden layer.
        draws: number of networks.
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
    r"""Lengths $|\theta|$ of random deep linear networks, from one $\chi^2$ per layer instead of all weights.

    Args:
        random: source of randomness.
        widths: $n_0, \dots, n_L$.
        draws: number of networks.
    """
    sizes = np.array(_checked("length_draws", widths), float)
    factors = random.standard_gamma(sizes / 2, (whole("length_draws", "draws", draws), len(sizes)))
    return np.exp(np.log(2 * factors / sizes).sum(1) / 2)


def log_length(widths: Sequence[Any]) -> LogLength:
    r"""Mean and variance of $\log|\theta|$, exactly.

    They are $\frac12\sum_{l=0}^L\bigl[\psi(\tfrac{n_l}2) - \log\tfrac{n_l}2\bigr]$ and
    $\frac14\sum_l\psi'(\tfrac{n_l}2)$, or $\mp\frac12\sum_l 1/n_l$ up to relative corrections of order $1/n$.

    Args:
        widths: $n_0, \dots, n_L$.
    """
    from scipy import special

    half = np.array(_checked("log_length", widths), float) / 2
    return LogLength(
        float(np.sum(special.digamma(half) - np.log(half)) / 2), float(np.sum(special.polygamma(1, half)) / 4)
    )
