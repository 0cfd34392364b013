r"""Dual activations: the mean of a product of activations over two correlated Gaussians.

For $(u, v)$ of mean zero with variances $q_1, q_2$ and covariance $k$ they are $\mathbb E\,\sigma(u)\sigma(v)$ and
$\mathbb E\,\sigma'(u)\sigma'(v)$. The first is the covariance behind an activation of infinite width; the second is the
factor of the tangent kernel.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.polynomial import hermite_e, polynomial

from secant.kernels.arc_cosine import arcsine, root
from secant.nets.activations import Function, Nonlinearity, named


class Dual(NamedTuple):
    r"""Two means over correlated Gaussians.

    Attributes:
        value: $\mathbb E\,\sigma(u)\sigma(v)$.
        slope: $\mathbb E\,\sigma'(u)\sigma'(v)$, with the derivative where there is one: zero for `sign` and `step`.
        error: estimated error of both, at most; zero for closed forms, whose only error is rounding.
    """

    value: Array
    slope: Array
    error: Array


def dual(activation: str | Function, q1: Any, q2: Any, k: Any, *, nodes: int = 80) -> Dual:
    r"""The dual of an activation.

    In closed form for `identity`, `relu`, `leaky`, `abs`, `erf`, `sigmoid_like`, `sin`, `cos`, `rbf`, `exp`, `gelu`,
    `sign`, `step`, `monomial` and `hermite`. Any other is integrated by the trapezoidal rule with nodes at distance
    $h$. The error falls as $e^{-2\pi d/h}$ for a function that is analytic up to $d$ standard deviations away from the
    axis; the digits of Gauss-Hermite quadrature grow only with the root of the number of nodes. A kink leaves an error
    of order $h^2$, which `error` shows.

    Args:
        activation: name, [`Nonlinearity`][secant.nets.Nonlinearity] or any function of an array.
        q1: variances of $u$.
        q2: variances of $v$; broadcast against the others.
        k: covariances, at most $\sqrt{q_1 q_2}$ in size; those that rounding has made larger are cut.
        nodes: of the quadrature, in each of its two directions.

    Example:
        ```python
        from secant.kernels import dual

        found = dual("relu", 1.0, 1.0, 0.0)  # independent: the square of the mean, 1/(2 pi), and a quarter
        print(f"{found.value:.6f} {found.slope:.6f}")
        print(bool(dual("tanh", 1.0, 1.0, 0.5).error < 1e-10))
        ```
        ```text
        0.159155 0.250000
        True
        ```
    """
    _, function = named(activation)
    if not isinstance(nodes, int) or nodes < 10:
        raise ValueError(f"dual: `nodes` must be a whole number of at least 10, got {nodes!r}.")
    q1, q2, k = (jnp.asarray(part, jnp.result_type(float, part)) for part in (q1, q2, k))
    _check(q1=q1, q2=q2, k=k)
    return _dual(function, q1, q2, k, nodes)


@functools.partial(jax.jit, static_argnums=(0, 4))
def _dual(function: Function, q1: Array, q2: Array, k: Array, nodes: int) -> Dual:
    """In one program, be it a closed form or not."""
    q1, q2, k = jnp.broadcast_arrays(q1, q2, k)
    if isinstance(function, Nonlinearity) and function.name in CLOSED:
        value, slope = CLOSED[function.name](q1, q2, k, *function.parameters)
        return Dual(value, slope, jnp.zeros_like(value))
    return quadrature(function, q1, q2, k, nodes)


def quadrature(function: Function, q1: Array, q2: Array, k: Array, nodes: int = 80) -> Dual:
    """The dual of any function; the error is the difference from fewer nodes. Arguments are not checked."""
    found, coarse = (_quadrature(function, q1, q2, k, count) for count in (nodes, 4 * nodes // 5))
    apart = [jnp.abs(fine - rough) for fine, rough in zip(found, coarse, strict=True)]
    return Dual(found[0], found[1], jnp.maximum(apart[0], apart[1]))


def _check(**given: Array) -> None:
    """Refuses what is no covariance; while it is compiled nothing is known, and NaN stays NaN."""
    for name, part in given.items():
        if isinstance(part, jax.core.Tracer):
            continue
        values = np.asarray(part)
        if not np.isfinite(values).all():
            raise ValueError(f"dual: `{name}` must hold finite numbers, got {values[~np.isfinite(values)][0]}.")
        if name != "k" and (values < 0).any():
            raise ValueError(f"dual: `{name}` holds variances, which are at least 0, got {values.min()}.")


def correlation(q1: Array, q2: Array, k: Array) -> Array:
    r"""$\rho = k / \sqrt{q_1 q_2}$, between -1 and 1, and 0 where a variance is zero."""
    size = root(q1 * q2)
    return jnp.where(size > 0, jnp.clip(k / jnp.where(size > 0, size, 1), -1, 1), 0.0 * size)


def _angle(rho: Array) -> Array:
    r"""$\arcsin\rho$, with a slope of zero at $\pm1$, which no covariance can go beyond.

    A $\rho$ within a few roundings of $\pm1$ counts as $\pm1$: the angle would turn a rounding into its root.
    """
    inside = jnp.abs(rho) < 1 - 4 * float(jnp.finfo(rho.dtype).eps)
    return jnp.where(inside, jnp.arcsin(jnp.where(inside, rho, 0.0)), math.pi / 2 * jnp.sign(rho))


def _identity(q1: Array, q2: Array, k: Array) -> tuple[Array, Array]:
    return k, jnp.ones_like(k)


def _abs(q1: Array, q2: Array, k: Array) -> tuple[Array, Array]:
    rho = correlation(q1, q2, k)
    angle = 2 / math.pi * _angle(rho)
    return 2 / math.pi * root(q1 * q2) * root(1 - rho**2) + k * angle, angle


def _leaky(q1: Array, q2: Array, k: Array, slope: float) -> tuple[Array, Array]:
    # An odd and an even part, whose product has mean zero.
    odd, even = ((1 + slope) / 2) ** 2, ((1 - slope) / 2) ** 2
    value, gates = _abs(q1, q2, k)
    return odd * k + even * value, odd + even * gates


def _relu(q1: Array, q2: Array, k: Array) -> tuple[Array, Array]:
    return _leaky(q1, q2, k, 0.0)


def _sign(q1: Array, q2: Array, k: Array) -> tuple[Array, Array]:
    return 2 / math.pi * _angle(correlation(q1, q2, k)), jnp.zeros_like(k)


def _step(q1: Array, q2: Array, k: Array) -> tuple[Array, Array]:
    both = 0.25 + _angle(correlation(q1, q2, k)) / (2 * math.pi)
    return jnp.where((q1 > 0) & (q2 > 0), both, 0.0), jnp.zeros_like(k)  # a variance of zero: the step of 0 is 0


def _sigmoid_like(q1: Array, q2: Array, k: Array, a: float, b: float, c: float) -> tuple[Array, Array]:
    q1, q2, k = 2 * b**2 * q1, 2 * b**2 * q2, 2 * b**2 * k
    inverse = jax.lax.rsqrt(1 + q1) * jax.lax.rsqrt(1 + q2)
    rest = jnp.sqrt(_rest(q1, q2, k))
    return a**2 * 2 / math.pi * arcsine(k * inverse, rest * inverse) + c**2, a**2 * b**2 * 4 / math.pi / rest


def _rest(q1: Array, q2: Array, k: Array) -> Array:
    """(1 + q1)(1 + q2) - k^2, whose terms cancel for large variances."""
    return (1 + q1 + q2) + jnp.maximum(q1 * q2 - k**2, 0)


def _erf(q1: Array, q2: Array, k: Array) -> tuple[Array, Array]:
    return _sigmoid_like(q1, q2, k, 1.0, 1.0, 0.0)


def _waves(q1: Array, q2: Array, k: Array) -> tuple[Array, Array]:
    """Means of the product of two sines, and of two cosines."""
    near, far = jnp.exp(k - (q1 + q2) / 2) / 2, jnp.exp(-k - (q1 + q2) / 2) / 2
    return near - far, near + far


def _sin(q1: Array, q2: Array, k: Array) -> tuple[Array, Array]:
    return _waves(q1, q2, k)


def _cos(q1: Array, q2: Array, k: Array) -> tuple[Array, Array]:
    sines, cosines = _waves(q1, q2, k)
    return cosines, sines


def _rbf(q1: Array, q2: Array, k: Array, gamma: float) -> tuple[Array, Array]:
    value = jnp.exp(-gamma * (q1 + q2 - 2 * k))
    return value, 2 * gamma * value


def _exp(q1: Array, q2: Array, k: Array, a: float, b: float) -> tuple[Array, Array]:
    value = a**2 * jnp.exp(b**2 * (q1 + q2 + 2 * k) / 2)
    return value, b**2 * value


def _gelu(q1: Array, q2: Array, k: Array) -> tuple[Array, Array]:
    # By parts, with the density p and the distribution P of a normal: (1 + q1) E u p(u) P(v) = k E p(u) p(v).
    rest = _rest(q1, q2, k)
    densities = 1 / (2 * math.pi * jnp.sqrt(rest))
    gates = 0.25 + jnp.arctan2(k, jnp.sqrt(rest)) / (2 * math.pi)
    shares = 1 / (1 + q1) + 1 / (1 + q2)
    value = k * gates + densities * (q1 * q2 + k**2 * (shares - 1))
    return value, gates + densities * k * (shares + 1 / rest)


def _polynomial(q1: Array, q2: Array, k: Array, coefficients: np.ndarray) -> Array:
    r"""$\mathbb E\,p(u)p(v)$ for $p(z) = \sum_i a_i z^i$.

    With $u^i = \sum_l \binom il (i - l - 1)!!\, q_1^{(i-l)/2}\, {:}u^l{:}$ and
    $\mathbb E\,{:}u^l{:}\,{:}v^l{:} = l!\,k^l$.
    """
    total = jnp.zeros_like(k)
    for order in range(len(coefficients)):
        sides = []
        for q in (q1, q2):
            side = jnp.zeros_like(k)
            for i in range(order, len(coefficients), 2):
                pairs = math.prod(range(i - order - 1, 0, -2))
                side = side + float(coefficients[i]) * math.comb(i, order) * pairs * q ** ((i - order) // 2)
            sides.append(side)
        total = total + math.factorial(order) * k**order * sides[0] * sides[1]
    return total


def _both(q1: Array, q2: Array, k: Array, coefficients: np.ndarray) -> tuple[Array, Array]:
    slopes = polynomial.polyder(coefficients) if len(coefficients) > 1 else np.zeros(1)
    return _polynomial(q1, q2, k, coefficients), _polynomial(q1, q2, k, slopes)


def _monomial(q1: Array, q2: Array, k: Array, degree: int) -> tuple[Array, Array]:
    return _both(q1, q2, k, np.eye(degree + 1)[degree])


def _hermite(q1: Array, q2: Array, k: Array, *coefficients: float) -> tuple[Array, Array]:
    scaled = [c / math.sqrt(math.factorial(order)) for order, c in enumerate(coefficients)]
    return _both(q1, q2, k, hermite_e.herme2poly(scaled))


CLOSED: dict[str, Callable[..., tuple[Array, Array]]] = {
    "identity": _identity,
    "relu": _relu,
    "leaky": _leaky,
    "abs": _abs,
    "sign": _sign,
    "step": _step,
    "erf": _erf,
    "sigmoid_like": _sigmoid_like,
    "sin": _sin,
    "cos": _cos,
    "rbf": _rbf,
    "exp": _exp,
    "gelu": _gelu,
    "monomial": _monomial,
    "hermite": _hermite,
}
"""Closed forms of value and slope by the name of the activation, of variances, covariance and parameters."""


REACH = 9.0
"""Standard deviations beyond which a Gaussian has nothing left: 4e-18 of its height."""


@functools.cache
def _nodes(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights for the mean over a standard normal, by the trapezoidal rule."""
    nodes = np.linspace(-REACH, REACH, count)
    weights = np.exp(-(nodes**2) / 2)
    return nodes, weights / weights.sum()


