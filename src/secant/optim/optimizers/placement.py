"""Checks that a controller stands behind its optimiser: it must scale the update, and not the gradient."""

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
    """A loss of slope 1 everywhere, on which `check_order` tries a chain."""
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
    """Whether the first update climbs in every coordinate, as the gradient does and no step of an optimiser does.

    If the update is the gradient itself, the error comes while the program is traced. If the numbers are there, it
    comes then. Otherwise the answer is returned, and `before` is returned at every step but the first.
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
            f"{caller}: the controller must come last, behind the optimiser. Its update points uphill, as the gradient "
            f"does. Use `optax.chain(optax.sgd(1.0), control.{caller}(...))`."
        )
    return astray
