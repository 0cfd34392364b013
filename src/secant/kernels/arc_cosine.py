r"""What a layer of ReLU does to angles, from the gap $e = 1 - \rho$ of two signals to the next one.

Near coincidence everything depends on the digits of $e$, which $\rho$ does not have. With $z = \min(e, 2 - e)$,
$s = \sqrt{z(2 - z)}$ and $\theta = \arccos(1 - z) = s\,Q(z)$ the gap behind the layer is
$e - (s - (1 - z)\theta)/\pi$; beyond a right angle it is $1 - (s - (1 - z)\theta)/\pi$ and the angle $\pi - \theta$.
$Q$ is analytic up to $z = 2$, so that a polynomial of a low degree serves for $0 \le z \le 1$, and no arc cosine is
computed. Behind the layer the angle is right to rounding of 1, however small it is.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array
from numpy.polynomial import Chebyshev, Polynomial

DEGREES = {4: 9, 8: 22}
"""Degrees of the polynomial by the bytes of a number: errors fall by 5.8 a degree, to 1e-8 and to rounding."""

FEW = 2**16
"""Up to so many numbers the differences of all rows are taken: to search for those that need it would take longer."""


@functools.cache
def _polynomial(degree: int) -> tuple[float, ...]:
    r"""Coefficients, the lowest first, of the polynomial that interpolates $Q = \sum_k q_k z^k$ on $[0, 1]$, where
    $q_{k+1} = q_k (k+1)/(2k+3)$."""
    series = [1.0]
    for k in range(80):
        series.append(series[-1] * (k + 1) / (2 * k + 3))
    fit = Chebyshev.interpolate(Polynomial(series), degree, domain=[0.0, 1.0]).convert(kind=Polynomial)
    # At zero, where signals coincide, there must be no error at all.
    return (1.0, *map(float, fit.coef[1:]))


def coefficients(dtype: Any, fewer: int = 0) -> tuple[float, ...]:
    """Coefficients of the polynomial $Q$ in a precision, the lowest first; in single precision `fewer` of them."""
    return _polynomial(_degree(dtype) - (fewer if dtype == jnp.float32 else 0))


def _degree(dtype: Any) -> int:
    return DEGREES[8 if dtype == jnp.float64 else 4]


def evaluated(coefficients: tuple[float, ...], z: Array) -> Array:
    """A polynomial, by Horner's rule."""
    value = jnp.full_like(z, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        value = value * z + coefficient
    return value


def arc(
    gap: Array, *, slope: bool = True, keep: Callable[[list[Array]], list[Array]] = list
) -> tuple[Array, Array | None]:
    r"""The gap of two signals behind a layer of ReLU, and $1 - \theta/\pi$: how often both neurons are on, doubled.

    Exact for coincident signals, $e = 0$, with a slope of the angle that is set to zero there.
    """
    acute, z, s, angle = _acute(gap)
    s, angle = keep([s, angle])
    bent = jnp.where(acute, gap, 1.0) - (s - angle + z * angle)
    return bent, jnp.where(acute, 1 - angle, angle) if slope else None


@jax.custom_jvp
def _sqrt(x: Array) -> Array:
    """The root of what is not negative, with a slope of zero at zero."""
    return jnp.sqrt(x)


@_sqrt.defjvp
def _slope_of_root(given: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    value = _sqrt(given[0])
    apart = value > 0
    return value, jnp.where(apart, 0.5 / jnp.where(apart, value, 1.0), 0.0) * tangents[0]


def angle_of(gap: Array) -> Array:
    r"""The angle over $\pi$, between 0 and 1, of two signals with a gap."""
    acute, _, _, angle = _acute(gap)
    return jnp.where(acute, angle, 1 - angle)


def _acute(gap: Array) -> tuple[Array, Array, Array, Array]:
    r"""Whether the angle is acute; and of the angle, or of $\pi$ less it: the gap, and sine and angle over $\pi$."""
    acute = gap <= 1
    z = jnp.where(acute, gap, 2 - gap)
    s = _sqrt(z * (2 - z)) * (1 / math.pi)
    return acute, z, s, s * evaluated(coefficients(gap.dtype), z)


def gap_of(covariance: Array, scale: Array) -> Array:
    r"""$e = 1 - k/\sqrt{q_1 q_2}$, between 0 and 2, given $k$ and $\sqrt{q_1 q_2}$; 0 where a variance is zero.

    What is within a few roundings of zero is zero: signals that coincide stay so.
    """
    positive = scale > 0
    gap = 1 - covariance / jnp.where(positive, scale, 1.0)
    least = 4 * float(jnp.finfo(gap.dtype).eps)
    return jnp.where(positive & (gap > least), jnp.minimum(gap, 2.0), 0.0)


def root(x: Array) -> Array:
    r"""$\sqrt{\max(x, 0)}$ with a slope of zero at zero; what is no number stays so."""
    above = x > 0
    return jnp.where(above, jnp.sqrt(jnp.where(above, x, 1.0)), 0.0 * x)


def arcsine(sine: Array, cosine: Array) -> Array:
    r"""The angle between $-\pi/2$ and $\pi/2$ of a sine and a cosine, with all digits if both have all of theirs.

    With $z = 1 - \cos\theta$ the angle is $\sin\theta\,Q(z)$. A small angle is as accurate as its sine, because $Q$ is
    flat there, and an angle near a right one is as accurate as its cosine.
    """
    # To 3e-7 in single precision: what the roots in front of it are worth.
    return sine * evaluated(coefficients(sine.dtype, fewer=2), 1 - cosine)


@jax.custom_jvp
def gap_of_rows(first: Array, second: Array, none: Array) -> Array:
    r"""The gaps between the rows of two matrices of unit rows, or rows of zeros, shape `(n1, n2)`.

    A product of matrices gives the gaps to rounding of 1. Gaps below $10^4$ roundings are computed again as
    $\tfrac12|a - b|^2$, which has all its digits, and those of nearly opposite rows as $2 - \tfrac12|a + b|^2$. The
    pairs in `none`, shape `(n1, n2)`, are known to have no gap: a row with itself, and rows of zeros.
    """
    return gap_of_products(jnp.matmul(first, second.T, precision=jax.lax.Precision.HIGHEST), first, second, none)


def gap_of_products(products: Array, first: Array, second: Array, none: Array) -> Array:
    """The gaps between the rows of two matrices, given the product of the matrices."""
    gap = jnp.where(none, 0.0, jnp.clip(1 - products, 0, 2))
    close = (jnp.minimum(gap, 2 - gap) < 1e4 * float(jnp.finfo(gap.dtype).eps)) & ~none
    if gap.size * first.shape[1] <= FEW:
        return jnp.where(close, _apart(first[:, None], second[None]), gap)
    batch = min(128, gap.size)

    def some(state: tuple[Array, Array]) -> tuple[Array, Array]:
        gap, close = state
        rows, columns = jnp.nonzero(close, size=batch, fill_value=-1)
        exact = _apart(first[rows], second[columns])
        # What fills up the list stands beyond the end and is dropped.
        rows = jnp.where(rows < 0, gap.shape[0], rows)
        return gap.at[rows, columns].set(exact, mode="drop"), close.at[rows, columns].set(False, mode="drop")

    return jax.lax.while_loop(lambda state: jnp.any(state[1]), some, (gap, close))[0]


def _apart(first: Array, second: Array) -> Array:
    """The gap between unit rows by their difference, or their sum, over the last axis."""
    alike, opposite = (jnp.sum((first + sign * second) ** 2, -1) / 2 for sign in (-1, 1))
    return jnp.where(alike < 1, alike, 2 - opposite)


@gap_of_rows.defjvp
def _slope_of_gaps(given: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
    first, second, none = given
    product = functools.partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST)
    slope = -product(tangents[0], second.T) - product(first, tangents[1].T)
    return gap_of_rows(*given), jnp.where(none, 0.0, slope)
