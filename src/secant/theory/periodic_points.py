r"""Periodic points of a map of the plane, $F^k(p) = p$, by Newton's method from many starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float


@partial(jax.jit, static_argnums=(0, 2, 3))
def periodic_points(
    step: Callable[[Array, Array], Sequence[Array]],
    starts: Float[ArrayLike, "n 2"],
    period: int = 1,
    iterations: int = 60,
) -> tuple[Float[Array, "n 2"], Float[Array, "n"]]:
    r"""Periodic points of a map, where Newton's method $p \mapsto p - (DF^k - I)^{-1}(F^k(p) - p)$ ends.

    A search that fails ends at not-a-number or leaves a gap. Several searches may end at the same point.

    Args:
        step: the map $F$, of two numbers to two.
        starts: where the searches begin.
        period: $k$; the points found have this period or one that divides it.
        iterations: number of Newton steps.

    Returns:
        The ends, and the largest entry of $|F^k(p) - p|$ at each.

    Example:
        ```python
        import numpy as np
        from secant.theory.catapult.one_sample import step
        from secant.theory.periodic_points import periodic_points

        ends, gaps = periodic_points(lambda a, v: step(a, v, 0.3), np.array([[1.9, 4.5]]))  # the corner (2, 4.6)
        ```
    """

    def gap(point: Array) -> Array:
        x, y = point
        for _ in range(period):
            x, y = step(x, y)
        return jnp.stack([x, y]) - point

    def newton(_: Array, point: Array) -> Array:
        J, g = jax.jacfwd(gap)(point), gap(point)
        det = J[0, 0] * J[1, 1] - J[0, 1] * J[1, 0]
        return point - jnp.stack([J[1, 1] * g[0] - J[0, 1] * g[1], J[0, 0] * g[1] - J[1, 0] * g[0]]) / det

    def search(start: Array) -> tuple[Array, Array]:
        end = jax.lax.fori_loop(0, iterations, newton, start)
        return end, jnp.max(jnp.abs(gap(end)))

    return jax.vmap(search)(jnp.asarray(starts))
