"""Something to record along a training run, before it is known of which problem."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

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


@functools.lru_cache(maxsize=64)
def _made(measurement: Measurement, problem: Problem) -> Probe:
    return measurement.make(problem, **dict(measurement.options))


def measurement(make: Callable[..., Probe], **options: Any) -> Measurement:
    """What `make(problem, **options)` measures."""
    return Measurement(make, tuple(options.items()))
