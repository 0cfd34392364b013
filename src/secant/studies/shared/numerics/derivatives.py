"""Derivatives along the imaginary axis: to rounding, without a difference of large numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

STEP = 1e-30
"""Step along i: the derivative is the imaginary part of the result, over the step."""


def derivative(function: Callable[[np.ndarray], Any], at: np.ndarray) -> np.ndarray:
    """The derivative of an analytic function of an array, with a row for each entry of `at`.

    A row holds the entries of the result one after the other; it is a number where the result is a number.
    """
    rows = []
    for place in np.ndindex(at.shape):
        moved = at.astype(complex)
        moved[place] += STEP * 1j
        found = np.imag(function(moved)) / STEP
        rows.append(found.ravel() if found.ndim else found)
    return np.stack(rows)
