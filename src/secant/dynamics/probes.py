"""Probes: named functions of the state, recorded along a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp

from secant.core.arguments import whole
from secant.dynamics.axes import RESERVED, call_with


@dataclass(frozen=True)
class Probe:
    r"""A function of the state to record, and how often.

    Attributes:
        function: state -> array. May also take, by name, the values of the run's axes: `lambda state, lr: ...`. May
            return several arrays as `{"value": ..., "error": ...}`: the value is recorded under the probe's own name,
            the others as `name_error` and so on.
        every: record at steps $0, k, 2k, \dots$
        units: unit of the recorded values, kept in the dataset.
        label: the name of the quantity in a plot (LaTeX between dollars).
        dims: names of the value's own dimensions, if it has any.
        memory: for a probe that builds on its last record (a warm start): `state -> memory`, its memory before the
            first record; it may take values of axes, too. The function then takes `(state, memory)` and returns
            `(value, memory)`.
        whole: whether the function sees the whole state, also of a Map that shows only a part.
    """

    function: Callable[..., Any]
    every: int = 1
    units: str = ""
    label: str = ""
    dims: tuple[str, ...] = field(default=())
    memory: Callable[..., Any] | None = None
    whole: bool = False

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise TypeError(f"Probe: `function` must be callable, got {type(self.function).__name__}.")
        if self.memory is not None and not callable(self.memory):
            raise TypeError(f"Probe: `memory` must be a function of the state, got {type(self.memory).__name__}.")
        whole("Probe", "every", self.every, 1)


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


def look_afresh(name: str, probe: Probe, available: Mapping[str, Any], state: Any) -> dict[str, Any]:
    """A probe's records at one moment, whatever came before: a probe with a memory starts anew each time."""
    role = f"probe {name!r}"
    if probe.memory is None:
        return named_records(name, call_with(probe.function, available, state, role=role))
    return named_records(name, call_with(probe.function, available, state, probe.memory(state), role=role)[0])


def named_records(name: str, value: Any) -> dict[str, Any]:
    """The arrays that a probe returned, by the names under which they are recorded."""
    if not isinstance(value, Mapping):
        return {name: jnp.asarray(value)}
    if "value" not in value:
        raise TypeError(
            f"probe {name!r} returned {sorted(value)}. A probe of several arrays must name the main one 'value'."
        )
    return {name if key == "value" else f"{name}_{key}": jnp.asarray(array) for key, array in value.items()}
