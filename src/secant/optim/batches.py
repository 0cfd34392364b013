"""Batches: which samples a step of stochastic gradient descent sees."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Int, PRNGKeyArray, UInt32

from secant.core.arguments import whole
from secant.core.device import jit
from secant.core.types import Params
from secant.dynamics.map import Map, State

ROUNDS = 24
"""With half as many rounds, the permutations of five and of six numbers are not equally likely."""


@dataclass(frozen=True)
class Batches:
    r"""Random batches, by default of a fixed size.

    Without replacement every sample is seen exactly once in each run of $n$ draws: an epoch. If the size does not
    divide $n$, the batch that ends an epoch is filled up from the next epoch. The batch of a step depends on seed and
    step alone. Nothing is stored, the batch of any step can be computed, and the cost grows with its size alone.

    Attributes:
        size: samples a step.
        seed: seed of the draws; may be an axis of a run, `lambda draw: Batches(32, seed=draw)`.
        replace: whether samples are drawn independently, with replacement.
        sampling: `"fixed"`: every step sees `size` samples. `"bernoulli"`: every sample joins with chance `size`/$n$,
            independently of all others. The loss of a Bernoulli batch is the sum of its samples' losses over `size`,
            which is unbiased for losses that average. A Bernoulli step costs as much as a step on all samples.

    Example:
        ```python
        import secant as sc

        batches = sc.Batches(4)
        epoch = [int(i) for step in range(3) for i in batches.indices(12, step)]
        print(sorted(epoch) == list(range(12)))
        ```
        ```text
        True
        ```
    """

    size: int
    seed: Any = 0
    replace: bool = False
    sampling: Literal["fixed", "bernoulli"] = "fixed"

    def __post_init__(self) -> None:
        whole("Batches", "size", self.size, 1)
        whole("Batches", "seed", self.seed, 0)
        if self.sampling not in ("fixed", "bernoulli"):
            raise ValueError(f"Batches: `sampling` must be 'fixed' or 'bernoulli', got {self.sampling!r}.")
        if self.replace and self.sampling == "bernoulli":
            raise ValueError(
                "Batches: `replace` is for batches of a fixed size; a Bernoulli batch holds a sample at most once."
            )

    def check(self, caller: str, samples: int) -> None:
        """Refuses data with fewer samples than a batch has."""
        if self.size > samples:
            raise ValueError(
                f"{caller}: a batch of {self.size} is larger than the data, {samples} samples. Take at most {samples}."
            )

    def indices(self, samples: int, step: Any) -> Int[Array, " size"]:
        """The indices of the samples in the batch of this step.

        Args:
            samples: how many samples there are, $n$.
            step: counted from 0.
        """
        self.check("Batches.indices", samples)
        if self.sampling == "bernoulli":
            raise ValueError("Batches.indices: a Bernoulli batch has no fixed size. Use `Batches.chosen`.")
        return self._drawn(jax.random.key(self.seed), samples, step)

    def _drawn(self, key: PRNGKeyArray, samples: int, step: Any) -> Int[Array, " size"]:
        """The indices of the samples in a batch of a fixed size that is drawn with this key instead of the seed."""
        if self.replace:
            return jax.random.randint(jax.random.fold_in(key, step), (self.size,), 0, samples)
        return _of_epochs(key, jnp.asarray(step, jnp.uint32), size=self.size, samples=samples)

    def chosen(self, samples: int, step: Any) -> Bool[Array, " samples"]:
        """For each sample, a truth value: whether the Bernoulli batch of this step holds it.

        Args:
            samples: how many samples there are, $n$.
            step: counted from 0.
        """
        self.check("Batches.chosen", samples)
        if self.sampling != "bernoulli":
            raise ValueError("Batches.chosen: batches of a fixed size have `Batches.indices`.")
        key = jax.random.fold_in(jax.random.key(self.seed), step)
        return jax.random.bernoulli(key, self.size / samples, (samples,))

    def rows(self, samples: int, step: Any) -> Array:
        """The indices of a batch of a fixed size, or the truth values of a Bernoulli batch."""
        return self.chosen(samples, step) if self.sampling == "bernoulli" else self.indices(samples, step)


class BatchState(NamedTuple):
    """The state of a run on batches.

    Attributes:
        inner: state of the update rule.
        step: how many steps have been made.
        rows: the samples that the next step sees, also available to measurements before that step. They are indices;
            for Bernoulli batches they are a truth value for each of all samples.
    """

    inner: State
    step: Int[Array, ""]
    rows: Int[Array, " size"] | Bool[Array, " samples"]


def params_of(state: BatchState) -> Params:
    """The parameters in the state of a run on batches: those of an optimiser, or the rule's whole state."""
    return getattr(state.inner, "params", state.inner)


