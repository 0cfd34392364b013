"""Graphs worth having: fully connected, dense, random and convolutional ones, and changes to a graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Literal

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from secant.nets.graphs.graph import Block, Graph, Shared
from secant.nets.layers.checks import at_least_one


def _generator(key: PRNGKeyArray) -> np.random.Generator:
    """Graphs are made on the host: a NumPy generator seeded by a JAX key."""
    return np.random.default_rng(np.asarray(jax.random.key_data(key)).tolist())


def _full(sources: np.ndarray, size: int) -> Block:
    """Every neuron reads every source."""
    return Block(sources, np.ones((len(sources), size), bool), np.full(size, len(sources)))


def _finish(inputs: int, blocks: Sequence[Block | Shared]) -> Graph:
    """A graph whose outputs are its last block."""
    count = inputs + sum(block.size for block in blocks)
    return Graph(inputs, tuple(blocks), np.arange(count - blocks[-1].size, count))


def _sizes(name: str, inputs: int, widths: Sequence[int], outputs: int) -> list[int]:
    for size in (inputs, *widths, outputs):
        at_least_one(name, **{"size of a layer": size})
    return [inputs, *widths, outputs]


def fully_connected(inputs: int, widths: Sequence[int], outputs: int = 1) -> Graph:
    """Layers that each read all of the layer before. A small number among `widths` is a bottleneck layer."""
    sizes = _sizes("fully_connected", inputs, widths, outputs)
    starts = np.cumsum([0, *sizes])
    return _finish(
        inputs, [_full(np.arange(a, b), size) for a, b, size in zip(starts, starts[1:], sizes[1:], strict=False)]
    )


def densenet(inputs: int, widths: Sequence[int], outputs: int = 1, *, concat_input: bool = True) -> Graph:
    """Layers that each read all layers before; with `concat_input=False` only the first one reads the input."""
    sizes = _sizes("densenet", inputs, widths, outputs)
    ends = np.cumsum(sizes)
    starts = [0 if concat_input or index == 0 else inputs for index in range(len(ends) - 1)]
    return _finish(inputs, [_full(np.arange(a, b), size) for a, b, size in zip(starts, ends, sizes[1:], strict=False)])


def random(
    key: PRNGKeyArray,
    inputs: int,
    widths: Sequence[int],
    outputs: int = 1,
    *,
    in_degree: int,
) -> Graph:
    """Every neuron reads `in_degree` neurons drawn from all layers before its own, at least one of them from the last.

    Where there are fewer neurons before a layer than `in_degree`, it reads them all.
    """
    at_least_one("random", in_degree=in_degree)
    sizes = _sizes("random", inputs, widths, outputs)
    generator, blocks, before = _generator(key), [], 0
    for previous, size in pairwise(sizes):
        total = before + previous
        degree = min(in_degree, total)
        # A neuron reads the sources with the smallest of random numbers; one from the last layer always comes first.
        rank = generator.random((total, size), dtype=np.float32)
        rank[before + generator.integers(previous, size=size), np.arange(size)] = -1.0
        mask = np.zeros((total, size), bool)
        np.put_along_axis(mask, np.argpartition(rank, degree - 1, axis=0)[:degree], True, axis=0)
        blocks.append(Block(np.arange(total), mask, np.full(size, degree)))
        before = total
    return _finish(inputs, blocks)


def convolutional(
    length: int, channels: Sequence[int], outputs: int = 1, *, window: int = 3, input_channels: int = 1
) -> Graph:
    """Convolutions over one axis, as a graph with shared weights: stride 1, padded with zeros, then a dense layer.

    A sample is the flattened `(length, input_channels)`.
    """
    at_least_one("convolutional", length=length, window=window, input_channels=input_channels)
    blocks: list[Block | Shared] = []
    start, size = 0, input_channels
    places = np.arange(length)[:, None] + np.arange(window) - (window - 1) // 2
    for own in channels:
        read = start + places[:, :, None] * size + np.arange(size)
        outside = (places < 0) | (places >= length)
        blocks.append(Shared(np.where(outside[:, :, None], -1, read).reshape(length, -1), own))
        start, size = start + length * size, own
    blocks.append(_full(np.arange(start, start + length * size), outputs))
    return _finish(length * input_channels, blocks)


def _plain(name: str, graph: Graph) -> list[Block]:
    blocks = [block for block in graph.blocks if isinstance(block, Block)]
    if len(blocks) < len(graph.blocks):
        raise ValueError(f"{name}: `graph` shares weights, so its edges cannot be changed one by one.")
    return blocks


def _layer(name: str, graph: Graph, layer: int) -> int:
    """The block that holds exactly the neurons of a layer."""
    for index, (start, block) in enumerate(zip(graph.starts, graph.blocks, strict=False)):
        if np.array_equal(np.flatnonzero(graph.levels == layer), start + np.arange(block.size)):
            return index
    raise ValueError(f"{name}: layer {layer} must be a block of its own, in a graph of {graph.depth} layers.")


def drop_edges(
    graph: Graph, key: PRNGKeyArray, rate: float = 0.5, *, normalize: Literal["new", "original"] = "new"
) -> Graph:
    r"""Removes every edge with probability `rate`, once and for all.

    A neuron that would lose all its edges keeps one of them, drawn at random.

    Args:
        graph: a graph without shared weights.
        key: random key.
        rate: between 0 and 1.
        normalize: `new` divides a neuron's sum by the root of the in-degree that is left, `original` by the root of the
            in-degree before.
    """
    if not 0 <= rate < 1:
        raise ValueError(f"drop_edges: `rate` must be at least 0 and below 1, got {rate}.")
    if normalize not in ("new", "original"):
        raise ValueError(f"drop_edges: `normalize` must be 'new' or 'original', got {normalize!r}.")
    generator, blocks = _generator(key), []
    for block in _plain("drop_edges", graph):
        kept = block.edges & (generator.random(block.edges.shape, dtype=np.float32) >= rate)
        for neuron in np.flatnonzero(~kept.any(axis=0)):
            kept[generator.choice(np.flatnonzero(block.edges[:, neuron])), neuron] = True
        fans = kept.sum(axis=0) if normalize == "new" else block.fans
        blocks.append(replace(block, edges=kept, fans=fans))
    return replace(graph, blocks=tuple(blocks))


def skip(graph: Graph, key: PRNGKeyArray | None = None) -> Graph:
    r"""Adds to every hidden neuron the value of an earlier one, $f_v = \sigma(\tilde f_v) + f_u$, with fixed weight 1.

    Without a key, neuron $i$ of a layer skips from neuron $i$ of the layer before (counted round where that is
    smaller); with one, from a neuron drawn from all those before the layer. The outputs have no skips.
    """
    generator = None if key is None else _generator(key)
    blocks, previous = [], graph.inputs
    for start, block in zip(graph.starts, _plain("skip", graph), strict=False):
        own = start + np.arange(block.size)
        chosen = start - previous + np.arange(block.size) % previous
        if generator is not None:
            chosen = generator.integers(start, size=block.size)
        skips = np.where(np.isin(own, graph.outputs) | np.isin(chosen, graph.outputs), -1, chosen)
        blocks.append(replace(block, skips=skips if np.any(skips >= 0) else None))
        previous = block.size
    return replace(graph, blocks=tuple(blocks))


def bottleneck_neurons(graph: Graph, layer: int, count: int = 2, in_degree: int = 1) -> Graph:
    """Leaves the first `count` neurons of a layer with `in_degree` edges each, from the layer before."""
    at_least_one("bottleneck_neurons", layer=layer, count=count, in_degree=in_degree)
    blocks, index = _plain("bottleneck_neurons", graph), _layer("bottleneck_neurons", graph, layer)
    block, edges = blocks[index], blocks[index].edges.copy()
    if count > block.size:
        raise ValueError(f"bottleneck_neurons: layer {layer} has {block.size} neurons, fewer than `count`={count}.")
    for neuron in range(count):
        read = np.flatnonzero(edges[:, neuron] & (graph.levels[block.sources] == layer - 1))
        if len(read) < in_degree:
            raise ValueError(
                f"bottleneck_neurons: a neuron of layer {layer} reads {len(read)} of layer {layer - 1}, "
                f"fewer than `in_degree`={in_degree}."
            )
        edges[:, neuron] = False
        edges[np.roll(read, -neuron)[:in_degree], neuron] = True
    fans = np.where(np.arange(block.size) < count, in_degree, block.fans)
    blocks[index] = replace(block, edges=edges, fans=fans)
    return replace(graph, blocks=tuple(blocks))


def connect(graph: Graph, source: int, target: int) -> Graph:
    """Adds every edge from layer `source` to layer `target` that is not there.

    This repairs a bottleneck: neurons behind a narrow layer read a wide layer as well.
    """
    if not 0 <= source < target:
        raise ValueError(f"connect: `source` must be a layer before `target`, got {source} and {target}.")
    blocks, index = _plain("connect", graph), _layer("connect", graph, target)
    block, added = blocks[index], np.flatnonzero(graph.levels == source)
    added = added[added < graph.starts[index]]
    sources = np.union1d(block.sources, added)
    edges = np.zeros((len(sources), block.size), bool)
    edges[np.searchsorted(sources, block.sources)] = block.edges
    edges[np.searchsorted(sources, added)] = True
    blocks[index] = replace(block, sources=sources, edges=edges, fans=edges.sum(axis=0))
    return replace(graph, blocks=tuple(blocks))
