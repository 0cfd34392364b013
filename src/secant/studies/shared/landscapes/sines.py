"""Runs on a sum of sines, a loss of smoothness 1 that is not convex."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from secant.dynamics import simulate


def paths(optimiser: Any, random: np.random.Generator, draws: int, dim: int, steps: int) -> np.ndarray:
    r"""Weights of an optimiser on $\sum_i\sin w_i$ from random starts, `(draws, steps + 1, dim)`."""
    starts = random.uniform(-np.pi, np.pi, (draws, dim))
    found = simulate(
        optimiser(lambda w: jnp.sin(w).sum(-1)),
        lambda start: jnp.asarray(starts)[start],
        steps,
        over={"start": np.arange(draws)},
        probes={"w": lambda w: w},
    )
    return np.asarray(found["w"].transpose("start", "step", ...).values)
