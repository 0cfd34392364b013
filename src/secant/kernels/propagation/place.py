"""Two passes through a network: one for each input alone, which finds the sizes of its signals, and one for pairs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from secant.kernels.arc import gap_of_products, gap_of_rows, root
from secant.kernels.plan import Path, Plan
from secant.kernels.signal import Signal, same_positions


@dataclass(frozen=True, eq=False)
class Inputs:
    """Two sets of inputs that no weights have met yet, of shape `(n, *positions, features)`: plain numbers.

    Attributes:
        first: one set.
        second: the other.
        same: which pairs are one and the same sample, shape `(n1, n2)`, if any are known to be.
        sizes: of vectors whose rows have been divided by their lengths, the roots of their mean squares.
        products: of all rows with each other, shape `(n1, n2)`, if known: of rows divided by their lengths, or,
            for networks without a bend, of rows as they are.
    """

    first: Array
    second: Array
    same: Array | None = None
    sizes: tuple[Array, Array] | None = None
    products: Array | None = None


@dataclass(eq=False)
class Pass:
    """One way through the network.

    Attributes:
        plan: what is needed where.
        own: whether every input is paired with itself only, so that sizes are found and recorded.
        listed: whether pairs stand in one axis, the inputs of a pair at the same place of the two sets; otherwise all
            pairs between the sets, in two axes.
        ntk: whether the tangent kernel is wanted.
        nodes: of quadratures.
        variances: of weights and biases, two numbers a layer of weights, in place of the network's own.
        recorded: the sizes that a pass of single inputs has found, for the first set and for the second.
        found: the sizes found by this pass.
        errors: estimated errors of quadratures.
        never: a truth value that is false, and that the compiler does not know; see `kept`.
    """

    plan: Plan
    own: bool
    listed: bool
    ntk: bool
    nodes: int = 80
    variances: Sequence[Any] | None = None
    recorded: tuple[Sequence[Array], Sequence[Array]] | None = None
    found: list[Array] = field(default_factory=list)
    errors: list[Array] = field(default_factory=list)
    weighted: int = 0
    never: Array | None = None

    def kept(self, signal: Signal) -> Signal:
        """The same signal, computed once: the compiler would repeat a layer wherever it is read.

        What goes through a loop is written to memory, even if the loop never runs. There are no gradients through such
        a loop backwards: where they may be wanted there is no `never`, and only a hint to the compiler.
        """
        left = iter(self.held([part for part in (signal.cov, signal.gap, signal.ntk) if part is not None]))
        cov, gap, ntk = (None if part is None else next(left) for part in (signal.cov, signal.gap, signal.ntk))
        return signal.with_(cov=cov, gap=gap, ntk=ntk)

    def held(self, parts: list[Array]) -> list[Array]:
        """The same arrays, computed once."""
        return jax.lax.optimization_barrier(parts) if self.never is None else held(self.never, parts)

    def __post_init__(self) -> None:
        self._left: Iterator[tuple[Array, Array]] = zip(*(self.recorded or ((), ())), strict=True)

    def is_full(self, path: Path) -> bool:
        """Whether all pairs of positions are needed in front of a layer."""
        need = self.plan.before[path]
        return need.own if self.own else need.full

    def sized(self, signal: Signal, path: Path) -> Signal:
        """A signal behind a layer with its new sizes, if anybody needs them."""
        if not self.plan.after[path].sizes:
            return signal.with_(cov=signal.cov, multiple=signal.multiple, sizes=None)
        if not self.own:
            sizes = self.next_sizes(signal)
            return signal.with_(cov=signal.cov, gap=signal.gap, multiple=signal.multiple, sizes=sizes)
        cov = signal.cov
        own = same_positions(cov, len(signal.positions)) if signal.full and signal.positions else cov
        size = root(own)
        self.found.append(size)
        return signal.with_(cov=cov, sizes=self._spread(size, size, signal))

    def next_sizes(self, signal: Signal) -> tuple[Array, Array]:
        """The sizes that were recorded for a signal of this shape, the next in turn."""
        first, second = next(self._left)
        return self._spread(first, second, signal)

    def _spread(self, first: Array, second: Array, like: Signal) -> tuple[Array, Array]:
        """Sizes of shape `(*positions, n)` with the axes of pairs."""
        axes = len(like.positions)
        if not self.listed:
            first, second = first[..., :, None], second[..., None, :]
        if like.full and axes:
            first = first.reshape(*first.shape[:axes], *(1,) * axes, *first.shape[axes:])
            second = second.reshape((1,) * axes + second.shape)
        return first, second

    def started(self, inputs: Inputs, path: Path, *, zero: bool) -> Signal:
        """Inputs as a signal, in front of a layer, with or without a tangent kernel of zeros."""
        a, b = inputs.first, inputs.second
        positions, features = a.shape[1:-1], a.shape[-1]
        axes, full = len(positions), bool(a.shape[1:-1]) and self.is_full(path)
        first, second = inputs.sizes or (jnp.moveaxis(root(jnp.mean(x**2, -1)), 0, -1) for x in (a, b))
        plain = Signal((a, b), positions, full, features)
        spread = self._spread(first, second, plain)
        if not axes and self.own:
            signal = plain.with_(cov=first * second, sizes=spread)
        elif not axes:
            a, b = (a, b) if inputs.sizes else (unit(x) for x in (a, b))
            if self.listed:
                gap = jnp.sum((a - b) ** 2, -1) / 2
            else:
                none = (first == 0)[:, None] | (second == 0)
                none = none if inputs.same is None else none | inputs.same
                known = inputs.products
                if known is not None and not self.plan.bent:
                    # Small gaps, of which products lose digits, matter to activations with a bend alone.
                    scale = spread[0] * spread[1]
                    cov = jnp.where(none, scale, jnp.clip(known / features, -scale, scale))
                    return plain.with_(cov=cov, sizes=spread, ntk=jnp.zeros_like(cov) if zero else None)
                gap = gap_of_rows(a, b, none) if known is None else gap_of_products(known, a, b, none)
            signal = plain.with_(gap=gap, sizes=spread)
        else:
            a, b = (x.reshape(len(x), math.prod(positions), features) for x in (a, b))
            names = {
                (False, True): "npc,npc->pn",
                (False, False): "ipc,jpc->pij",
                (True, True): "npc,nqc->pqn",
                (True, False): "ipc,jqc->pqij",
            }[full, self.listed]
            cov = jnp.einsum(names, a, b, precision=jax.lax.Precision.HIGHEST) / features
            pairs = cov.shape[2 if full else 1 :]
            signal = plain.with_(cov=cov.reshape(*positions * (2 if full else 1), *pairs), sizes=spread)
        zeros = jnp.zeros_like(signal.cov if signal.gap is None else signal.gap) if zero else None
        return signal.with_(cov=signal.cov, gap=signal.gap, ntk=zeros)


def held(never: Array, parts: list[Array]) -> list[Array]:
    """What goes through a loop that is `never` run: it is written to memory, and computed once."""
    running: Any = (never, parts)
    return jax.lax.while_loop(lambda state: state[0], _doubled, running)[1]


def _doubled(state: Any) -> Any:
    """Something that the compiler cannot leave out."""
    return jnp.zeros((), bool), [part + part for part in state[1]]


def unit(rows: Array) -> Array:
    """Rows of length one, and rows of zeros as they are."""
    # The largest entry first: squares of very small or very large numbers would be lost.
    largest = jax.lax.stop_gradient(jnp.max(jnp.abs(rows), -1, keepdims=True))
    over = 1 / jnp.maximum(largest, jnp.finfo(rows.dtype).tiny)
    length = root(jnp.sum((rows * over) ** 2, -1, keepdims=True))
    return rows * over * (1 / jnp.where(length > 0, length, 1.0))


def is_finite(values: Any) -> bool:
    """Whether all are numbers."""
    if jax.default_backend() != "cpu":
        return bool(jnp.isfinite(values).all())
    with np.errstate(all="ignore"):
        # A sum costs a quarter of looking at every number, and says the same unless it grows beyond the largest one.
        return bool(np.isfinite(np.asarray(values).sum())) or bool(np.isfinite(np.asarray(values)).all())
