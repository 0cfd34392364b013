r"""How far below the edge of stability training ends, for eigenvalues $\{1, -\epsilon\}$.

Three answers of growing accuracy:

* the fixed point $y^*$ of the lowest-order two-step dynamics;
* the limit of these dynamics in continuous time, with its memory of the start, in closed form by Lambert's function;
* the series of the exact map's slow manifold,
  $\lim \eta\lambda = 2 - \tfrac12\epsilon - \tfrac{27}{32}\epsilon^2 - \dots$

The last two together give the end of the exact map from any point near the edge.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from secant.core.types import Real

LIMIT_COEFFICIENTS = (-1 / 2, -27 / 32, -153 / 128, -17385 / 8192)
r"""Coefficients of $\epsilon, \epsilon^2, \epsilon^3, \epsilon^4$ in $\lim\eta\lambda - 2$."""

MANIFOLD_COEFFICIENTS = (
    (-1 / 2, -2.0, -19 / 8, -35 / 8, -201 / 32),
    (-27 / 32, 0.0, 149 / 128, 389 / 128),
    (-153 / 128, 0.0, -757 / 512),
    (-17385 / 8192,),
)
r"""Series of $g(\tilde z; \epsilon) - 2/(1 - \tilde z)$: row $k$ has the coefficient of $\epsilon^{k+1}$, as a power
series in $\tilde z$."""


def contraction(eps: Real) -> Array:
    r"""The rate $A = 4 - 3\epsilon + 4\epsilon^2$ at which $y$ is drawn to its fixed point, in units of
    $2\tilde z^2$ per two steps.

    Args:
        eps: minus the second eigenvalue.

    Returns:
        Same shape as `eps`.
    """
    return jnp.asarray(4 - 3 * eps + 4 * eps**2)


def fixed_point(eps: Real) -> Array:
    r"""Fixed point of the lowest-order dynamics,
    $y^* = -\epsilon/(2 - \frac32\epsilon + 2\epsilon^2) = -\tfrac12\epsilon - \tfrac38\epsilon^2 + O(\epsilon^3)$.

    Args:
        eps: minus the second eigenvalue.

    Returns:
        Same shape as `eps`.
    """
    return jnp.asarray(-2 * eps / contraction(eps))


def first_integral(z: Real, y: Real, eps: Real) -> Array:
    r"""Constant of motion of the lowest-order flow, $\tfrac A2\tilde z^2 + (y - y^*) + y^*\ln|y - y^*|$.

    Args:
        z: rescaled residual.
        y: distance to the nullcline.
        eps: minus the second eigenvalue.

    Returns:
        Broadcast shape.
    """
    star = fixed_point(eps)
    u = y - star
    return contraction(eps) * z**2 / 2 + u + star * jnp.log(jnp.abs(u))


@jax.jit
def lambert_w(x: Real) -> Array:
    r"""Principal branch $W_0$ of Lambert's function, $We^W = x$, for $x \ge -1/e$; NaN below.

    Halley's iteration from the branch-point series, accurate to rounding. JAX can trace and differentiate it.

    Args:
        x: any shape.

    Returns:
        Same shape as `x`.
    """
    x = jnp.asarray(x, dtype=jnp.result_type(float))
    p = jnp.sqrt(jnp.maximum(2 * (1 + jnp.e * x), 0.0))
    near = -1 + p - p**2 / 3 + 11 / 72 * p**3
    far = jnp.log1p(jnp.maximum(x, 0.0))
    # Close to the branch point Halley's step is 0/0, but the series is already exact.
    at_branch = p < 1e-6
    w = jnp.where(x < 0, near, far * (1 - jnp.log1p(far) / (2 + far)))

    def improve(_: Any, w: Array) -> Array:
        f = w - x * jnp.exp(-w)
        slope = jnp.where(at_branch, 1.0, w + 1)
        return jnp.where(at_branch, w, w - f / (slope - (w + 2) * f / (2 * slope)))

    w = jax.lax.fori_loop(0, 10, improve, w)
    return jnp.where(x < -1 / jnp.e - 1e-12, jnp.nan, w)


@jax.jit
def flow_limit(z: Real, y: Real, eps: Real) -> Array:
    r"""Where the lowest-order flow ends, in closed form.

    The flow has $\tilde z \to 0$ and keeps the first integral. With $u_0 = y_0 - y^*$ and $s = u_0/|y^*|$,
    $$y_\infty = y^*\left(1 + W_0\!\left(-s\,e^{-s - A\tilde z_0^2/2|y^*|}\right)\right),$$
    which is $y^*\bigl(1 + W_0(e^{C/y^*}/y^*)\bigr)$ written so that nothing overflows. For small $\epsilon$
    the memory of the start is $y_\infty - y^* \approx u_0\,e^{-(4\tilde z_0^2 + 2u_0)/\epsilon}$.

    Args:
        z: rescaled residual at the start, nonzero.
        y: distance to the nullcline at the start.
        eps: minus the second eigenvalue.

    Returns:
        $y_\infty$, broadcast shape.
    """
    star = fixed_point(eps)
    s = (y - star) / jnp.abs(star)
    exponent = -s - contraction(eps) * z**2 / (2 * jnp.abs(star))
    return star * (1 + lambert_w(-s * jnp.exp(exponent)))


def memory(z: Real, y: Real, eps: Real) -> Array:
    r"""The part of the limit that depends on the start, to leading order,
    $y_\infty - y^* \approx u_0\,e^{-(4\tilde z_0^2 + 2u_0)/\epsilon}$.

    Args:
        z: rescaled residual at the start.
        y: distance to the nullcline at the start.
        eps: minus the second eigenvalue.

    Returns:
        Broadcast shape.
    """
    u = y - fixed_point(eps)
    return jnp.asarray(u * jnp.exp(-(4 * z**2 + 2 * u) / eps))


def limit_series(eps: Real, order: int = 4) -> Array:
    r"""Limit of the exact map below the edge, to fourth order in $\epsilon$.

    $$\lim\eta\lambda - 2 = -\tfrac12\epsilon - \tfrac{27}{32}\epsilon^2 - \tfrac{153}{128}\epsilon^3
      - \tfrac{17385}{8192}\epsilon^4 - \dots$$

    It is a formal series of the slow manifold. It leaves out $O(\epsilon^5)$ and the memory of the start, which is of
    order $e^{-4\tilde z_0^2/\epsilon}$.

    Args:
        eps: minus the second eigenvalue.
        order: last power of $\epsilon$ kept, 1 to 4.

    Returns:
        Same shape as `eps`.
    """
    return jnp.asarray(sum(c * eps ** (k + 1) for k, c in enumerate(LIMIT_COEFFICIENTS[:order])))


def slow_manifold(z: Real, eps: Real) -> Array:
    r"""The slow manifold $T = g(\tilde z; \epsilon)$ of the exact one-step map.

    $$g = \frac2{1-\tilde z} + \epsilon\left(-\tfrac12 - 2\tilde z - \tfrac{19}8\tilde z^2
      - \tfrac{35}8\tilde z^3 - \tfrac{201}{32}\tilde z^4\right)
      + \epsilon^2\left(-\tfrac{27}{32} + \tfrac{149}{128}\tilde z^2 + \tfrac{389}{128}\tilde z^3\right)
      + \epsilon^3\left(-\tfrac{153}{128} - \tfrac{757}{512}\tilde z^2\right) - \tfrac{17385}{8192}\epsilon^4
      + \dots$$

    Every orbit that forgets its start runs along this manifold: $g(\tilde z_{t+1}) = T_{t+1}$. The scaling is
    $\tilde z^2 \sim \epsilon$.

    Args:
        z: rescaled residual.
        eps: minus the second eigenvalue.

    Returns:
        Broadcast shape.
    """
    corrections = (
        eps ** (k + 1) * sum(c * z**j for j, c in enumerate(row)) for k, row in enumerate(MANIFOLD_COEFFICIENTS)
    )
    return jnp.asarray(2 / (1 - z) + sum(corrections))


@jax.jit
def limit_from(z: Real, y: Real, eps: Real) -> tuple[Array, Array]:
    r"""Where the exact map ends from a point near the edge, and how well this is known.

    The flow starts at the distance $u = y - y^*$ and remembers $m = y_\infty - y^*$ of it. If the flow forgets nothing,
    the map ends at the flow's limit. If it forgets everything, the map ends at the limit of the series. In between,
    $$\lim\eta\lambda - 2 \approx y_\infty + \Bigl(1 - \frac mu\Bigr)\bigl(g(0;\epsilon) - 2 - y^*\bigr) .$$
    The next terms of the map, $\Delta\tilde z = 2y\tilde z(1 - \tfrac12\tilde z)$ and
    $\Delta y = -8u\tilde z^2(1 + \tilde z)$, change the exponent of the memory by a share of
    $\tfrac32\tilde z$, which is $\tilde z_0$ on average over a decay. So the error is about
    $|m|\,(e^{|\tilde z_0|x} - 1)$ with $x = (4\tilde z_0^2 + 2|u|)/\epsilon$, plus $10\,\epsilon^5$ for the terms
    beyond the series.

    Args:
        z: rescaled residual, nonzero.
        y: distance to the residual's two-step nullcline.
        eps: minus the second eigenvalue.

    Returns:
        The limit of $\eta\lambda - 2$ and its error, broadcast shapes.
    """
    star = fixed_point(eps)
    u = y - star
    end = flow_limit(z, y, eps)
    kept = jnp.where(u == 0, 0.0, (end - star) / jnp.where(u == 0, 1.0, u))
    exponent = (4 * jnp.asarray(z) ** 2 + 2 * jnp.abs(u)) / eps
    error = jnp.abs(end - star) * jnp.expm1(jnp.abs(z) * exponent) + 10 * jnp.asarray(eps) ** 5
    return end + (1 - kept) * (limit_series(eps) - star), error


def limit_with_offset(eps: Real, E: Real) -> Array:
    r"""Leading limit with an offset,
    $\lim\eta\lambda - 2 = -\tfrac\epsilon2\left(1 - \tfrac{\tilde E}2\right) + O(\epsilon^2)$.

    Args:
        eps: minus the second eigenvalue.
        E: rescaled offset $\tilde E = \eta E$.

    Returns:
        Broadcast shape.
    """
    return jnp.asarray(-eps / 2 * (1 - E / 2))
