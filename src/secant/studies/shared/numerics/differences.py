"""How far two arrays are apart: the numbers that identities are judged by."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def largest(found: ArrayLike, exact: ArrayLike = 0.0) -> float:
    """The largest difference of two arrays, entry by entry."""
    return float(np.abs(np.asarray(found) - np.asarray(exact)).max())


def relative(found: ArrayLike, exact: ArrayLike) -> float:
    """The largest difference of two arrays, over the largest entry of the second."""
    return largest(found, exact) / largest(exact)
