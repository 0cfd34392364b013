"""Pairs of samples in blocks: all of a kernel, a little at a time."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array

from secant.core.device import jit
from secant.kernels.arc_cosine import root
from secant.kernels.propagation.forward import forward, outputs
from secant.kernels.propagation.inputs import Inputs, unit
from secant.kernels.propagation.needs import planned
from secant.kernels.propagation.place import Pass, Sizes, never
from secant.nets.network import Network

ARRAYS = 10
"""Arrays of the size of a block that a pass through a network holds at once, at most."""

CACHE = {"cpu": 2**18, "gpu": 2**26}
"""Bytes of one array of a block, by the kind of device: what stays in a core's cache, or what fills a GPU."""

VECTORS = 2**20
"""Bytes of one array on a processor, for samples without positions: products take most of the time, and larger blocks
make them faster."""

GROUP = 64
"""Pairs of images that a GPU takes at a time."""


class How(NamedTuple):
    """What is compiled for a kernel.

    Attributes:
        net: the network.
        listed: whether pairs stand in a list; otherwise all pairs between two blocks of samples.
        symmetric: whether the two sets of samples are one, so that half of the pairs will do.
        ntk: whether the tangent kernel is wanted.
        block: pairs in a list, or samples to a side of a block.
        nodes: of quadratures.
        held: whether every layer is certain to be computed only once; then there are no gradients.
    """

    net: Network
    listed: bool
    symmetric: bool
    ntk: bool
    block: int
    nodes: int = 80
    held: bool = False


