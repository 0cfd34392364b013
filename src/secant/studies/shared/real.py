"""Real data in place of random data: options that choose them, and a few rows of samples."""

from __future__ import annotations

from typing import Any

import numpy as np

from secant import data
from secant.lab import Seeded, option

RANDOM = "random"
"""The name of randomly drawn data, beside the data sets that `secant.data` knows."""


class Chosen(Seeded):
    """The choice of data: random, or two classes of a real data set. Studies have sizes of their own."""

    data: str = option(RANDOM, help="random, or a data set that secant.data knows")
    classes: tuple[int, int] = option((0, 1), at_least=0, distinct=True, help="two classes of it, +1 and -1")

    def check(self) -> None:
        """Checks that the data set exists."""
        if self.data not in (RANDOM, *data.NAMES):
            raise ValueError(f"data: must be {RANDOM}, or one of {', '.join(data.NAMES)}; got {self.data!r}.")


def two_classes(name: str, classes: tuple[int, int], samples: int | None, seed: int) -> data.Split:
    """Standardised samples of two classes as 1 and -1: all pixels together, measures with units each separately."""
    scaling: Any = "feature" if name == "breast-cancer" else "global"
    return data.load(
        name, classes=classes, samples=samples, test_samples=1, scaling=scaling, seed=seed, dtype=np.float64
    ).train


def few(
    name: str, classes: tuple[int, int], samples: int, random: np.random.Generator, features: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Some samples for regression on their labels, of mean length 1, standardised like all samples of both classes.

    With `features` only this many features are kept, those that vary most.
    """
    x, y = two_classes(name, classes, None, 0)
    if features is not None:
        if features > x.shape[1]:
            raise ValueError(f"features: {name} has {x.shape[1]}, got {features}.")
        x = x[:, np.sort(np.argsort(-x.std(0).round(9), kind="stable")[:features])]
    if samples >= min(x.shape):
        raise ValueError(f"samples: at most {min(x.shape) - 1} of {name} can be fitted, got {samples}.")
    chosen = random.choice(len(x), samples, replace=False)
    return x[chosen] / np.linalg.norm(x[chosen], axis=1).mean(), y[chosen]
