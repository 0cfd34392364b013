"""The optimiser of a watched run in JAX: its step size, threshold and divisor, from its state."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from secant.core.types import Params
from secant.monitors.in_jax.recognition import recognised
from secant.monitors.optimizers import BLIND, Facts, from_facts
from secant.optim.optimizers.optimizer import Optimiser, OptimiserState

SQUARES = frozenset({"ScaleByAdamState", "ScaleByRmsState", "ScaleByRmsWithCountState"})
"""States of optax that hold a mean square, as `nu`."""


class Rule:
    """What is known of an optimiser.

    Args:
        optimiser: one of [`secant.optimisers`][secant.optim.optimisers], a transformation of optax, facts such as
            `{"name": "adam", "lr": 1e-3}`, or None.
        params: the parameters of the run; only their shapes are used.

    Attributes:
        facts: its name and its settings, as far as they are known.
        missing: a sentence on what is not known; empty if all is known.
    """

    def __init__(self, optimiser: Any, params: Params) -> None:
        self._own = optimiser if isinstance(optimiser, Optimiser) and optimiser.name != "optax" else None
        self._lr: Any = lambda state: None
        if optimiser is None:
            self.facts = Facts("none", missing=f"no `optimiser` was given: {BLIND}.")
        elif isinstance(optimiser, Mapping):
            self.facts = from_facts(optimiser)
        else:
            self.facts, self._lr = recognised(getattr(optimiser, "tx", optimiser), params)
        self.missing = "" if self._knows() else self.facts.missing

    def _knows(self) -> bool:
        return self._own is not None and self._own.scale is not None and self._own.edge is not None

    def lr(self, state: Any, step: int) -> float | None:
        """The step size of the next step."""
        found = self.lr_under_way(state, step)
        return None if found is None else float(found)

    def lr_under_way(self, state: Any, step: int) -> Any:
        """The step size of the next step, which may be an array that is still under way on the device."""
        told = self.facts.lr
        if callable(told):
            return float(np.asarray(told(step)))
        found = self._lr(_inner(state)) if state is not None else None
        return told if found is None else found

    def threshold(self, lr: float | None) -> float | None:
        """The curvature at which the optimiser becomes unstable at this step size, or None."""
        found = self.facts.threshold(lr)
        return float(self._own.threshold) if found is None and self._own is not None and self._knows() else found

    def critical_lr(self, sharpness: float, lr: float | None) -> float | None:
        """The step size at which a sharpness is at the threshold, or None."""
        found = self.facts.critical_lr(sharpness)
        edge = self.threshold(lr)
        if found is not None or lr is None or edge is None:
            return found
        return lr * edge / sharpness if sharpness > 0 else math.inf

    def divisor(self, state: Any, params: Params, gradient: Params) -> Params | None:
        """The diagonal that divides the next step, in the shape of the parameters; None for the identity.

        This method can be traced. Arrays that the optimiser does not move are divided by infinity.
        """
        if state is None:
            return None
        if self._own is not None and self._own.scale is not None and not self.facts.divides:
            return self._own.preconditioner(OptimiserState(params, _inner(state)), gradient)
        if not self.facts.divides:
            return None
        squares, count = _squares(_inner(state), params)

        def one(square: Any, g: Any) -> Any:
            if square is None:
                return jnp.full_like(g, jnp.inf)
            return self.facts.divisor(square.astype(g.dtype), g, count.astype(g.dtype), jnp.sqrt)

        leaves, structure = jax.tree.flatten(gradient)
        return jax.tree.unflatten(structure, [one(*pair) for pair in zip(squares, leaves, strict=True)])


def _inner(state: Any) -> Any:
    return state.inner if isinstance(state, OptimiserState) else state


def _squares(state: Any, params: Params) -> tuple[list[Any], Any]:
    """The mean square of every array of the parameters, or None; and the number of steps so far."""
    import optax

    def held(path: Any, _: Any) -> bool:
        return getattr(path[-1], "tuple_name", "") in SQUARES

    leaves, structure = jax.tree.flatten(params)
    found: list[Any] = [None] * len(leaves)
    trees = [tree for _, tree in optax.tree_utils.tree_get_all_with_path(state, "nu", held)]
    for tree in trees:
        rows = jax.tree.leaves(tree)
        if len(rows) != len(leaves):
            rows = structure.flatten_up_to(tree)  # type: ignore[attr-defined]
        for number, (row, leaf) in enumerate(zip(rows, leaves, strict=True)):
            if hasattr(row, "shape") and row.shape == leaf.shape:
                found[number] = row
    if all(row is None for row in found):
        raise ValueError(
            "`opt_state` holds no mean square, although `optimiser` divides by one. Give the optimiser that made this "
            "state."
        )
    counts = [count for _, count in optax.tree_utils.tree_get_all_with_path(state, "count", held)]
    return found, jnp.ravel(counts[0])[0] if counts else jnp.zeros((), jnp.int32)


def is_optimiser(value: Any) -> bool:
    """Whether a value can be the optimiser of a run."""
    if value is None or isinstance(value, Mapping | Optimiser):
        return True
    value = getattr(value, "tx", value)
    return callable(getattr(value, "init", None)) and callable(getattr(value, "update", None))
