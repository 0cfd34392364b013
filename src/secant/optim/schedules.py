r"""Schedules, step sizes that change along a run: functions `step -> step size`, for `secant.optimisers` and optax.

Each constructor checks its arguments: a schedule is positive and finite at every step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from secant.core.arguments import whole

Schedule = Callable[[Any], Float[Array, ""]]
"""From the number of steps made to the size of the next one."""


def piecewise(sizes: Mapping[int, float]) -> Schedule:
    r"""A piecewise constant step size: `{0: 5.0, 50: 8.0}` is 5 for the first 50 steps and 8 from then on.

    Args:
        sizes: step number -> the step size from there on. Step numbers rise and begin at 0.
    """
    steps, values = np.asarray(list(sizes)), [_size("piecewise", value) for value in sizes.values()]
    if not len(steps) or steps.dtype.kind not in "iu" or steps[0] != 0 or (np.diff(steps) <= 0).any():
        raise ValueError(f"piecewise: `sizes` must begin at step 0 and rise from step to step, got {list(sizes)}.")
    table = np.asarray(values)

    def schedule(step: Any) -> Array:
        return jnp.asarray(table)[jnp.searchsorted(jnp.asarray(steps), step, side="right") - 1]

    return schedule


def cyclical(low: float, high: float, period: int) -> Schedule:
    """A triangular wave: from `low` up to `high` and back in every `period` steps."""
    low, high, period = _size("cyclical", low), _size("cyclical", high), whole("cyclical", "period", period, 2)

    def schedule(step: Any) -> Array:
        phase = (step % period) / period
        return low + (high - low) * (1 - jnp.abs(2 * phase - 1))

    return schedule


def decayed(start: float, factor: float, every: int) -> Schedule:
    """A decaying step size: multiplied by `factor`, above 0 and at most 1, after `every` steps."""
    start, every = _size("decayed", start), whole("decayed", "every", every, 1)
    if not 0 < factor <= 1:
        raise ValueError(f"decayed: `factor` must be above 0 and at most 1, got {factor!r}.")
    return lambda step: start * factor ** jnp.floor_divide(step, every)


def warm_up(schedule: float | Schedule, steps: int) -> Schedule:
    """A linear warm-up: rises over the first `steps` steps to the value of another schedule, then follows it."""
    count = whole("warm_up", "steps", steps, 1)
    inner = schedule if callable(schedule) else constant(schedule)
    return lambda step: inner(step) * jnp.minimum(1.0, (step + 1) / count)


def cosine(start: float, steps: int, end: float = 0.0) -> Schedule:
    r"""Half a cosine, from `start` down to `end` after `steps` steps; it stays at `end`, which may be 0."""
    start, count = _size("cosine", start), whole("cosine", "steps", steps, 1)
    if not (np.isfinite(end) and 0 <= end <= start):
        raise ValueError(f"cosine: `end` must be at least 0 and at most `start`, got {end!r}.")

    def schedule(step: Any) -> Array:
        return end + (start - end) * (1 + jnp.cos(jnp.pi * jnp.minimum(step / count, 1.0))) / 2

    return schedule


def constant(size: float) -> Schedule:
    """The same step size at every step."""
    value = _size("constant", size)
    return lambda step: jnp.asarray(value) + 0 * step


def _size(caller: str, value: Any) -> float:
    found = float(value)
    if not (np.isfinite(found) and found > 0):
        raise ValueError(f"{caller}: a step size must be positive and finite, got {value!r}.")
    return found


__all__ = ["Schedule", "constant", "cosine", "cyclical", "decayed", "piecewise", "warm_up"]