@functools.partial(jax.jit, static_argnums=(0, 4))
def _quadrature(function: Function, q1: Array, q2: Array, k: Array, count: int) -> tuple[Array, Array]:
    r"""Means over $u = \sqrt{q_1}\,a$ and $v = \sqrt{q_2}\,(\rho a + \sqrt{1 - \rho^2}\,b)$."""
    rho = correlation(q1, q2, k)
    rest, first, second = root(1 - rho**2), root(q1), root(q2)
    nodes, weights = (jnp.asarray(part, k.dtype) for part in _nodes(count))

    def both(z: Array) -> tuple[Array, Array]:
        return jax.jvp(function, (z,), (jnp.ones_like(z),))

    def outer(total: tuple[Array, Array], at: tuple[Array, Array]) -> tuple[tuple[Array, Array], None]:
        node, weight = at
        left = both(first * node)
        inner = jax.lax.map(lambda b: both(second * (rho * node + rest * b)), nodes)
        value, slope = (weight * a * jnp.tensordot(weights, b, 1) for a, b in zip(left, inner, strict=True))
        return (total[0] + value, total[1] + slope), None

    zero = jnp.zeros_like(k)
    (value, slope), _ = jax.lax.scan(outer, (zero, zero), (nodes, weights))
    return value, slope
