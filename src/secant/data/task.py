"""A task: training data, test data, and the recipe of both."""

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
        """How many samples there are."""
        return len(self.x)


@dataclass(frozen=True)
class Task:
    """Training and test data with their recipe.

    Attributes:
        train: the samples that the model sees.
        test: the samples that judge it.
        recipe: every choice behind the data, as plain values, to be kept with the run.
        validation: held-out samples for choosing among models; None unless you asked for them.
    """

    train: Split
    test: Split
    recipe: dict[str, Any] = field(default_factory=dict)
    validation: Split | None = None

    def attributes(self) -> dict[str, str | int | float | list[int]]:
        """The recipe as attributes of a dataset: flat, with names that begin with `data` and types that any file keeps.

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
