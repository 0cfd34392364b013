"""Trial runs of a model in JAX."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from secant.core.device import jit
from secant.monitors.doctor.trial import Runs
from secant.monitors.in_jax.optimizer import Rule, is_optimiser
from secant.optim.optimizers.optimizer import Optimiser

CHECKED = 20
"""Steps between two checks whether a run is lost already."""


def runs(
    loss: Callable[..., Any], params: Any, batch: Any, optimiser: Any, steps: int
) -> tuple[float, np.ndarray, Runs]:
    """The own step size, losses before the first step, and a function that makes a run; see `largest_step`."""
    if optimiser is None or isinstance(optimiser, dict) or not is_optimiser(optimiser):
        raise TypeError(
            "largest_step: `optimiser` must be a transformation of optax or one of secant.optimisers, got "
            f"{type(optimiser).__name__}."
        )
    rule = getattr(optimiser, "tx", optimiser)
    rule = rule.transformation if isinstance(rule, Optimiser) else rule
    state = rule.init(params)
    lr = Rule(optimiser, params).lr(state, 0)
    batch_of = batch if callable(batch) else lambda step: batch

    def number(at: Any, data: Any) -> jax.Array:
        found = loss(at, data)
        return jnp.asarray(found[0] if isinstance(found, tuple) else found).reshape(())

    @jit
    def step(at: Any, memory: Any, data: Any, multiple: Any) -> Any:
        value, gradient = jax.value_and_grad(number)(at, data)
        update, memory = rule.update(gradient, memory, at)
        moved = jax.tree.map(lambda p, u: (p + multiple * u).astype(jnp.result_type(p)), at, update)
        return moved, memory, value

    def run(multiple: float) -> np.ndarray:
        at, memory, found = params, state, []
        for count in range(steps):
            at, memory, value = step(at, memory, batch_of(count), jnp.float32(multiple))
            found.append(value)
            if count % CHECKED == 0 and not np.isfinite(float(value)):
                break
        return np.asarray(jax.device_get(found), float)

    several = max(steps // 10, 1) if callable(batch) else 1
    evaluate = jit(number)
    level = np.array([float(evaluate(params, batch_of(count))) for count in range(several)])
    return (math.nan if lr is None else float(lr)), level, run
