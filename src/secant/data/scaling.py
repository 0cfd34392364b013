"""Scaling of inputs to mean zero and variance one, in blocks of rows, so that double precision needs little memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

SCALINGS = ("feature", "channel", "global", "none")

BLOCK = 2**22
"""How many numbers are handled at a time."""


def moments(x: np.ndarray, scaling: str, top: float) -> tuple[np.ndarray, np.ndarray]:
    r"""The means to subtract and the spreads to divide by.

    Deviations are taken from the first entry. A coordinate that never changes therefore has a spread of exactly zero,
    which becomes one.

    Args:
        x: training inputs, shape `(samples, height, width, channels)`.
        scaling: the group over which mean and variance are taken: `feature`, `channel`, `global`, or `none`.
        top: the number that `none` divides by.
    """
    if scaling == "none":
        return np.zeros(()), np.asarray(top)
    axes = {"feature": (0,), "channel": (0, 1, 2), "global": (0, 1, 2, 3)}[scaling]
    count = math.prod(x.shape[axis] for axis in axes)
    origin = x[(0,) * len(axes)].astype(float)
    shift = np.sum([(x[rows] - origin).sum(axis=axes) for rows in _rows(x)], axis=0) / count
    variance = np.sum([((x[rows] - origin - shift) ** 2).sum(axis=axes) for rows in _rows(x)], axis=0) / count
    return origin + shift, np.where(variance > 0, np.sqrt(variance), 1.0)


def apply(x: np.ndarray, mean: np.ndarray, spread: np.ndarray, dtype: Any) -> np.ndarray:
    r"""$(x - \text{mean})/\text{spread}$, computed in double precision and kept as `dtype`."""
    scaled = np.empty(x.shape, dtype)
    for rows in _rows(x):
        scaled[rows] = (x[rows] - mean) / spread
    return scaled


def _rows(x: np.ndarray) -> Iterator[slice]:
    step = max(1, BLOCK // math.prod(x.shape[1:]))
    return (slice(start, start + step) for start in range(0, len(x), step))
