"""Something to record along a training run, before it is known of which problem."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from secant.dynamics.axes import call_with
from secant.dynamics.probes import Probe
from secant.optim.problem import Problem


@dataclass(frozen=True)
class Measurement:
    """Something to record along a training run.

    Attributes:
        make: `(problem, **options) -> Probe`.
        options: what `make` is given.
        inputs: whether it looks at derivatives by the input, and so needs all of its features.
    """

    make: Callable[..., Probe]
    options: tuple[tuple[str, Any], ...]
    inputs: bool = False

    def on(self, problem: Problem) -> Probe:
        """The probe that measures this on a problem; its state is the parameters."""
        return _made(self, problem)

    def on_each(self, problem: Callable[..., Problem], example: Problem) -> Probe:
        """The probe that measures this on the problem that belongs to the values of the axes.

        Args:
            problem: `(**values) -> Problem`.
            example: one of them, for what all of them have in common.
        """
        found, (look, remember) = self.on(example), _looks(self, problem)
        return dataclasses.replace(found, function=look, memory=None if found.memory is None else remember)


@functools.lru_cache(maxsize=64)
def _made(measurement: Measurement, problem: Problem) -> Probe:
    return measurement.make(problem, **dict(measurement.options))


@functools.lru_cache(maxsize=64)
def _looks(measurement: Measurement, problem: Callable[..., Problem]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The look and the first memory; the same functions for every run, so that their compiled code is found again."""

    def at(values: dict[str, Any]) -> Probe:
        return measurement.make(problem(**values), **dict(measurement.options))

    def look(state: Any, *memory: Any, **values: Any) -> Any:
        return call_with(at(values).function, values, state, *memory, role="a measurement")

    def remember(state: Any, **values: Any) -> Any:
        first = at(values).memory
        assert first is not None
        return call_with(first, values, state, role="a measurement")

    return look, remember


def measurement(make: Callable[..., Probe], **options: Any) -> Measurement:
    """What `make(problem, **options)` measures."""
    return Measurement(make, tuple(options.items()))
