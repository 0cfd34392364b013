r"""Concentration: how far means over random neurons are from their expectation, by Bernstein and Hoeffding."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from secant.core.types import Real


def bernstein_tail(t: Real, variance: Real, largest: Real, dim: Real) -> Any:
    r"""Bernstein's bound for matrices: $P(\|Z\| > t) \le 2d\,e^{-\frac12t^2/(U + Lt/3)}$.

    $Z = \sum_jS_j$ is a sum of independent symmetric matrices of mean zero. A bound above 1 carries no information.

    Args:
        t: the threshold for the norm.
        variance: $U = \|\sum_j\mathbb E\,S_j^2\|$, or an upper bound.
        largest: $L$ with $\|S_j\| \le L$.
        dim: $d$, the number of rows.

    Example:
        ```python
        from secant.theory.wide.concentration import bernstein_tail

        print(f"{bernstein_tail(5.0, 1.0, 0.1, 8):.2g}")
        ```
        ```text
        0.00036
        ```
    """
    return 2 * dim * jnp.exp(-(t**2) / 2 / (variance + largest * t / 3))


def entry_distance(width: Real, samples: Real, chance: Real) -> Any:
    r"""How far the entries of a kernel are from their means, at most: $\sqrt{(2/m)\log(2n^2/\delta)}$.

    It holds but for a chance $\delta$, by Hoeffding's inequality for each of $n^2$ entries. The kernel is
    $H_{ij} = x_i\cdot x_j\,\frac1m\sum_r\sigma'(w_r\cdot x_i)\sigma'(w_r\cdot x_j)$ with $|\sigma'| \le 1$ and inputs
    of length at most 1. The distance in norm is at most $n$ times as large.

    Args:
        width: $m$.
        samples: $n$.
        chance: $\delta$.
    """
    return jnp.sqrt(2 / width * jnp.log(2 * samples**2 / chance))


def enough_neurons(distance: Real, samples: Real, chance: Real) -> Any:
    r"""The width at which $\|H - \mathbb E H\| \le \epsilon$ but for a chance $\delta$,
    $m = 2n^2\epsilon^{-2}\log(2n^2/\delta)$.

    Args:
        distance: $\epsilon$.
        samples: $n$.
        chance: $\delta$.
    """
    return 2 * samples**2 / distance**2 * jnp.log(2 * samples**2 / chance)
