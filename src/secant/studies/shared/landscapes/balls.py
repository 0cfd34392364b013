"""Random points of a ball."""

from __future__ import annotations

import numpy as np


def in_ball(rng: np.random.Generator, draws: int, d: int) -> np.ndarray:
    """Uniform points of the unit ball in `d` dimensions, `(draws, d)`."""
    x = rng.normal(size=(draws, d))
    return x * (rng.uniform(size=(draws, 1)) ** (1 / d) / np.linalg.norm(x, axis=1, keepdims=True))
