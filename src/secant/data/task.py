"""A task: what a model trains on, what it is tested on, and how both were made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np


class Split(NamedTuple):
    """Inputs and targets, one row a sample.

    Attributes:
        x: inputs, shape `(samples, *features)`.
        y: targets, shape `(samples,)` for one output, `(samples, outputs)` for several.
    """

    x: np.ndarray
    y: np.ndarray

    def __len__(self) -> int:
        """How many samples."""
        return len(self.x)


@dataclass(frozen=True)
class Task:
    """Training and test data with their recipe.

    Attributes:
        train: what the model sees.
        test: what it is judged by.
        recipe: every choice that made them, as plain values, to be kept with the run.
    """

    train: Split
    test: Split
    recipe: dict[str, Any] = field(default_factory=dict)
