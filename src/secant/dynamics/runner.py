"""The runner `simulate`: iterates any Map in one compiled loop and records its probes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from secant._version import __version__
from secant.core import progress as reporters
from secant.core.arguments import whole
from secant.dynamics import checkpoint as checkpoints
from secant.dynamics.axes import Axes, is_function
from secant.dynamics.loop import Carry, Loop, compiled
from secant.dynamics.map import Map
from secant.dynamics.probes import Probe, as_probes
from secant.dynamics.stop import Outcome, Stop
from secant.dynamics.trajectory import Trajectory, outcome_variables, record_variable

CHUNK_SECONDS = 0.25
"""How long the device works between two looks from the host."""

CHUNK_BYTES = 8 * 2**20
"""How much a chunk records before the host copies it."""

SAVE_SECONDS = 2.0
"""How often a run with a checkpoint saves itself; shorter runs are not worth saving."""

clock = time.perf_counter
"""The clock that sizes the chunks and times the saving. No number of a run depends on it."""


def simulate(
    system: Map | Callable[..., Map],
    start: Any,
    steps: int,
    *,
    probes: Mapping[str, Probe | Callable[..., Any]] | None = None,
    over: Mapping[str, Any] | None = None,
    stop: Stop | None = None,
    progress: reporters.Progress | None = None,
    checkpoint: str | Path | None = None,
    label: str = "simulate",
) -> Trajectory:
    r"""Iterates a Map, $s_{t+1} = F(s_t)$ for $t < $ `steps`, and records its probes.

    The loop is compiled once. About four times a second the host looks in: to show progress, to save, or to end the run
    when every trajectory has stopped. A run costs what a hand-written `jit(vmap(scan))` costs, and holds the recorded
    arrays and a few states.

    The result is a function of the arguments alone, whatever the clock says. If every trajectory stops before the last
    step, each probe's records end with its first look at or after the last stop, a look at the final state.

    Args:
        system: a [`Map`][secant.dynamics.Map], or a function of axis values that makes one: `lambda lr: ...`.
        start: the starting point given to the map's `init`, or a function of axis values that makes one.
        steps: how many steps to take.
        probes: what to record, by name: functions of the state, or [`Probe`][secant.dynamics.Probe]s with a cadence.
        over: named axes to batch over, all combinations of them in one run. Each is an array of values, or a pytree
            of arrays with one common leading length.
        stop: when a trajectory may end early; by default when it is no longer finite.
        progress: the object that is told how far the run is.
        checkpoint: a directory where a run longer than a moment saves itself. A run that was cut short continues from
            there, to the same bits.
        label: what progress calls this run.

    Returns:
        The records as a labelled dataset, and the final state.

    Example:
        ```python
        import jax.numpy as jnp
        import secant as sc

        run = sc.simulate(
            lambda r: sc.Map(init=lambda x: x, step=lambda x: r * x * (1 - x)),
            lambda x: x,
            steps=100,
            probes={"x_t": lambda x: x},
            over={"r": jnp.linspace(2.5, 4.0, 4), "x": jnp.array([0.2, 0.4])},
        )
        run.dataset.x_t.sizes  # {'r': 4, 'x': 2, 'step': 101}
        ```
    """
    steps = whole("simulate", "steps", steps, 0)
    axes = Axes.of(over)
    loop = Loop(
        system,
        start if is_function(start) else None,
        bool(axes.names),
        tuple(as_probes(probes, axes.names).items()),
        stop or Stop(),
    )
    values = axes.grid()
    carry = compiled(loop).begin(values, None if loop.start else start)
    if not all(np.isfinite(leaf).all() for leaf in _floats(carry.state)):
        _refuse_bad_start(compiled(loop).shown(values, carry.state), axes)

    host = _Host(loop, axes, values, carry, steps)
    folder = checkpoints.resolve(checkpoint)
    if folder is not None:
        host.resume(folder)
    reporter = reporters.resolve(progress)
    reporter.start(label, steps)
    try:
        host.run(reporter)
    except KeyboardInterrupt:
        host.save()
        raise
    finally:
        reporter.close()
    return host.trajectory()


class _Host:
    """The part of a run that lives on the host: chunks, records, saving."""

    def __init__(self, loop: Loop, axes: Axes, values: dict[str, Any], carry: Carry, steps: int) -> None:
        self.loop, self.axes, self.values, self.carry, self.steps = loop, axes, values, carry, steps
        self.compiled = compiled(loop)
        self.probes = loop.probes
        self.blocks, self.remainder = divmod(steps, loop.block)
        self.done = 0
        self.end = self._stopped_by()
        shapes, _ = self.compiled.observe.eval_shape(values, carry.state, carry.memory)  # traced once a loop
        self.owners = {record: self.probes[name] for name, parts in shapes.items() for record in parts}
        kinds = {record: kind for parts in shapes.values() for record, kind in parts.items()}
        self.records = {
            name: np.empty((steps // self.owners[name].every + 1, *kind.shape), kind.dtype)
            for name, kind in kinds.items()
        }
        self.saved: dict[str, int] = dict.fromkeys(self.records, 0)
        self.checkpoint: checkpoints.Checkpoint | None = None
        self._capacity = self._blocks_per_chunk({n: math.prod(k.shape) * k.dtype.itemsize for n, k in kinds.items()})

    def resume(self, folder: Path) -> None:
        """Saves to `folder` from now on, and continues from a checkpoint there, if there is one."""
        origin = checkpoints.fingerprint(self.carry, self.values, self.steps)

        def identify() -> str:
            """A digest of what determines this run: its program, its constants, its start and its length."""
            arguments = (self.values, self.carry, jnp.int32(0), jnp.int32(0), jnp.int32(0))
            program = self.compiled.advance.trace(*arguments, capacity=self._capacity).jaxpr
            return checkpoints.fingerprint(str(program), list(program.consts), origin)

        self.checkpoint = checkpoint = checkpoints.Checkpoint(folder, identify)
        saved = checkpoint.load(self.carry)
        if saved is None:
            return
        self.done, self.carry, records = saved
        self.end = self._stopped_by()
        for name, parts in records.items():
            stacked = np.concatenate(parts)
            self.records[name][: len(stacked)] = stacked
            self.saved[name] = len(stacked)

    def run(self, reporter: reporters.Progress) -> None:
        """Chunk after chunk until the last step, or until every trajectory has stopped and every probe has seen it.

        A chunk has several rounds, each a look and then a block of steps. The last round of a run is a look alone.
        """
        capacity, blocks = self._capacity, jnp.int32(self.blocks)
        began = last_save = clock()
        size, began_at = min(16, capacity), self.done
        while (left := self._last_block() + 1 - self.done) > 0:
            size = min(size, capacity, left)
            chunk_began = clock()
            self.carry, buffers = self.compiled.advance(
                self.values, self.carry, jnp.int32(self.done), jnp.int32(size), blocks, capacity=capacity
            )
            self._take(buffers, size)
            seconds = clock() - chunk_began
            if self.done > began_at + size:  # the first chunk's time is mostly compilation
                size = max(1, int(size * min(16.0, CHUNK_SECONDS / max(seconds, 1e-9))))
            else:
                size = min(16, capacity)
            reporter.update(min(self.done, self.blocks) * self.loop.block, self._note())
            if self.checkpoint is not None and clock() - last_save > SAVE_SECONDS:
                self.save()
                last_save = clock()
        if self.checkpoint is not None and (self.checkpoint.parts or clock() - began > SAVE_SECONDS):
            self.save()  # before the tail: a checkpoint always stands between two blocks
        if self.remainder and self._still_running():
            self.carry = self.compiled.tail(self.values, self.carry, count=self.remainder)

    def save(self) -> None:
        """Writes what has been recorded since the last save."""
        if self.checkpoint is None:
            return
        recorded = {name: self._recorded(name) for name in self.records}
        fresh = {name: self.records[name][self.saved[name] : recorded[name]] for name in self.records}
        self.checkpoint.save(self.done, self.carry, fresh)
        self.saved = recorded

    def trajectory(self) -> Trajectory:
        """Everything recorded, labelled."""
        import xarray as xr

        axes, probes = self.axes, self.owners
        finest = min((probe.every for probe in probes.values()), default=1)
        variables: dict[str, Any] = {}
        coordinates: dict[str, Any] = dict(axes.coordinates())
        for name, records in self.records.items():
            every = probes[name].every
            along = "step" if every == finest else f"step_{every}"
            kept = records[: self._recorded(name)]
            variables[name] = record_variable(name, probes[name], kept, axes, along)
            coordinates[along] = (along, np.arange(len(kept)) * every, {"long_name": "step", "units": "step"})
        outcome = np.asarray(self.carry.outcome)
        ended = np.asarray(self.carry.stopped_at)
        ended = np.where(outcome == Outcome.UNFINISHED, self.steps, ended)
        variables |= outcome_variables(axes, outcome, ended, "step")
        attributes = {
            "steps": self.steps,
            "secant": __version__,
            "jax": jax.__version__,
            "device": jax.devices()[0].device_kind,
        }
        dataset = xr.Dataset(variables, coords=coordinates, attrs=attributes)
        return Trajectory(dataset, axes.unflatten(self.compiled.shown(self.values, self.carry.state)))

    def _take(self, buffers: dict[str, Any], size: int) -> None:
        """Copies a chunk's valid records into the arrays of the run."""
        before = {name: self._recorded(name) for name in self.records}
        self.done += size
        self.end = self._stopped_by()
        for name, buffer in ((name, rows) for parts in buffers.values() for name, rows in parts.items()):
            after = self._recorded(name)
            self.records[name][before[name] : after] = np.asarray(buffer)[: after - before[name]]

    def _recorded(self, name: str) -> int:
        """How many records a probe has: up to now, or up to its first look after the last trajectory stopped."""
        ratio = self.owners[name].every // self.loop.block
        return min(-(-self.done // ratio), -(-self.end // ratio) + 1)

    def _last_block(self) -> int:
        """How many blocks there are to run; fewer than asked for once every trajectory has stopped."""
        ratios = {probe.every // self.loop.block for probe in self.owners.values()} or {1}
        return min(self.blocks, max(-(-self.end // ratio) * ratio for ratio in ratios))

    def _stopped_by(self) -> int:
        """The block at whose end the last trajectory stopped, or the last block of the run."""
        if self._still_running():
            return self.blocks
        return int(np.asarray(self.carry.stopped_at).max()) // self.loop.block

    def _still_running(self) -> bool:
        return bool((np.asarray(self.carry.outcome) == Outcome.UNFINISHED).any())

    def _note(self) -> str:
        outcome = np.asarray(self.carry.outcome)
        counts = [(o.name.lower(), int((outcome == o).sum())) for o in Outcome]
        return ", ".join(f"{count} {name}" for name, count in counts[1:] if count)

    def _blocks_per_chunk(self, sizes: dict[str, int]) -> int:
        block = self.loop.block
        per_block = sum(size * block / self.owners[name].every for name, size in sizes.items())
        slowest = max((probe.every // block for probe in self.probes.values()), default=1)
        return min(self.blocks + 1, max(1, slowest, int(CHUNK_BYTES / max(per_block, 1.0))))


def _floats(state: Any) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(state) if jnp.issubdtype(leaf.dtype, jnp.inexact)]


def _refuse_bad_start(shown: Any, axes: Axes) -> None:
    for path, leaf in jax.tree.leaves_with_path(shown):
        if not jnp.issubdtype(leaf.dtype, jnp.inexact):
            continue
        bad = ~np.isfinite(np.asarray(leaf))
        if bad.any():
            where = ""
            if axes.names:
                rows = np.flatnonzero(bad.reshape(bad.shape[0], -1).any(axis=1))
                index = np.unravel_index(rows[0], axes.shape)
                place = ", ".join(f"{n}[{int(i)}]" for n, i in zip(axes.names, index, strict=True))
                where = f" for {len(rows)} of {len(bad)} trajectories, the first at {place}"
            raise ValueError(
                f"simulate: `start` is not finite at {jax.tree_util.keystr(path) or 'the state'}{where}. "
                "Start from finite numbers."
            )
