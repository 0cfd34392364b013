"""Probes: named functions of the state, recorded along a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from secant.dynamics.axes import RESERVED


@dataclass(frozen=True)
class Probe:
    r"""A function of the state to record, and how often.

    Attributes:
        function: state -> array. May also take, by name, the values of the run's axes: `lambda state, lr: ...`.
        every: record at steps $0, k, 2k, \dots$
        units: unit of the recorded values, kept in the dataset.
        label: what a plot calls it (LaTeX between dollars).
        dims: names of the value's own dimensions, if it has any.
    """

    function: Callable[..., Any]
    every: int = 1
    units: str = ""
    label: str = ""
    dims: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise TypeError(f"Probe: `function` must be callable, got {type(self.function).__name__}.")
        if isinstance(self.every, bool) or not isinstance(self.every, int) or self.every < 1:
            raise ValueError(f"Probe: `every` must be a whole number of at least 1, got {self.every!r}.")


def as_probes(probes: Mapping[str, Probe | Callable[..., Any]] | None, axes: tuple[str, ...]) -> dict[str, Probe]:
    """Reads and checks the `probes` argument of a run."""
    result = {}
    for name, probe in (probes or {}).items():
        if name in axes or name in RESERVED:
            raise ValueError(
                f"probes: {name!r} is already the name of an axis or of a result variable. Rename the probe."
            )
        result[name] = probe if isinstance(probe, Probe) else Probe(probe)
    return result
