"""Whether what scales an update is given an update, and not the gradient."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool

from secant.core.arguments import is_traced
from secant.core.types import Params


class MisplacedError(ValueError):
    """A controller that is not behind the optimiser whose step it controls."""


def slope(params: Params) -> Array:
    """A loss of slope 1 everywhere, on which a chain can be tried."""
    return functools.reduce(operator.add, map(jnp.sum, jax.tree.leaves(params)))


def refuse_uphill(
    caller: str,
    updates: Params,
    params: Params,
    loss: Callable[[Params], Any],
    gradient: Params | None,
    first: Bool[Array, ""],
    before: Bool[Array, ""],
) -> Bool[Array, ""]:
    """Whether the first update climbs in every coordinate, as the gradient does and no step of an optimiser.

    It is raised where it can be seen: while the program is traced if the update is the gradient itself, later if the
    numbers are there. Elsewhere it is returned, and `before` at every step but the first.
    """
    given = jax.tree.leaves(updates)
    same = gradient is not None and all(map(operator.is_, given, jax.tree.leaves(gradient)))

    def climbs() -> Array:
        rise = jax.grad(loss)(params) if gradient is None else gradient
        ways = [u * g for u, g in zip(given, jax.tree.leaves(rise), strict=True)]
        rises = functools.reduce(operator.or_, [(way > 0).any() for way in ways])
        return functools.reduce(operator.and_, [(way >= 0).all() for way in ways], rises)

    astray = jnp.ones((), bool) if same else lax.cond(first, climbs, lambda: before)
    if same or (not is_traced(astray) and bool(astray)):
        raise MisplacedError(
            f"{caller}: it must come last, behind the optimiser, and was given an update that points uphill, as the "
            f"gradient does. Use `optax.chain(optax.sgd(1.0), control.{caller}(...))`."
        )
    return astray
