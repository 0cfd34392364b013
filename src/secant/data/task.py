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
        validation: held-out samples by which to choose among models, where they were asked for.
    """

    train: Split
    test: Split
    recipe: dict[str, Any] = field(default_factory=dict)
    validation: Split | None = None

    def attributes(self) -> dict[str, str | int | float | list[int]]:
        """The recipe as attributes of a dataset: flat, each name beginning with `data`, of types that any file keeps.

        Example:
            ```python
            import secant as sc

            task = sc.data.load("digits", classes=(0, 1), samples=100)
            halving = sc.Map(init=lambda x: x, step=lambda x: x / 2)
            run = sc.simulate(halving, 1.0, steps=10).dataset.assign_attrs(task.attributes())
            run.attrs["data"], run.attrs["data_samples"]  # ('digits', 100)
            ```
        """
        named = {name if name == "data" else f"data_{name}": value for name, value in self.recipe.items()}
        return {name: int(value) if isinstance(value, bool) else value for name, value in named.items()}
