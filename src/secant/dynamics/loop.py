"""The compiled loop of a run: many steps on the device between two looks from the host."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from secant.core.device import jit
from secant.dynamics.axes import call_with
from secant.dynamics.map import Map, State, everything
from secant.dynamics.probes import Probe, named_records
from secant.dynamics.stop import Outcome, Stop, is_finite

AxisValues = dict[str, Any]


class Compiled(NamedTuple):
    """The compiled functions of one loop."""

    begin: Callable[..., Carry]
    step: Any
    looks: dict[str, Any]
    observe: Any
    advance: Any
    tail: Callable[..., Carry]
    shown: Callable[..., Any]


class Carry(NamedTuple):
    """What is carried from chunk to chunk: the state, the outcome of each trajectory so far, and the probes' memory."""

    state: State
    outcome: Any
    stopped_at: Any
    memory: dict[str, Any]


@dataclass(frozen=True)
class Loop:
    """One system with its probes and stopping rule, vectorised over the axes.

    Time is cut into blocks of `block` steps, the greatest common divisor of all cadences, so that records and looks
    at the stopping rule happen only between blocks. The loop over blocks lies outside the vectorisation. Its
    conditions therefore stay scalars, and records are written time-major, one contiguous row each.

    Two loops with the same functions are equal and share their compiled code.
    """

    system: Map | Callable[..., Map]
    start: Callable[..., Any] | None
    batched: bool
    named_probes: tuple[tuple[str, Probe], ...]
    stop: Stop

    @property
    def probes(self) -> dict[str, Probe]:
        """The probes by name."""
        return dict(self.named_probes)

    def lift(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Vectorises `function` over the flattened grid of axes; without axes it stays as it is."""
        return jax.vmap(function) if self.batched else function

    @property
    def block(self) -> int:
        """Steps per block."""
        cadences = [probe.every for probe in self.probes.values()]
        if self.stop.every is not None:
            cadences.append(self.stop.every)
        return math.gcd(*cadences) if cadences else 1

    def begin(self, values: AxisValues, point: Any) -> Carry:
        """Every trajectory before the first step, started from the axis values or else from `point`."""

        def one(values: AxisValues) -> Carry:
            first = point if self.start is None else call_with(self.start, values, role="the start")
            state = self._map(values).init(first)
            state = stable_types(functools.partial(compiled(self).step, values), state)
            memory = {
                name: call_with(
                    probe.memory, values, self._seen(probe, values, state), role=f"the memory of probe {name!r}"
                )
                for name, probe in self.probes.items()
                if probe.memory
            }
            return Carry(state, self._judge(values, state), jnp.zeros((), jnp.int32), memory)

        return self.lift(one)(values)

    def observe(
        self, values: AxisValues, state: State, memory: dict[str, Any]
    ) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
        """The records of every probe at one moment, and the new memory of probes that have one."""
        looks = {name: look(values, state, memory.get(name)) for name, look in compiled(self).looks.items()}
        return {name: records for name, (records, _) in looks.items()}, {name: looks[name][1] for name in memory}

    def advance(
        self, values: AxisValues, carry: Carry, first: Any, rounds: Any, blocks: Any, capacity: int
    ) -> tuple[Carry, dict[str, Any]]:
        """Runs `rounds` rounds from round number `first` on: a look at the state, and then a block of steps.

        Round $k$ looks at the state after $k$ blocks. The look comes first so that the compiler sees look and step side
        by side: work that both share, such as the outputs of a network, is then done once. A run of `blocks` blocks has
        `blocks + 1` rounds, and the last round takes no step. The run ends earlier once every trajectory has stopped
        and every probe has looked at the final state.

        Returns the new carry and, for each probe, buffers of its records. The first
        `ceil((first + rounds) / ratio) - ceil(first / ratio)` records are valid, `ratio` being the probe's cadence in
        blocks.
        """
        ratios = {name: probe.every // self.block for name, probe in self.probes.items()}
        looks = compiled(self).looks
        shapes, _ = compiled(self).observe.eval_shape(values, carry.state, carry.memory)  # traced once a loop
        buffers = {
            name: {
                record: jnp.zeros((capacity // ratios[name] + 2, *shape.shape), shape.dtype)
                for record, shape in records.items()
            }
            for name, records in shapes.items()
        }

        def goes_on(loop_state: tuple[Any, Carry, dict[str, Any]]) -> Any:
            number, carry, _ = loop_state
            return (number < first + rounds) & (number <= self._last_round(carry, blocks))

        def body(loop_state: tuple[Any, Carry, dict[str, Any]]) -> tuple[Any, Carry, dict[str, Any]]:
            number, carry, buffers = loop_state
            written, memory = {}, {}
            for name, rows in buffers.items():
                ratio, remembered = ratios[name], carry.memory.get(name)
                # A slot is written in every round of its group, and the last write, the due one, stays. No branch ever
                # touches the buffer, so that it is updated in place.
                records, latest = _when(
                    number % ratio == 0,
                    ratio == 1,
                    functools.partial(looks[name], values, carry.state, remembered),
                    ({record: jnp.zeros(s.shape, s.dtype) for record, s in shapes[name].items()}, remembered),
                )
                if name in carry.memory:
                    memory[name] = latest
                slot = -(-number // ratio) - -(-first // ratio)
                written[name] = {
                    record: lax.dynamic_update_index_in_dim(rows[record], value, slot, 0)
                    for record, value in records.items()
                }
            # A step follows every look, and is thrown away if none is due. Without a branch the compiler sees step and
            # look together.
            due = number < blocks
            carry = _when(
                due & jnp.any(carry.outcome == Outcome.UNFINISHED),
                any(probe.every == 1 for probe in self.probes.values()),
                lambda: self._advance_block(values, carry, number, due),
                carry,
            )
            return number + 1, carry._replace(memory=memory), written

        return lax.while_loop(goes_on, body, (first, carry, buffers))[1:]

    def _last_round(self, carry: Carry, blocks: Any) -> Any:
        """The last round that is due; an earlier one once every trajectory has stopped."""
        end = jnp.max(carry.stopped_at) // self.block
        ratios = {probe.every // self.block for probe in self.probes.values()} or {1}
        seen = functools.reduce(jnp.maximum, (-(-end // ratio) * ratio for ratio in sorted(ratios)))
        running = jnp.any(carry.outcome == Outcome.UNFINISHED)
        return jnp.where(running, blocks, jnp.minimum(blocks, seen))

    def steps(self, values: AxisValues, state: State, count: int) -> State:
        """`count` steps of every trajectory, with nothing recorded."""
        step = self.lift(compiled(self).step)
        if count == 1:
            return step(values, state)
        return lax.scan(lambda s, _: (step(values, s), None), state, length=count)[0]

    def freeze(self, carry: Carry, moved: State, due: Any = True) -> State:
        """`moved` where the trajectory is still running and a step is due, the old state where it has stopped."""
        running = (carry.outcome == Outcome.UNFINISHED) & due

        def choose(new: Any, old: Any) -> Any:
            return jnp.where(running.reshape(running.shape + (1,) * (new.ndim - running.ndim)), new, old)

        return jax.tree.map(choose, moved, carry.state)

    def _advance_block(self, values: AxisValues, carry: Carry, number: Any, due: Any) -> Carry:
        """A block of steps of all running trajectories, if it is due, and the outcome of each trajectory after it."""
        state = self.freeze(carry, self.steps(values, carry.state, self.block), due)
        ratio = (self.stop.every or self.block) // self.block
        verdict = _when(
            (number + 1) % ratio == 0,
            ratio == 1,
            lambda: self.lift(self._judge)(values, state),
            jnp.zeros_like(carry.outcome),
        )
        running = (carry.outcome == Outcome.UNFINISHED) & due
        ends_now = running & (verdict != Outcome.UNFINISHED)
        return Carry(
            state,
            jnp.where(running, verdict, carry.outcome),
            jnp.where(ends_now, (number + 1) * self.block, carry.stopped_at),
            carry.memory,
        )

    def shows_everything(self, values: AxisValues) -> bool:
        """Whether trajectories show all of their state."""
        found = []

        def look(values: AxisValues) -> None:
            found.append(self._map(values).shown is everything)

        jax.eval_shape(self.lift(look), values)
        return found[0]

    def shown(self, values: AxisValues, state: State) -> Any:
        """The part of its state that every trajectory shows."""
        return self.lift(lambda values, state: self._map(values).shown(state))(values, state)

    def _seen(self, probe: Probe, values: AxisValues, state: State) -> Any:
        return state if probe.whole else self._map(values).shown(state)

    def _map(self, values: AxisValues) -> Map:
        if isinstance(self.system, Map):
            return self.system
        made = call_with(self.system, values, role="the system")
        if not isinstance(made, Map):
            raise TypeError(f"simulate: the system must make a Map, it made {type(made).__name__}.")
        return made

    def _step(self, values: AxisValues, state: State) -> State:
        return self._map(values).step(state)

    def _judge(self, values: AxisValues, state: State) -> Any:
        state = self._map(values).shown(state)  # an optimiser's memory may hold infinities on purpose
        diverged = ~is_finite(state)
        if self.stop.diverged is not None:
            diverged |= _truth(call_with(self.stop.diverged, values, state, role="Stop.diverged"), "diverged")
        converged = jnp.asarray(False)
        if self.stop.converged is not None:
            converged = _truth(call_with(self.stop.converged, values, state, role="Stop.converged"), "converged")
        verdict = jnp.where(diverged, Outcome.DIVERGED, jnp.where(converged, Outcome.CONVERGED, Outcome.UNFINISHED))
        return verdict.astype(jnp.int8)

    def _look(self, name: str, values: AxisValues, state: State, memory: Any) -> tuple[dict[str, Any], Any]:
        """One probe's records and, if it has a memory, its memory afterwards."""
        probe = self.probes[name]

        def one(values: AxisValues, state: State, memory: Any) -> tuple[dict[str, Any], Any]:
            role, state = f"probe {name!r}", self._seen(probe, values, state)
            if probe.memory is None:
                return named_records(name, call_with(probe.function, values, state, role=role)), None
            record, latest = call_with(probe.function, values, state, memory, role=role)
            before: Any = jax.tree.structure(memory)
            if before != jax.tree.structure(latest):
                raise TypeError(f"simulate: {role} must return a memory of the structure it was given.")
            return named_records(name, record), latest

        return self.lift(one)(values, state, memory)


@functools.lru_cache(maxsize=16)
def compiled(loop: Loop) -> Compiled:
    """The compiled functions of `loop`; a second run of an equal loop compiles nothing.

    Only the most recent loops are kept, so that the data of older loops can be freed.
    """

    def tail(values: AxisValues, carry: Carry, count: int) -> Carry:
        return carry._replace(state=loop.freeze(carry, loop.steps(values, carry.state, count)))

    # The shapes of records are asked for before the loop is traced: one trace of a compiled look then serves both.
    looks = {name: jax.jit(functools.partial(loop._look, name)) for name in loop.probes}
    part = jit(loop.shown)

    def shown(values: AxisValues, state: State) -> Any:
        return state if loop.shows_everything(values) else part(values, state)

    return Compiled(
        jit(loop.begin),
        jax.jit(loop._step),  # traced once for the types of its state and for the loop
        looks,
        jit(loop.observe),
        jit(loop.advance, static_argnames="capacity", donate_argnames="carry"),
        jit(tail, static_argnames="count"),
        shown,
    )


def stable_types(step: Callable[[State], State], state: State) -> State:
    """Casts the starting state to types that `step` does not change: integers and Python floats may start a run."""
    state = jax.tree.map(_strong, state)
    structure: Any = jax.tree.structure(state)
    for _ in range(3):
        after = jax.eval_shape(step, state)
        if structure != jax.tree.structure(after):
            raise TypeError(
                "simulate: `step` must return a state of the same structure as it is given. "
                f"It was given {structure} and returned {jax.tree.structure(after)}."
            )
        wrong = [
            f"{jax.tree_util.keystr(path) or 'state'}: {old.shape} -> {new.shape}"
            for (path, old), new in zip(jax.tree.leaves_with_path(state), jax.tree.leaves(after), strict=True)
            if old.shape != new.shape
        ]
        if wrong:
            raise TypeError("simulate: `step` changes the shape of the state (" + "; ".join(wrong) + "). Keep it.")
        if all(old.dtype == new.dtype for old, new in zip(jax.tree.leaves(state), jax.tree.leaves(after), strict=True)):
            return state
        state = jax.tree.map(lambda old, new: old.astype(new.dtype), state, after)
    raise TypeError("simulate: `step` changes the data type of the state at every call. Return the types it is given.")


def _strong(leaf: Any) -> Any:
    array = jnp.asarray(leaf)
    if jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
        return array
    return lax.convert_element_type(array, array.dtype)


def _when(due: Any, always: bool, compute: Callable[[], Any], otherwise: Any) -> Any:
    if always:
        return compute()
    return lax.cond(due, compute, lambda: otherwise)


def _truth(value: Any, name: str) -> Any:
    value = jnp.asarray(value)
    if value.shape != ():
        raise TypeError(
            f"Stop: `{name}` must return one truth value for a state, it returned shape {value.shape}. "
            "Reduce it with jnp.all or jnp.any."
        )
    return value.astype(bool)