def on_batches(
    loss: Callable[[Params, Any, Any], Any], x: Any, y: Any, batches: Batches, rule: Callable[..., Map]
) -> Map:
    """Turns an update rule into a Map that sees one batch in each step.

    Args:
        loss: `(params, inputs, targets) -> number`.
        x: inputs, one row a sample.
        y: targets, one row a sample.
        batches: which samples a step sees.
        rule: `loss -> Map`, made anew for the loss of every batch. Its memory stays in its state.

    Returns:
        A Map whose state is a `BatchState`. It shows what the rule's Map shows.
    """
    samples = len(jax.tree.leaves(x)[0])
    batches.check("on_batches", samples)
    whole_batch = slice(batches.size) if batches.sampling == "fixed" else jnp.ones(samples, bool)

    def of_rows(index: Any) -> Map:
        if batches.sampling == "bernoulli":
            return rule(lambda params: index @ sample_losses(loss, params, x, y) / batches.size)
        inputs, targets = (jax.tree.map(lambda leaf: leaf[index], part) for part in (x, y))
        return rule(lambda params: loss(params, inputs, targets))

    def init(start: Any) -> BatchState:
        if isinstance(start, BatchState):  # goes on where another run stopped
            return start._replace(rows=batches.rows(samples, start.step))
        rows = batches.rows(samples, 0)
        return BatchState(of_rows(rows).init(start), jnp.zeros((), jnp.uint32), rows)

    def step(state: BatchState) -> BatchState:
        after = state.step + jnp.uint32(1)
        return BatchState(of_rows(state.rows).step(state.inner), after, batches.rows(samples, after))

    # What a rule shows does not depend on the batch: the first rows will do.
    return Map(init, step, shown=lambda state: of_rows(whole_batch).shown(state.inner))


def sample_losses(loss: Callable[[Params, Any, Any], Any], params: Params, x: Any, y: Any) -> Array:
    """The loss of every sample alone, one number for each sample."""
    rows = (jax.tree.map(lambda leaf: leaf[:, None], part) for part in (x, y))
    return jax.vmap(lambda inputs, targets: loss(params, inputs, targets))(*rows)


def shuffled(words: UInt32[Array, "k r"], positions: UInt32[Array, " k"], n: int) -> UInt32[Array, " k"]:
    r"""Values of a random permutation of $0, \dots, n - 1$ at some positions, each computed without the others.

    The method is a Feistel network. Positions lie on a grid of at least $n$ points, and each round shifts one
    coordinate by a hash of the other. Each round can be undone, so that the whole is a permutation of the grid. Values
    outside $0, \dots, n - 1$ are put in again until they fall inside, which leaves a permutation (Black and Rogaway,
    2002).

    Args:
        words: random words, one row a position; equal rows belong to one permutation.
        positions: where to evaluate the permutation.
        n: how many numbers are permuted.
    """
    rows = math.isqrt(n - 1) + 1
    columns = -(-n // rows)

    def once(value: Array) -> Array:
        def two_rounds(place: tuple[Array, Array], pair: Array) -> tuple[tuple[Array, Array], None]:
            row, column = place
            row = _modulo(row + _modulo(_hash(column ^ pair[0]), rows), rows)
            return (row, _modulo(column + _modulo(_hash(row ^ pair[1]), columns), columns)), None

        # A loop: written out, the rounds take the compiler longer than everything else in a run.
        pairs = words[:, :ROUNDS].T.reshape(ROUNDS // 2, 2, -1)
        row, column = lax.scan(two_rounds, (value // columns, _modulo(value, columns)), pairs)[0]
        return row * columns + column

    # Shifts along an odd length are even permutations: half of the time two values are swapped.
    first = jnp.where((positions < 2) & (words[:, -1] >> 31 == 1), 1 - positions, positions) if n > 1 else positions

    def again(found: tuple[Array, Array]) -> tuple[Array, Array]:
        value = jnp.where(found[1], once(found[0]), found[0])
        return value, value >= n

    # All values are put in once, also by the loop: this spares the compiler a second copy of the rounds.
    return lax.while_loop(lambda found: jnp.any(found[1]), again, (first, jnp.ones_like(first, bool)))[0]


# Compiled as a whole: run one by one, the operations of a batch would take thirty programs.
@functools.partial(jit, quick=True, static_argnames=("size", "samples"))
def _of_epochs(key: Array, step: UInt32[Array, ""], *, size: int, samples: int) -> Int[Array, " size"]:
    """The indices of a batch without replacement."""
    # The first position is (step * size) mod n, without the product, which would overflow in a long run.
    per = math.lcm(size, samples) // size  # after so many steps, a batch begins an epoch again
    first = _modulo(step, per) * jnp.uint32(size)
    epoch = (step // per) * jnp.uint32(per * size // samples) + first // samples
    positions = _modulo(first, samples) + jnp.arange(size, dtype=jnp.uint32)
    # A batch is not larger than an epoch, so that it touches two epochs at most.
    words = jax.vmap(functools.partial(_words, key))(epoch + jnp.arange(2, dtype=jnp.uint32))
    own = jnp.where((positions >= samples)[:, None], words[1], words[0])
    return shuffled(own, _modulo(positions, samples), samples).astype(jnp.int32)


def _words(key: Array, epoch: Any) -> Array:
    return jax.random.bits(jax.random.fold_in(key, epoch), (ROUNDS + 1,), jnp.uint32)


def _modulo(value: Array, n: int) -> Array:
    """The remainder of a division of unsigned numbers. `%` would also handle signs, which takes the compiler longer."""
    return lax.rem(value, jnp.full_like(value, n))


def _hash(value: Array) -> Array:
    """The finaliser of MurmurHash3: every bit of the value changes every bit of the hash half of the time."""
    value = (value ^ (value >> 16)) * jnp.uint32(0x85EBCA6B)
    value = (value ^ (value >> 13)) * jnp.uint32(0xC2B2AE35)
    return value ^ (value >> 16)
