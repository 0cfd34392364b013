r"""Two steps of the two-eigenvalue model at once, as exact polynomials.

Near the edge of stability single steps oscillate and pairs of steps do not. For eigenvalues $\{1, -\epsilon\}$
without offset two steps are polynomials,
$$\tilde z_{t+2} - \tilde z_t = \sum_{i=0}^3 p_i(\tilde z, \epsilon)\,T^i,\qquad
  T_{t+2} - T_t = \sum_{i=0}^3 q_i(\tilde z, \epsilon)\,T^i ,$$
of degree 9 in $\tilde z$, and of degrees 5 and 6 in $\epsilon$. Their zeros through $(\tilde z, T) = (0, 2)$
are the nullclines $f_z$ and $f_T$. The distance from the first, $y = T - f_z(\tilde z)$, is small, slow and, in the
end, negative.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float, Int

from secant.core.types import Real
from secant.dynamics import Map
from secant.theory.edge.two_eigenvalue import Point, two_eigenvalue

Coefficients = tuple[dict[int, Callable], ...]
r"""One row per power of $T$: power of $\tilde z$ -> coefficient as a function of $\epsilon$."""

# p_i and q_i: power of z -> coefficient as a function of e = epsilon.
P: Coefficients = (
    {
        9: lambda e: e**3 * (e**2 - e + 1),
        8: lambda e: 2 * e**3 * (e - 1),
        7: lambda e: e**2 * (2 * e**2 - e + 2),
        6: lambda e: 6 * e**2 * (e - 1),
        5: lambda e: e * (e**2 + 5 * e + 1),
        4: lambda e: 4 * e * (e - 1),
        3: lambda e: 6 * e,
    },
    {
        8: lambda e: -(e**2) * (e - 1) * (3 * e**2 - 2 * e + 3) / 2,
        7: lambda e: -(e**2) * (5 * e**2 - 7 * e + 5),
        6: lambda e: -e * (e - 1) * (4 * e**2 + 9 * e + 4) / 2,
        5: lambda e: -e * (8 * e**2 - 9 * e + 8),
        4: lambda e: -(e - 1) * (e**2 + 24 * e + 1) / 2,
        3: lambda e: -(e + 2) * (2 * e + 1),
        2: lambda e: -3 * (e - 1),
        1: lambda e: -2 + 0 * e,
    },
    {
        7: lambda e: e * (e - 1) ** 2 * (3 * e**2 - e + 3) / 4,
        6: lambda e: e * (e - 1) * (7 * e**2 - 6 * e + 7) / 2,
        5: lambda e: (2 * e**4 + 19 * e**3 - 30 * e**2 + 19 * e + 2) / 4,
        4: lambda e: 5 * (e - 1) * (e**2 + e + 1) / 2,
        3: lambda e: (9 * e**2 - 10 * e + 9) / 2,
        2: lambda e: 7 * (e - 1) / 2,
        1: lambda e: 1 + 0 * e,
    },
    {
        6: lambda e: -((e - 1) ** 3) * (e**2 + 1) / 8,
        5: lambda e: -((e - 1) ** 2) * (3 * e**2 - e + 3) / 4,
        4: lambda e: -(e - 1) * (13 * e**2 - 10 * e + 13) / 8,
        3: lambda e: -(3 * e**2 - 4 * e + 3) / 2,
        2: lambda e: -(e - 1) / 2,
    },
)
Q: Coefficients = (
    {
        9: lambda e: -2 * e**3 * (e - 1) * (e**2 + 1),
        8: lambda e: -4 * e**3 * (e**2 - e + 1),
        7: lambda e: -2 * e**2 * (e - 1) * (2 * e**2 + e + 2),
        6: lambda e: -12 * e**2 * (e**2 - e + 1),
        5: lambda e: -2 * e * (e - 1) * (e**2 + 6 * e + 1),
        4: lambda e: -4 * e * (2 * e**2 - e + 2),
        3: lambda e: -12 * e * (e - 1),
        2: lambda e: -8 * e,
    },
    {
        8: lambda e: e**2 * (3 * e**4 - 5 * e**3 + 5 * e**2 - 5 * e + 3),
        7: lambda e: 2 * e**2 * (e - 1) * (5 * e**2 - 2 * e + 5),
        6: lambda e: e * (4 * e**4 + 5 * e**3 - 7 * e**2 + 5 * e + 4),
        5: lambda e: 2 * e * (e - 1) * (8 * e**2 - e + 8),
        4: lambda e: e**4 + 23 * e**3 - 29 * e**2 + 23 * e + 1,
        3: lambda e: 4 * (e - 1) * (e**2 + 4 * e + 1),
        2: lambda e: 2 * (3 * e**2 - e + 3),
        1: lambda e: 4 * (e - 1),
    },
    {
        7: lambda e: -e * (e - 1) * (3 * e**4 - 4 * e**3 + 4 * e**2 - 4 * e + 3) / 2,
        6: lambda e: -e * (e**2 + 1) * (7 * e**2 - 13 * e + 7),
        5: lambda e: -(e - 1) * (2 * e**4 + 21 * e**3 - 10 * e**2 + 21 * e + 2) / 2,
        4: lambda e: -5 * e**4 + 2 * e**2 - 5,
        3: lambda e: -(e - 1) * (9 * e**2 - e + 9),
        2: lambda e: -7 * e**2 + 8 * e - 7,
        1: lambda e: -2 * (e - 1),
    },
    {
        6: lambda e: (e - 1) ** 2 * (e**4 - e**3 + e**2 - e + 1) / 4,
        5: lambda e: (e - 1) * (3 * e**4 - 4 * e**3 + 4 * e**2 - 4 * e + 3) / 2,
        4: lambda e: (13 * e**4 - 23 * e**3 + 24 * e**2 - 23 * e + 13) / 4,
        3: lambda e: (e - 1) * (3 * e**2 - e + 3),
        2: lambda e: e**2 - e + 1,
    },
)


class Local(NamedTuple):
    r"""Coordinates near the edge, on even steps.

    Attributes:
        z: rescaled residual $\tilde z$.
        y: distance to the residual's two-step nullcline, $y = T - f_z(\tilde z)$.
    """

    z: Real
    y: Real


def _polynomial(table: Coefficients, z: Real, eps: Real, order: int) -> list:
    return [sum(c(eps) * z**power for power, c in row.items() if power <= order) for row in table]


def two_step_coefficients(z: Real, eps: Real, order: int = 9) -> tuple[Float[Array, "4 *n"], Float[Array, "4 *n"]]:
    r"""The polynomials $p_i(\tilde z, \epsilon)$ and $q_i(\tilde z, \epsilon)$, $i = 0..3$.

    Args:
        z: rescaled residual.
        eps: minus the second eigenvalue.
        order: keep powers of $\tilde z$ up to this one; 9 keeps them all, 3 gives the truncation used near
            $\tilde z = 0$.

    Returns:
        `p` and `q`, each with a leading axis of four.
    """
    zero = jnp.zeros(jnp.broadcast_shapes(jnp.shape(z), jnp.shape(eps)))
    p, q = (jnp.stack([zero + c for c in _polynomial(t, z, eps, order)]) for t in (P, Q))
    return p, q


def two_step_change(z: Real, T: Real, eps: Real, order: int = 9) -> tuple[Array, Array]:
    r"""Changes over two steps, $(\tilde z_{t+2} - \tilde z_t,\; T_{t+2} - T_t)$.

    Args:
        z: rescaled residual.
        T: rescaled curvature.
        eps: minus the second eigenvalue.
        order: powers of $\tilde z$ kept; 9 is exact.

    Returns:
        The two changes, broadcast shapes.
    """
    p, q = two_step_coefficients(z, eps, order)
    powers = (1.0, T, T**2, T**3)
    dz = sum(c * t for c, t in zip(p, powers, strict=True))
    dT = sum(c * t for c, t in zip(q, powers, strict=True))
    return jnp.asarray(dz), jnp.asarray(dT)


def two_step(eps: Real) -> Map:
    r"""Two steps of gradient descent as one step of a Map on $(\tilde z, T)$.

    Args:
        eps: minus the second eigenvalue.

    Returns:
        A Map on [`Point`][secant.theory.edge.two_eigenvalue.Point].
    """
    single = two_eigenvalue(-eps)
    return Map(init=lambda point: Point(*point), step=lambda point: single.step(single.step(point)))


def two_step_degrees(points: Float[np.ndarray, "n 3"], nodes: int = 16) -> Int[np.ndarray, "2 3"]:
    r"""Degrees of the two-step changes of $\tilde z$ and $T$ (rows) in $\tilde z$, $T$ and $\epsilon$ (columns).

    The function uses values of the map alone. Along a line through a point a change is a polynomial of one variable,
    and its expansion in Chebyshev polynomials ends at its degree.

    Args:
        points: some $(\tilde z, T, \epsilon)$; the result is the largest degree over all points.
        nodes: number of sample points; this determines polynomials of a degree below `nodes`.
    """
    x = np.polynomial.chebyshev.chebpts1(nodes)
    lines = np.broadcast_to(points[None, :, None, :], (3, len(points), nodes, 3)).copy()
    for variable in range(3):
        lines[variable, :, :, variable] = x
    z, T, eps = np.moveaxis(lines, -1, 0)
    after = jax.jit(lambda z, T, eps: two_step(eps).step(Point(z, T)))(z, T, eps)
    changes = np.stack(after) - np.stack([z, T])
    series = np.abs(np.polynomial.chebyshev.chebfit(x, changes.reshape(-1, nodes).T, nodes - 1))
    there = series > 1e-11 * series.max(axis=0)
    last = nodes - 1 - np.argmax(there[::-1], axis=0)
    return last.reshape(2, 3, -1).max(axis=-1)


def local_change(z: Real, y: Real, eps: Real) -> tuple[Array, Array]:
    r"""Series of the two-step changes of $\tilde z$ and $y$ near the edge.

    $$\Delta\tilde z = 2y\tilde z + y^2\tilde z - (1-\epsilon)y\tilde z^2 - \tfrac{1-\epsilon}2 y^2\tilde z^2
       + \tfrac{1-\epsilon}2 y^3\tilde z^2 - \epsilon y\tilde z^3 + \dots$$
    $$\Delta y = -4\epsilon\tilde z^2 - 2(4-3\epsilon+4\epsilon^2)y\tilde z^2
      - 12(1-\epsilon+\epsilon^2)y^2\tilde z^2
       - (8-9\epsilon+8\epsilon^2)y^3\tilde z^2 - 4\epsilon(1-\epsilon)\tilde z^3
       - 2(1-\epsilon)(4-\epsilon+4\epsilon^2)y\tilde z^3 - \dots$$

    Args:
        z: rescaled residual.
        y: distance to the nullcline.
        eps: minus the second eigenvalue.

    Returns:
        $\Delta\tilde z$ through total degree 5 in $(y, \tilde z)$ where known, and $\Delta y$ through $\tilde z^4$ at
        first order in $y$; broadcast shapes.
    """
    e = eps
    dz = (
        2 * y * z + y**2 * z - (1 - e) * y * z**2 - (1 - e) / 2 * y**2 * z**2 + (1 - e) / 2 * y**3 * z**2 - e * y * z**3
    )
    dy = (
        -4 * e * z**2
        - 2 * (4 - 3 * e + 4 * e**2) * y * z**2
        - 12 * (1 - e + e**2) * y**2 * z**2
        - (8 - 9 * e + 8 * e**2) * y**3 * z**2
        - 4 * e * (1 - e) * z**3
        - 2 * (1 - e) * (4 - e + 4 * e**2) * y * z**3
        - (1 - e) * (20 - 17 * e + 20 * e**2) * y**2 * z**3
        - 2 * e * (4 - 7 * e + 4 * e**2) * z**4
        - (10 - 30 * e + 41 * e**2 - 30 * e**3 + 10 * e**4) * y * z**4
    )
    return jnp.asarray(dz), jnp.asarray(dy)


def lowest_order_change(z: Real, y: Real, eps: Real) -> tuple[Array, Array]:
    r"""Lowest order of the two-step changes: $\Delta\tilde z = 2y\tilde z$,
    $\Delta y = -2(4-3\epsilon+4\epsilon^2)y\tilde z^2 - 4\epsilon\tilde z^2$.

    Args:
        z: rescaled residual.
        y: distance to the nullcline.
        eps: minus the second eigenvalue.

    Returns:
        The two changes, broadcast shapes.
    """
    A = 4 - 3 * eps + 4 * eps**2
    return jnp.asarray(2 * y * z), jnp.asarray(-2 * A * y * z**2 - 4 * eps * z**2)


def lowest_order(eps: Real) -> Map:
    r"""The lowest-order two-step dynamics as a Map; one step of the Map is two steps of gradient descent.

    Args:
        eps: minus the second eigenvalue.

    Returns:
        A Map on [`Local`][secant.theory.edge.two_step.Local].
    """

    def step(state: Local) -> Local:
        dz, dy = lowest_order_change(state.z, state.y, eps)
        return Local(z=state.z + dz, y=state.y + dy)

    return Map(init=lambda state: Local(*state), step=step)


def lowest_order_flow(eps: Real) -> Callable[[Local], Local]:
    r"""The lowest-order dynamics in continuous time, $\dot{\tilde z} = 2y\tilde z$,
    $\dot y = -2(4-3\epsilon+4\epsilon^2)y\tilde z^2 - 4\epsilon\tilde z^2$.

    Args:
        eps: minus the second eigenvalue.

    Returns:
        The field on [`Local`][secant.theory.edge.two_step.Local]; the unit of time is two steps.
    """
    return lambda state: Local(*lowest_order_change(state.z, state.y, eps))
