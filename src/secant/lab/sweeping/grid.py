"""The cells of a sweep: every combination of some values of a study's options."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from secant.lab.registry import config as configs
from secant.lab.registry.study import Config, Study
from secant.lab.runs.code import code_version

if TYPE_CHECKING:
    import xarray as xr


LARGEST = 100_000
"""Cells of the largest sweep. Each cell is a run with its own directory."""


@dataclass(frozen=True)
class Grid:
    """A study, the values of its options to combine, and the configurations that result.

    Attributes:
        study: the study.
        over: the values of every option that is swept.
        scale: the scale that sets the other options.
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
        """What identifies the sweep, as attributes for a file."""
        rest = {n: v for n, v in configs.content(self.configs[0]).items() if n not in self.over}
        return {
            "secant_study": self.study.id,
            "secant_options": json.dumps(rest, sort_keys=True),
            "secant_over": json.dumps(self.over, sort_keys=True),
            "secant_code": code_version(self.study),
        }

    def combine(self, parts: Iterable[xr.Dataset]) -> xr.Dataset:
        """The data of all cells together, with a dimension for every swept option in front of the study's own."""
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
            swept and given, more cells than a sweep may have.
        TypeError: an unknown option, or a value of the wrong type.
    """
    if not isinstance(over, Mapping):
        raise TypeError(f"over: expected a mapping from options to their values, got {over!r}.")
    if not over:
        known = ", ".join(vars(study.config(scale)))
        raise ValueError(f"over: name an option of {study.id} and its values. Options: {known or 'none'}.")
    for name in over:
        if name in options:
            raise ValueError(
                f"{name}: swept over, and given as {options[name]!r} as well. Leave out one of them: {name} can be "
                "one value for all cells, or take several."
            )
    listed = {name: _listed(name, values) for name, values in over.items()}
    refuse_too_many({name: count(values) for name, values in listed.items()})
    swept = {name: _values(name, values) for name, values in listed.items()}
    cells = tuple(dict(zip(swept, values, strict=True)) for values in itertools.product(*swept.values()))
    made = tuple(study.config(scale, **options, **cell) for cell in cells)
    return Grid(study, swept, scale, cells, made)


def text(cell: Mapping[str, Any]) -> str:
    """The options of a cell in a line, such as `epsilon=0.01, sizes=64,128`."""
    return ", ".join(f"{name}={value_text(value)}" for name, value in cell.items())


def value_text(value: Any) -> str:
    """A value as it is written on the command line."""
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def count(values: Sequence[Any] | range) -> int:
    """How many values there are. A range may be longer than any list."""
    if isinstance(values, range):
        towards = 1 if values.step > 0 else -1
        return max(0, (values.stop - values.start + values.step - towards) // values.step)
    return len(values)


def refuse_too_many(counts: Mapping[str, int]) -> None:
    """Raises a `ValueError` if these numbers of values make more cells than a sweep may have."""
    cells = math.prod(max(number, 1) for number in counts.values())
    if cells > LARGEST:
        values = " and ".join(f"{number:,} of {name}" for name, number in counts.items())
        raise ValueError(
            f"over: the values, {values}, make {cells:,} cells, and a sweep has at most {LARGEST:,}. Give fewer values."
        )


def _listed(name: str, given: Any) -> Sequence[Any]:
    """The values as given, unchecked, because there may be too many."""
    dimensions = getattr(given, "ndim", None)
    if isinstance(given, str) or not isinstance(given, Iterable) or dimensions == 0:
        raise TypeError(f"over: {name}: expected the values to take, such as [1, 2], got {given!r}.")
    if isinstance(given, Sequence) or dimensions is not None:
        counted: Any = given
        return counted
    return list(itertools.islice(given, LARGEST + 1))  # an iterator may be endless


def _values(name: str, given: Sequence[Any]) -> tuple[Any, ...]:
    values = tuple(_plain(value) for value in (given.tolist() if hasattr(given, "tolist") else given))
    if not values:
        raise ValueError(f"over: {name}: no values given. Give at least one.")
    seen: set[Any] = set()
    for value in values:
        if not isinstance(value, Hashable):
            raise TypeError(f"over: {name}: expected plain values, such as numbers or tuples of them, got {value!r}.")
        if value in seen:
            raise ValueError(f"over: {name}: {value!r} is given twice. Give every value once.")
        seen.add(value)
    return values


def _plain(value: Any) -> Any:
    value = value.tolist() if hasattr(value, "tolist") else value
    return tuple(map(_plain, value)) if isinstance(value, list) else value


def _labels(values: tuple[Any, ...]) -> np.ndarray:
    """Labels of a dimension: numbers stay numbers, everything else becomes text."""
    if all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
        return np.array(values)
    return np.array([value_text(value) for value in values])


def _numbered(data: xr.Dataset) -> xr.Dataset:
    """The data with dimensions without labels numbered, so that sizes may differ from cell to cell."""
    return data.assign_coords({d: np.arange(size) for d, size in data.sizes.items() if d not in data.coords})