def block_size(x: Array, listed: bool, memory: int | None, threaded: bool = False) -> int:
    """Samples to a side of a block, or pairs in a list; several threads may each have a block."""
    positions = math.prod(x.shape[1:-1])
    pair = positions ** (2 if listed else 1) * x.dtype.itemsize
    budget = CACHE.get(jax.default_backend(), 2**28) * (4 if listed else 1)
    if threaded and x.ndim == 2:
        budget = VECTORS
    if memory is not None:
        if memory < ARRAYS * pair:
            raise ValueError(
                f"kernel: `memory` of {memory:,} bytes is too small for one pair of samples. Pass at least "
                f"{ARRAYS * pair:,}."
            )
        budget = min(budget, memory // ARRAYS) if jax.default_backend() == "cpu" else memory // ARRAYS
    pairs = max(1, budget // pair)
    if not listed:
        return max(1, math.isqrt(pairs))
    # Groups of threads on a GPU take so many pairs at a time.
    return pairs - pairs % GROUP if jax.default_backend() == "gpu" and pairs > GROUP else pairs


@functools.lru_cache(maxsize=64)
def compiled(how: How, few: bool = False) -> Any:
    """A function of two sets of samples and of variances; for `few` pairs it is compiled quickly."""
    return jit(functools.partial(_by_lists if how.listed else _by_blocks, how), quick=few)


def sizes_of(how: How, x: Array, variances: Any, block: int | None = None) -> Sizes:
    """Standard deviations of the signals behind every layer where they are needed."""

    def some(x: Array) -> Sizes:
        kept = never(x) if how.held else None
        alone = Pass(planned(how.net), "self", ntk=False, nodes=how.nodes, variances=variances, never=kept)
        return forward(how.net, Inputs(x, x), alone).sizes

    if block is None or block >= len(x):
        return some(x)
    blocks = _cut(x, block)
    found = jax.lax.map(some, blocks)
    together = lambda part: jnp.moveaxis(part, 0, -2).reshape(*part.shape[1:-1], -1)[..., : len(x)]  # noqa: E731
    return jax.tree.map(together, found)


def _cut(x: Array, block: int) -> Array:
    """Rows in blocks of equal size, the last filled up with the first row."""
    short = -len(x) % block
    filled = jnp.concatenate([x, jnp.broadcast_to(x[:1], (short, *x.shape[1:]))]) if short else x
    return filled.reshape(-1, block, *x.shape[1:])


def pairs_of(how: How, inputs: Inputs, sizes: tuple[Sizes, Sizes], variances: Any) -> tuple[Array, Array | None, Array]:
    """Kernels of a block, and the largest error of a quadrature."""
    kept = never(inputs.first) if how.held else None
    on = Pass(planned(how.net), "list" if how.listed else "grid", how.ntk, how.nodes, variances, sizes, kept)
    found = outputs(how.net, forward(how.net, inputs, on).signals)
    none = jnp.zeros((), inputs.first.dtype)
    return found.covariance, found.ntk, none if found.error is None else jnp.maximum(none, found.error)


def sides_of(
    how: How, x1: Array, x2: Array, variances: Any, sized: bool = True, divided: bool = True
) -> tuple[Any, Any, int]:
    """Both sets of samples in blocks, with the sizes of their signals if they are asked for, and samples to a block.

    Vectors are divided by their lengths if `divided`; otherwise the caller does that.
    """
    longest = max(len(x1), len(x2))
    block = -(-longest // -(-longest // how.block))  # blocks of nearly equal size
    sides = []
    for x in (x1,) if how.symmetric else (x1, x2):
        sizes = sizes_of(how, x, variances) if sized else Sizes()
        sizes = jax.tree.map(lambda s: jnp.moveaxis(_cut(jnp.moveaxis(s, -1, 0), block), 1, -1), sizes)
        # Vectors are divided by their lengths here, and not again with every block of others.
        own = _cut(root(jnp.mean(x**2, -1)), block) if x.ndim == 2 else None
        sides.append((_cut(unit(x) if divided and x.ndim == 2 else x, block), own, sizes))
    return sides[0], sides[-1], block


def all_pairs(how: How, first: int, second: int) -> tuple[np.ndarray, np.ndarray]:
    """Which blocks are paired with which: in one set half of them."""
    rows, columns = np.triu_indices(first) if how.symmetric else map(np.ravel, np.indices((first, second)))
    return rows, columns


def _between(how: How, first: Any, second: Any, at: tuple[Array, Array], variances: Any) -> Any:
    """Kernels between two of the blocks."""
    (i, j), pick = at, lambda side, index: jax.tree.map(lambda part: part[index], side)
    return pair(how, pick(first, i), pick(second, j), i == j, variances)


def pair(how: How, first: Any, second: Any, same: Array, variances: Any, products: Array | None = None) -> Any:
    """Kernels between a block of samples and another, which may be the `same`."""
    (xa, ra, sa), (xb, rb, sb) = first, second
    own = jnp.eye(len(xa), dtype=bool) & same if how.symmetric else None
    return pairs_of(how, Inputs(xa, xb, own, None if ra is None else (ra, rb), products), (sa, sb), variances)


def _by_blocks(how: How, x1: Array, x2: Array, variances: Any) -> tuple[Any, Any, Array]:
    """All pairs between blocks of samples, each block of one set with each of the other."""
    if max(len(x1), len(x2)) <= how.block:
        sizes = sizes_of(how, x1, variances)
        others = sizes if how.symmetric else sizes_of(how, x2, variances)
        own = jnp.eye(len(x1), dtype=bool) if how.symmetric else None
        return pairs_of(how, Inputs(x1, x2, own), (sizes, others), variances)
    first, second, block = sides_of(how, x1, x2, variances)
    counts = len(first[0]), len(second[0])
    rows, columns = all_pairs(how, *counts)
    one = functools.partial(_between, how, first, second, variances=variances)
    nngp, tangents, errors = jax.lax.map(one, (jnp.asarray(rows), jnp.asarray(columns)))

    def assembled(parts: Array | None) -> Array | None:
        if parts is None:
            return None
        whole = jnp.zeros((*counts, block, block), parts.dtype).at[rows, columns].set(parts)
        if how.symmetric:
            whole = whole.at[columns, rows].set(jnp.swapaxes(parts, 1, 2))
        whole = jnp.swapaxes(whole, 1, 2).reshape(counts[0] * block, counts[1] * block)
        return whole[: len(x1), : len(x2)]

    return assembled(nngp), assembled(tangents), jnp.max(errors)


@functools.lru_cache(maxsize=16)
def compiled_shared(how: How, devices: tuple[jax.Device, ...]) -> Any:
    """The same function on several devices, each with a share of the first set's samples."""
    mesh = Mesh(np.array(devices), ("rows",))
    one = functools.partial(_by_lists if how.listed else _by_blocks, how)

    def share(x1: Array, x2: Array, variances: Any) -> tuple[Any, Any, Array]:
        nngp, ntk, error = one(x1, x2, variances)
        return nngp, ntk, error[None]

    shares = jax.shard_map(
        share,
        mesh=mesh,
        in_specs=(PartitionSpec("rows"), PartitionSpec(), PartitionSpec()),
        out_specs=(PartitionSpec("rows"), PartitionSpec("rows"), PartitionSpec("rows")),
        check_vma=False,
    )

    def all_rows(x1: Array, x2: Array, variances: Any) -> tuple[Any, Any, Array]:
        short = -len(x1) % len(devices)
        filled = jnp.concatenate([x1, jnp.broadcast_to(x1[:1], (short, *x1.shape[1:]))]) if short else x1
        nngp, ntk, error = shares(filled, x2, variances)
        return nngp[: len(x1)], None if ntk is None else ntk[: len(x1)], jnp.max(error)

    return jit(all_rows)


@functools.lru_cache(maxsize=64)
def compiled_products(how: How, which: str) -> Any:
    """A function of two sets of samples and of vectors `(n2, k)`: a kernel, whose entries are not kept, times them."""

    def times(x1: Array, x2: Array, vectors: Array) -> Array:
        first, second, block = sides_of(how, x1, x2, None)
        rows, columns = all_pairs(how, len(first[0]), len(second[0]))
        # What fills up the last block counts nothing.
        cut = jnp.pad(vectors, ((0, len(second[0]) * block - len(vectors)), (0, 0)))
        cut = cut.reshape(len(second[0]), block, -1)

        def one(total: Array, at: tuple[Array, Array]) -> tuple[Array, None]:
            i, j = at
            nngp, ntk, _ = _between(how, first, second, at, None)
            part = ntk if which == "ntk" else nngp
            product = functools.partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST)
            total = total.at[i].add(product(part, cut[j]))
            if how.symmetric:
                total = total.at[j].add(jnp.where(i == j, 0.0, product(part.T, cut[i])))
            return total, None

        zero = jnp.zeros((len(first[0]), block, vectors.shape[1]), vectors.dtype)
        total, _ = jax.lax.scan(one, zero, (jnp.asarray(rows), jnp.asarray(columns)))
        return total.reshape(-1, vectors.shape[1])[: len(x1)]

    return jit(times)


def _by_lists(how: How, x1: Array, x2: Array, variances: Any) -> tuple[Any, Any, Array]:
    """Pairs of samples in a list, a few at a time."""
    sizes1 = sizes_of(how, x1, variances, how.block)
    sizes2 = sizes1 if how.symmetric else sizes_of(how, x2, variances, how.block)
    counts = len(x1), len(x2)
    rows, columns = np.triu_indices(counts[0]) if how.symmetric else map(np.ravel, np.indices(counts))
    block = min(how.block, len(rows))

    def some(at: tuple[Array, Array]) -> Any:
        i, j = at
        first = jax.tree.map(lambda part: part[..., i], sizes1)
        second = jax.tree.map(lambda part: part[..., j], sizes2)
        return pairs_of(how, Inputs(x1[i], x2[j]), (first, second), variances)

    nngp, tangents, errors = jax.lax.map(some, (_cut(jnp.asarray(rows), block), _cut(jnp.asarray(columns), block)))

    def assembled(parts: Array | None) -> Array | None:
        if parts is None:
            return None
        listed = parts.reshape(-1)[: len(rows)]
        whole = jnp.zeros(counts, parts.dtype).at[rows, columns].set(listed)
        return whole.at[columns, rows].set(listed) if how.symmetric else whole

    return assembled(nngp), assembled(tangents), jnp.max(errors)


def is_finite(values: Any) -> bool:
    """Whether all values are finite."""
    if jax.default_backend() != "cpu":
        return bool(jnp.isfinite(values).all())
    with np.errstate(all="ignore"):
        # A sum costs a quarter of looking at every number, and says the same unless it grows beyond the largest one.
        return bool(np.isfinite(np.asarray(values).sum())) or bool(np.isfinite(np.asarray(values)).all())
