"""Where a layer stands in a network: all that its rule is told besides the signals in front of it."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from secant.kernels.propagation.signal import Signal

Path = tuple[int, ...]
"""Where a layer stands: the part of the network, the part of that part, and so on."""

Pairs = Literal["self", "list", "grid"]
"""Which inputs are paired: each with itself, those at the same place of two lists, or all of one set with all of the
other. The first two have one axis for the pairs, the last has two."""


class Need(NamedTuple):
    """What is needed of a signal.

    Attributes:
        full: all pairs of positions, because positions will be mixed; otherwise each position with itself will do.
        own: all pairs of positions of an input with itself, where only the sizes are needed of such pairs.
        sizes: the standard deviations of single inputs, because a later layer is not linear.
    """

    full: bool = False
    own: bool = False
    sizes: bool = False


class Plan(NamedTuple):
    """What the layers of a network need, each by its path.

    Attributes:
        before: what is needed in front of a layer.
        after: what is needed behind it.
        weights: how many sets of weights there are before it, in the order of the network.
        bent: whether it matters anywhere to how many digits two inputs nearly coincide.
    """

    before: Mapping[Path, Need]
    after: Mapping[Path, Need]
    weights: Mapping[Path, int]
    bent: bool


@functools.partial(jax.tree_util.register_dataclass, data_fields=["arrays"], meta_fields=["owners"])
@dataclass(frozen=True)
class Sizes:
    """Standard deviations of the signals of single inputs, behind every layer where they are needed.

    Attributes:
        arrays: one for every signal, of shape `(*positions, n)`.
        owners: whose they are: the path of a layer, and the number of the signal among those behind it.
    """

    arrays: Any = ()
    owners: tuple[tuple[Path, int], ...] = ()

    def of(self, path: Path, number: int) -> Array:
        """The sizes of one of the signals behind a layer."""
        return self.arrays[self.owners.index((path, number))]


@dataclass(frozen=True, eq=False)
class Pass:
    """One way through a network, from its inputs to its outputs; the same for all layers.

    Attributes:
        plan: what the layers need.
        pairs: which inputs are paired.
        ntk: whether the tangent kernel is wanted.
        nodes: of quadratures.
        variances: of weights and biases, two numbers for every set of weights, in place of the network's own.
        sizes: of the first inputs and of the second; those are found by pairing each input with itself.
        never: a truth value that is false, and that the compiler does not know; see `held`.
    """

    plan: Plan
    pairs: Pairs
    ntk: bool
    nodes: int = 80
    variances: Sequence[Any] | None = None
    sizes: tuple[Sizes, Sizes] = (Sizes(), Sizes())
    never: Array | None = None

    def held(self, parts: list[Array]) -> list[Array]:
        """The same arrays, computed once."""
        return jax.lax.optimization_barrier(parts) if self.never is None else held(self.never, parts)

    def spread(self, first: Array, second: Array, like: Signal) -> tuple[Array, Array]:
        """Sizes of shape `(*positions, n)` with the axes of pairs."""
        axes = len(like.positions)
        if self.pairs == "grid":
            first, second = first[..., :, None], second[..., None, :]
        if like.full and axes:
            first = first.reshape(*first.shape[:axes], *(1,) * axes, *first.shape[axes:])
            second = second.reshape((1,) * axes + second.shape)
        return first, second


@dataclass(frozen=True, eq=False)
class Place:
    """A layer's place in a network, on one way through it. As text it is for errors: `part 2 of part 0`.

    Attributes:
        path: where the layer stands.
        on: the way through the network.
    """

    path: Path
    on: Pass

    def __str__(self) -> str:
        return " of ".join(f"part {index}" for index in reversed(self.path)) or "the start"

    @property
    def alone(self) -> bool:
        """Whether every input is paired with itself, so that the sizes of its signals are found and not yet known."""
        return self.on.pairs == "self"

    @property
    def full(self) -> bool:
        """Whether all pairs of positions are needed in front of the layer."""
        need = self.on.plan.before[self.path]
        return need.own if self.alone else need.full

    @property
    def sizes_behind(self) -> bool:
        """Whether the sizes of the signals behind the layer are needed."""
        return self.on.plan.after[self.path].sizes

    def variances(self, number: int = 0) -> tuple[Any, Any] | None:
        """The variances given for one of the layer's sets of weights; None where the network's own hold."""
        given = self.on.variances
        return None if given is None else given[self.on.plan.weights[self.path] + number]

    def sizes(self, signal: Signal, number: int = 0) -> tuple[Array, Array]:
        """The sizes of one of the signals behind the layer, for a signal of its shape."""
        first, second = (side.of(self.path, number) for side in self.on.sizes)
        return self.on.spread(first, second, signal)

    def sized(self, signal: Signal, number: int = 0) -> Signal:
        """One of the signals behind the layer with its new sizes, if they are needed and known by now."""
        if self.alone or not self.sizes_behind:
            return signal.with_(cov=signal.cov, multiple=signal.multiple, sizes=None)
        sizes = self.sizes(signal, number)
        return signal.with_(cov=signal.cov, gap=signal.gap, multiple=signal.multiple, sizes=sizes)

    def kept(self, signal: Signal) -> Signal:
        """The same signal, computed once: the compiler would repeat a layer wherever its result is read."""
        left = iter(self.on.held([part for part in (signal.cov, signal.gap, signal.ntk) if part is not None]))
        cov, gap, ntk = (None if part is None else next(left) for part in (signal.cov, signal.gap, signal.ntk))
        return signal.with_(cov=cov, gap=gap, ntk=ntk)


def never(x: Array) -> Array:
    """A truth value that is false, and that the compiler does not know."""
    return jnp.isnan(jnp.ravel(x)[0])


def held(never: Array, parts: list[Array]) -> list[Array]:
    """The same arrays, written to memory, so that each is computed once.

    They go through a loop that `never` runs. Such a loop has no gradients backwards: where gradients may be wanted
    there is no `never`, and the compiler gets a hint only.
    """
    running: Any = (never, parts)
    return jax.lax.while_loop(lambda state: state[0], _doubled, running)[1]


def _doubled(state: Any) -> Any:
    """Something that the compiler cannot leave out."""
    return jnp.zeros((), bool), [part + part for part in state[1]]
