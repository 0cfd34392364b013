"""The cells of a sweep: every combination of some values of a study's options."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from secant.lab import config as configs
from secant.lab.store import code_version
from secant.lab.study import Config, Study

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True)
class Grid:
    """A study, the values of its options to combine, and the configurations that result.

    Attributes:
        study: the study.
        over: the values of every option that is swept.
        scale: where the other options come from.
        cells: the swept options of every cell; the last one changes fastest.
        configs: the whole configuration of every cell.
    """

    study: Study
    over: dict[str, tuple[Any, ...]]
    scale: str
    cells: tuple[dict[str, Any], ...]
    configs: tuple[Config, ...]

    @property
    def identity(self) -> dict[str, str]:
        """What makes it this sweep and no other, as attributes for a file."""
        rest = {n: v for n, v in configs.content(self.configs[0]).items() if n not in self.over}
        return {
            "secant_study": self.study.id,
            "secant_options": json.dumps(rest, sort_keys=True),
            "secant_over": json.dumps(self.over, sort_keys=True),
            "secant_code": code_version(self.study),
        }

    def combine(self, parts: Iterable[xr.Dataset]) -> xr.Dataset:
        """The data of all cells as one: a dimension for every swept option, in front of the study's own."""
        import xarray as xr

        numbered = [_numbered(part) for part in parts]
        aligned = list(xr.align(*numbered, join="outer", copy=False))
        taken = {str(name) for part in aligned for name in (*part.dims, *part.variables)}
        for name, values in reversed(self.over.items()):
            dimension = f"swept_{name}" if name in taken else name
            labels = xr.DataArray(_labels(values), dims=dimension, name=dimension)
            aligned = [
                xr.concat(
                    aligned[start : start + len(values)],
                    labels,
                    data_vars="all",
                    coords="different",
                    compat="equals",
                    join="exact",
                    combine_attrs="drop_conflicts",
                )
                for start in range(0, len(aligned), len(values))
            ]
        return aligned[0].assign_attrs(**self.identity, secant_scale=self.scale)


def grid(study: Study, over: Mapping[str, Iterable[Any]], scale: str, options: Mapping[str, Any]) -> Grid:
    """Checks everything and makes all configurations.

    Raises:
        ValueError: nothing to sweep over, no values, a value twice or outside its limits, an option that is both
            swept and given.
        TypeError: an unknown option, or a value of the wrong type.
    """
    if not isinstance(over, Mapping):
        raise TypeError(f"over: expected a mapping from options to their values, got {over!r}.")
    if not over:
        known = ", ".join(vars(study.config(scale)))
        raise ValueError(f"over: name an option of {study.id} and its values. Options: {known or 'none'}.")
    swept: dict[str, tuple[Any, ...]] = {}
    for name, values in over.items():
        if name in options:
            raise ValueError(
                f"{name}: swept over, and given as {options[name]!r} as well. Leave out one of them: {name} can be "
                "one value for all cells, or take several."
            )
        swept[name] = _values(name, values)
    cells = tuple(dict(zip(swept, values, strict=True)) for values in itertools.product(*swept.values()))
    made = tuple(study.config(scale, **options, **cell) for cell in cells)
    return Grid(study, swept, scale, cells, made)


def text(cell: Mapping[str, Any]) -> str:
    """The options of a cell in a line, such as `epsilon=0.01, sizes=64,128`."""
    return ", ".join(f"{name}={value_text(value)}" for name, value in cell.items())


def value_text(value: Any) -> str:
    """A value as it is written on the command line."""
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _values(name: str, given: Any) -> tuple[Any, ...]:
    given = given.tolist() if hasattr(given, "tolist") else given
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(f"over: {name}: expected the values to take, such as [1, 2], got {given!r}.")
    values = tuple(_plain(value) for value in given)
    if not values:
        raise ValueError(f"over: {name}: no values given. Give at least one.")
    for place, value in enumerate(values):
        if value in values[:place]:
            raise ValueError(f"over: {name}: {value!r} is given twice. Give every value once.")
    return values


def _plain(value: Any) -> Any:
    value = value.tolist() if hasattr(value, "tolist") else value
    return tuple(value) if isinstance(value, list) else value


def _labels(values: tuple[Any, ...]) -> np.ndarray:
    """Numbers as they are, everything else as text."""
    if all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
        return np.array(values)
    return np.array([value_text(value) for value in values])


def _numbered(data: xr.Dataset) -> xr.Dataset:
    """The data with a number for every place along a dimension that has no labels, so that sizes may differ."""
    return data.assign_coords({d: np.arange(size) for d, size in data.sizes.items() if d not in data.coords})
