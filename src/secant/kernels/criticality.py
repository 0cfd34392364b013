r"""Criticality: variances of weights and biases with which signals neither grow nor fade, nor become all alike.

In a wide network with weights of variance $C_w$ over the fan-in and biases of variance $C_b$ the covariance of two
inputs goes from layer to layer as $K_{ab} \mapsto C_b + C_w\,\mathbb E\,\sigma(z_a)\sigma(z_b)$. At a fixed point $K$
of the variances a small difference in size is multiplied by $\chi_\parallel$ and one in direction by $\chi_\perp$ a
layer; both are 1 where the network is critical.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from scipy import optimize

from secant.kernels.dual import REACH, dual
from secant.nets.activations import Function, named

NODES = 400
"""Nodes of the trapezoidal rule over one Gaussian: an even number, so that none lies on a kink at zero."""


class Susceptibilities(NamedTuple):
    r"""How a layer multiplies small differences at a variance $K$.

    Attributes:
        parallel: $\chi_\parallel = \frac{C_w}{2}\,\mathbb E\,(\sigma^2)''$, of a difference in size.
        perpendicular: $\chi_\perp = C_w\,\mathbb E\,\sigma'^2$, of a difference in direction.
    """

    parallel: Array
    perpendicular: Array


class CriticalPoint(NamedTuple):
    r"""Variances with which an activation is critical.

    Attributes:
        weights: $C_w$.
        biases: $C_b$.
        variance: $K$, at which signals stay; NaN where every variance does.
        kind: `scale-invariant`, where every variance stays as it is; `zero`, where variances fall as one over the
            depth; `half-stable`, where they come to $K$ from one side only.
    """

    weights: float
    biases: float
    variance: float
    kind: Literal["scale-invariant", "zero", "half-stable"]


def susceptibilities(activation: str | Function, variance: Any, weights: Any = 1.0) -> Susceptibilities:
    r"""The factors of small differences in a layer, at a variance $K$ of its inputs and weights of variance $C_w$.

    Example:
        ```python
        from secant.kernels import susceptibilities

        print(*(f"{chi:.6f}" for chi in susceptibilities("relu", 3.0, weights=2.0)))
        ```
        ```text
        1.000000 1.000000
        ```
    """
    _, bends, slopes = means_of(named(activation)[1])(jnp.asarray(variance, jnp.result_type(float)))
    return Susceptibilities(weights * (slopes + bends), weights * slopes)


def next_variance(activation: str | Function, variance: Any, *, weights: float, biases: float) -> Array:
    r"""The variance of an input's signals one layer on, $C_b + C_w\,\mathbb E\,\sigma(z)^2$."""
    square, _, _ = means_of(named(activation)[1])(variance)
    return biases + weights * square


def next_covariance(
    activation: str | Function, q1: Any, q2: Any, k: Any, *, weights: float, biases: float
) -> tuple[Array, Array, Array]:
    """Variances and covariance of two inputs one layer on."""
    first, second, both = (dual(activation, *pair).value for pair in ((q1, q1, q1), (q2, q2, q2), (q1, q2, k)))
    return biases + weights * first, biases + weights * second, biases + weights * both


def critical_points(activation: str | Function, between: tuple[float, float] = (1e-3, 1e3)) -> list[CriticalPoint]:
    r"""All variances of weights and biases with which an activation is critical.

    Both susceptibilities are 1 where $\mathbb E\,\sigma\sigma'' = 0$, with $C_w = 1/\mathbb E\,\sigma'^2$ and
    $C_b = K - C_w\,\mathbb E\,\sigma^2$, unless that is negative.

    Args:
        activation: name, [`Nonlinearity`][secant.nets.Nonlinearity] or any function of an array.
        between: the range of variances $K$ that is searched, besides zero.

    Example:
        ```python
        from secant.kernels import critical_points

        for name in ("relu", "tanh", "gelu"):
            for found in critical_points(name):
                print(f"{name}: {found.weights:.4f} {found.biases:.4f}, {found.kind}")
        ```
        ```text
        relu: 2.0000 0.0000, scale-invariant
        tanh: 1.0000 0.0000, zero
        gelu: 1.9831 0.1729, half-stable
        ```
    """
    low, high = between
    if not 0 < low < high < math.inf:
        raise ValueError(f"critical_points: `between` must be two rising numbers above 0, got {between}.")
    function = named(activation)[1]
    means = means_of(function)
    grid = np.geomspace(low, high, 241)
    squares, bends, slopes = (np.asarray(part) for part in means(grid))
    if np.all(np.abs(bends) <= 1e-9 * squares / grid) and np.ptp(slopes) <= 1e-9 * slopes.max():
        return [CriticalPoint(1 / float(slopes[0]), 0.0, math.nan, "scale-invariant")] if slopes[0] > 0 else []
    found = _at_zero(function)

    def at(K: float) -> list[float]:
        return [float(part[0]) for part in means(np.full_like(grid, K))]  # of the shape that is compiled already

    for place in np.flatnonzero(bends[1:] * bends[:-1] < 0):
        K = optimize.brentq(lambda K: at(K)[1], grid[place], grid[place + 1], xtol=1e-13, rtol=1e-13)
        square, _, slope = at(K)
        weights = 1 / slope
        if K - weights * square >= 0:
            found.append(CriticalPoint(weights, K - weights * square, K, "half-stable"))
    return found


def _at_zero(function: Function) -> list[CriticalPoint]:
    r"""The point $K = 0$ of a function that vanishes there, if variances fall to it: $K_\ell \approx 1/(a_1\ell)$."""
    value, s1, s2, s3 = map(float, _slopes_of(function)(np.zeros((), jnp.result_type(float))))
    if value != 0 or s1 == 0 or not all(map(math.isfinite, (s1, s2, s3))):
        return []
    falls = -s3 / s1 - 0.75 * (s2 / s1) ** 2
    return [CriticalPoint(1 / s1**2, 0.0, 0.0, "zero")] if falls > 0 else []


@functools.lru_cache(maxsize=64)
def _slopes_of(function: Function) -> Callable[[Any], list[Array]]:
    """A function and its first three derivatives at a number, in one program."""
    first = jax.grad(function)
    second, third = jax.grad(first), jax.grad(jax.grad(first))
    return jax.jit(lambda z: [f(z) for f in (function, first, second, third)])


@functools.lru_cache(maxsize=64)
def means_of(function: Function) -> Callable[[Any], tuple[Array, Array, Array]]:
    r"""$K \mapsto (\mathbb E\,\sigma^2, \mathbb E\,\sigma\sigma'', \mathbb E\,\sigma'^2)$ over $z \sim N(0, K)$."""
    return jax.jit(lambda K: _means(function, jnp.asarray(K, jnp.result_type(float))))


def _means(function: Function, K: Array) -> tuple[Array, Array, Array]:
    r"""$\mathbb E\,\sigma^2$, $\mathbb E\,\sigma\sigma''$ and $\mathbb E\,\sigma'^2$ over $z \sim N(0, K)$."""
    nodes = jnp.linspace(-REACH, REACH, NODES, dtype=K.dtype)
    weights = jnp.exp(-(nodes**2) / 2)
    z = jnp.sqrt(K)[..., None] * nodes

    def slope(z: Array) -> Array:
        return jax.jvp(function, (z,), (jnp.ones_like(z),))[1]

    value = function(z)
    first, second = jax.jvp(slope, (z,), (jnp.ones_like(z),))
    mean = lambda f: jnp.sum(weights * f, -1) / jnp.sum(weights)  # noqa: E731
    return mean(value**2), mean(value * second), mean(first**2)
