"""Measurements: quantities to record along a training run, described before the problem is known."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from secant.dynamics.axes import call_with
from secant.dynamics.probes import Probe
from secant.optim.problem import Problem


class Pair(NamedTuple):
    """A measurement for a training loop of your own; a batch is `(x, y)`.

    Attributes:
        init: `(params, batch) -> memory`, before the first look.
        look: `(params, batch, memory) -> (record, memory)`.
    """

    init: Callable[[Any, tuple[Any, Any]], Any]
    look: Callable[[Any, tuple[Any, Any], Any], tuple[Any, Any]]


@dataclass(frozen=True)
class Measurement:
    """A quantity to record along a training run, described before the problem is known.

    Attributes:
        make: `(problem, **options) -> Probe`.
        options: the options that `make` is given.
        inputs: whether the quantity uses derivatives by the input, and therefore needs all input features.
    """

    make: Callable[..., Probe]
    options: tuple[tuple[str, Any], ...]
    inputs: bool = False

    def on(self, problem: Problem) -> Probe:
        """The probe that measures this on a problem; its state is the parameters."""
        return _made(self, problem)

    def pair(self, f: Callable[..., Any], loss: Any) -> Pair:
        """The measurement for a training loop of your own: its first memory, and its look at any batch.

        Both are functions of arrays alone. They can be traced, and are compiled once for all batches of one size.

        Args:
            f: any `f(params, x)`.
            loss: a [`Loss`][secant.losses.Loss], its name, or any scalar function of outputs and targets.

        Example:
            ```python
            import jax
            import secant as sc

            task = sc.data.load("digits", classes=(0, 1), samples=64)
            net = sc.nets.mlp([32], activation="tanh")
            params = net.init(jax.random.key(0), task.train.x.shape)
            init, look = sc.measure.sharpness().pair(net.apply, "mse")
            look = jax.jit(look)
            for start in (0, 32):
                batch = task.train.x[start : start + 32], task.train.y[start : start + 32]
                memory = init(params, batch) if start == 0 else memory
                record, memory = look(params, batch, memory)
            ```
        """

        def at(batch: tuple[Any, Any]) -> Probe:
            probe = self.make(Problem(f, *batch, loss), **dict(self.options))
            if probe.whole:
                raise ValueError(
                    "Measurement.pair: this measurement needs the whole state of a run, such as its next batch, and a "
                    "loop of your own has no such state. Record it with `train(..., probes=...)`."
                )
            return probe

        def init(params: Any, batch: tuple[Any, Any]) -> Any:
            first = at(batch).memory
            return None if first is None else first(params)

        def look(params: Any, batch: tuple[Any, Any], memory: Any) -> tuple[Any, Any]:
            probe = at(batch)
            return (probe.function(params), None) if probe.memory is None else probe.function(params, memory)

        return Pair(init, look)

    def on_each(self, problem: Callable[..., Problem], example: Problem) -> Probe:
        """The probe for runs that each have a problem of their own, made from the values of the axes.

        Args:
            problem: `(**values) -> Problem`.
            example: one of these problems, which shows what all of them share.
        """
        found, (look, remember) = self.on(example), _looks(self, problem)
        return dataclasses.replace(found, function=look, memory=None if found.memory is None else remember)


@functools.lru_cache(maxsize=64)
def _made(measurement: Measurement, problem: Problem) -> Probe:
    return measurement.make(problem, **dict(measurement.options))


@functools.lru_cache(maxsize=64)
def _looks(measurement: Measurement, problem: Callable[..., Problem]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The look and the first memory. They are the same functions in every run, so that compiled code is used again."""

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
    """A `Measurement` of what `make(problem, **options)` measures."""
    return Measurement(make, tuple(options.items()))
