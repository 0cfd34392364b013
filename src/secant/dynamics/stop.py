"""The rule when a trajectory ends: convergence and divergence are outcomes, not crashes."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from secant.core.arguments import whole


class Outcome(enum.IntEnum):
    """How a trajectory ended."""

    UNFINISHED = 0
    CONVERGED = 1
    DIVERGED = 2


def is_finite(state: Any) -> Bool[Array, ""]:
    """Whether every floating-point number in `state` is finite."""
    checks = [jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(state) if _is_inexact(leaf)]
    return jnp.all(jnp.stack(checks)) if checks else jnp.asarray(True)


@dataclass(frozen=True)
class Stop:
    """The rule that ends a trajectory before its last step.

    Each condition is a function of the state (and, by name, of the run's axis values) to a truth value. Whatever the
    conditions, a trajectory has diverged when the part of its state that is shown is not finite. A stopped trajectory
    is frozen: its later records hold its last value, and the result records how and when it ended.

    Attributes:
        converged: true once the trajectory has reached its goal.
        diverged: true once it has blown up.
        every: steps between two looks at the conditions; by default whenever the fastest probe records.
    """

    converged: Callable[..., Any] | None = None
    diverged: Callable[..., Any] | None = None
    every: int | None = None

    def __post_init__(self) -> None:
        if self.every is not None:
            whole("Stop", "every", self.every, 1)


def _is_inexact(leaf: Any) -> bool:
    return jnp.issubdtype(jnp.result_type(leaf), jnp.inexact)
