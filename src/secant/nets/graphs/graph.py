"""Feedforward graphs: neurons, edges, layers, width."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from secant.nets.graphs.ordering import order


class Incoming(NamedTuple):
    """What one neuron reads: earlier neurons, the numbers of its weights, and the factor of its sum."""

    sources: np.ndarray
    weights: np.ndarray
    factor: float


@dataclass(frozen=True, eq=False)
class Block:
    r"""Neurons that are evaluated together, $\tilde f_v = \mathrm{fan}_v^{-1/2} \sum_{u \to v} w_{uv} f_u$.

    Attributes:
        sources: the earlier neurons that any of them reads, in increasing order, shape `(s,)`.
        edges: which of those each neuron reads, `bool`, shape `(s, m)`.
        fans: the number under the root, one a neuron, shape `(m,)`; by default the in-degree.
        skips: an earlier neuron whose value is added behind the activation with a fixed weight of 1, or -1, shape
            `(m,)`; None where there are none.
    """

    sources: np.ndarray
    edges: np.ndarray
    fans: np.ndarray
    skips: np.ndarray | None = None

    @property
    def size(self) -> int:
        """How many neurons."""
        return self.edges.shape[1]

    @property
    def weight_shape(self) -> tuple[int, int]:
        """Shape of the matrix that holds the weights."""
        return self.edges.shape

    @cached_property
    def in_degrees(self) -> np.ndarray:
        """Edges into each neuron."""
        return self.edges.sum(axis=0)

    @property
    def parameters(self) -> int:
        """Trained numbers."""
        return int(self.in_degrees.sum())

    @cached_property
    def places(self) -> np.ndarray:
        """Where the weights stand in the flattened matrix, neuron by neuron."""
        neuron, source = np.nonzero(self.edges.T)
        return source * self.size + neuron

    def incoming(self, index: int) -> Incoming:
        """What a neuron reads."""
        start = int(self.in_degrees[:index].sum())
        sources = self.sources[self.edges[:, index]]
        return Incoming(sources, start + np.arange(len(sources)), float(self.fans[index]) ** -0.5)

    def levels(self, levels: np.ndarray) -> np.ndarray:
        """Longest path to each neuron, given those to the neurons before."""
        found, own = np.full(self.size, -1), levels[self.sources]
        for level in np.unique(own)[::-1]:
            found[(found < 0) & self.edges[own == level].any(axis=0)] = level + 1
        return found if self.skips is None else np.maximum(found, np.where(self.skips < 0, 0, levels[self.skips] + 1))

    def check(self, name: str, before: int) -> None:
        """Refuses what cannot be evaluated; `before` counts the earlier neurons."""
        shapes = (self.edges.ndim, self.edges.shape[:1], self.fans.shape)
        if shapes != (2, self.sources.shape, self.edges.shape[1:]) or self.edges.dtype != bool:
            raise ValueError(
                f"{name}: `edges` must be bool of shape (sources, neurons) and `fans` of shape (neurons,), got "
                f"{self.edges.dtype} {self.edges.shape} and {self.fans.shape} for {len(self.sources)} sources."
            )
        _earlier(name, self.sources, before)
        if np.any(np.diff(self.sources) <= 0):
            raise ValueError(f"{name}: `sources` must increase, each neuron named once.")
        if np.any(self.in_degrees == 0):
            raise ValueError(
                f"{name}: neuron {int(np.argmin(self.in_degrees))} of it reads nothing. "
                "Only inputs may have no incoming edge."
            )
        if np.any(self.fans <= 0):
            raise ValueError(f"{name}: `fans` must be positive.")
        if self.skips is not None:
            if self.skips.shape != self.fans.shape:
                raise ValueError(f"{name}: `skips` must have shape {self.fans.shape}, got {self.skips.shape}.")
            _earlier(name, self.skips[self.skips >= 0], before)


@dataclass(frozen=True, eq=False)
class Shared:
    r"""Neurons that share weights: each of $k$ weight vectors is used once in every window.

    $\tilde f_{j,i} = m^{-1/2} \sum_{t < m} w_{t,i}\, f_{S_{j,t}}$ for windows $S_j$ of $m$ earlier neurons. The neurons
    are numbered window by window.

    Attributes:
        windows: the neurons in each window, shape `(windows, m)`; -1 stands for a zero.
        copies: $k$, how many weight vectors.
    """

    windows: np.ndarray
    copies: int
    skips: None = None

    @property
    def size(self) -> int:
        """How many neurons."""
        return len(self.windows) * self.copies

    @property
    def weight_shape(self) -> tuple[int, int]:
        """Shape of the matrix that holds the weights."""
        return (self.windows.shape[1], self.copies)

    @cached_property
    def in_degrees(self) -> np.ndarray:
        """Weights into each neuron, those that meet a zero included."""
        return np.full(self.size, self.windows.shape[1])

    @property
    def parameters(self) -> int:
        """Trained numbers."""
        return self.windows.shape[1] * self.copies

    @cached_property
    def places(self) -> np.ndarray:
        """Where the weights stand in the flattened matrix, vector by vector."""
        return np.arange(self.parameters).reshape(self.weight_shape).T.ravel()

    def incoming(self, index: int) -> Incoming:
        """What a neuron reads."""
        window, copy = divmod(index, self.copies)
        (used,) = np.nonzero(self.windows[window] >= 0)
        length = self.windows.shape[1]
        return Incoming(self.windows[window][used], copy * length + used, length**-0.5)

    def levels(self, levels: np.ndarray) -> np.ndarray:
        """Longest path to each neuron, given those to the neurons before."""
        longest = np.where(self.windows < 0, -1, levels[self.windows]).max(axis=1) + 1
        return np.repeat(longest, self.copies)

    def check(self, name: str, before: int) -> None:
        """Refuses what cannot be evaluated; `before` counts the earlier neurons."""
        if self.windows.ndim != 2 or 0 in self.windows.shape or self.copies < 1:
            raise ValueError(
                f"{name}: `windows` must have shape (windows, neurons) and `copies` be at least 1, got "
                f"{self.windows.shape} and {self.copies}."
            )
        _earlier(name, self.windows[self.windows >= 0], before)
        if np.any((self.windows < 0).all(axis=1)):
            raise ValueError(f"{name}: a window reads nothing. Only inputs may have no incoming edge.")


def _earlier(name: str, neurons: np.ndarray, before: int) -> None:
    if np.any((neurons < 0) | (neurons >= before)):
        raise ValueError(f"{name}: reads neuron {int(neurons.max())}, but only the {before} neurons before it exist.")


@dataclass(frozen=True, eq=False)
class Graph:
    r"""A feedforward graph, ready to be evaluated block by block.

    Neurons are numbered in the order of evaluation: the inputs first, then the neurons of every block. The **layer** of
    a neuron is the length of the longest path that leads to it, so a neuron may read any layer before its own. The
    **width** is the smallest in-degree of the neurons from layer 2 on; for fully connected layers that is the size of
    the smallest hidden one.

    Attributes:
        inputs: how many input neurons: the features of one sample.
        blocks: the neurons that are computed, in an order in which each reads only earlier ones.
        outputs: the neurons whose values the network gives, in that order. Their activation is the identity, and no
            neuron reads them.
        labels: what each neuron is called; by default its number.

    Example:
        ```python
        from secant.nets import Graph

        graph = Graph.from_edges([("x", "a"), ("x", "b"), ("a", "b"), ("a", "f"), ("b", "f")])
        print(graph.layers, graph.width, graph.edges)
        ```
        ```text
        [['x'], ['a'], ['b'], ['f']] 2 5
        ```
    """

    inputs: int
    blocks: tuple[Block | Shared, ...]
    outputs: np.ndarray
    labels: tuple[Hashable, ...] | None = None

    def __post_init__(self) -> None:
        if self.inputs < 1 or not self.blocks:
            raise ValueError("Graph: needs at least one input and one block of neurons.")
        for index, (block, start) in enumerate(zip(self.blocks, self.starts, strict=False)):
            block.check(f"Graph: block {index}", int(start))
        if self.outputs.ndim != 1 or not len(self.outputs) or len(np.unique(self.outputs)) < len(self.outputs):
            raise ValueError("Graph: `outputs` must name at least one neuron, each once.")
        if self.outputs.min() < self.inputs or self.outputs.max() >= self.neurons:
            raise ValueError("Graph: an output must be a neuron that is computed, not an input.")
        busy = np.intersect1d(self.outputs, self.read)
        if len(busy):
            raise ValueError(
                f"Graph: output {self.label(int(busy[0]))!r} is read by another neuron, so it is not an output."
            )
        if self.labels is not None and len(self.labels) != self.neurons:
            raise ValueError(f"Graph: `labels` must have {self.neurons} entries, got {len(self.labels)}.")

    @staticmethod
    def from_edges(
        edges: Iterable[tuple[Hashable, Hashable]],
        *,
        inputs: Sequence[Hashable] | None = None,
        outputs: Sequence[Hashable] | None = None,
        outputs_anywhere: bool = False,
    ) -> Graph:
        """A graph from its edges `(from, to)`; neurons are named by anything hashable.

        Args:
            edges: every edge once.
            inputs: the input neurons in the order of the features; by default those without incoming edge, in the
                order in which they first appear.
            outputs: the output neurons; by default those without outgoing edge, in the order in which they first
                appear.
            outputs_anywhere: whether outputs may lie in other layers than the last.
        """
        layers, ends = order(edges, inputs, outputs, outputs_anywhere)
        labels = [label for layer in layers for label in layer]
        number = {label: index for index, label in enumerate(labels)}
        blocks = []
        for layer in layers[1:]:
            reads = [sorted(number[source] for source in sources) for sources in layer.values()]
            sources = np.unique(np.concatenate(reads))
            mask = np.zeros((len(sources), len(layer)), bool)
            for column, read in enumerate(reads):
                mask[np.searchsorted(sources, read), column] = True
            blocks.append(Block(sources, mask, mask.sum(axis=0)))
        return Graph(len(layers[0]), tuple(blocks), np.array([number[end] for end in ends]), tuple(labels))

    @cached_property
    def starts(self) -> np.ndarray:
        """The first neuron of each block, and at the end how many neurons there are."""
        return np.cumsum([self.inputs, *(block.size for block in self.blocks)])

    @property
    def neurons(self) -> int:
        """How many neurons, inputs included."""
        return int(self.starts[-1])

    @cached_property
    def read(self) -> np.ndarray:
        """Every neuron that another one reads."""
        used = np.zeros(self.neurons + 1, bool)
        for block in self.blocks:
            if isinstance(block, Shared):
                used[block.windows] = True
            else:
                used[block.sources[block.edges.any(axis=1)]] = True
            if block.skips is not None:
                used[block.skips] = True
            used[-1] = False  # where -1 was written: it names no neuron
        return np.flatnonzero(used)

    @cached_property
    def levels(self) -> np.ndarray:
        """The layer of every neuron: the longest path to it from an input."""
        levels = np.zeros(self.inputs, int)
        for block in self.blocks:
            levels = np.concatenate([levels, block.levels(levels)])
        return levels

    @property
    def layers(self) -> list[list[Hashable]]:
        """The neurons of each layer."""
        return [[self.label(v) for v in np.flatnonzero(self.levels == k).tolist()] for k in range(self.depth + 1)]

    @property
    def depth(self) -> int:
        """The number of layers, not counting the inputs."""
        return int(self.levels.max())

    @cached_property
    def in_degrees(self) -> np.ndarray:
        """Edges into every neuron; 0 for the inputs."""
        return np.concatenate([np.zeros(self.inputs, int), *(block.in_degrees for block in self.blocks)])

    @property
    def width(self) -> int | None:
        """The smallest in-degree from layer 2 on; None where there is no such layer."""
        wide = self.in_degrees[self.levels >= 2]
        return int(wide.min()) if len(wide) else None

    @property
    def edges(self) -> int:
        """How many edges."""
        return int(self.in_degrees.sum())

    @property
    def parameters(self) -> int:
        """How many trained numbers; fewer than edges where weights are shared."""
        return sum(block.parameters for block in self.blocks)

    def label(self, neuron: int) -> Hashable:
        """What a neuron is called."""
        return int(neuron) if self.labels is None else self.labels[neuron]

    def incoming(self) -> Iterator[Incoming]:
        """What every neuron reads, in the order of evaluation, inputs left out; weights are numbered throughout."""
        start = 0
        for block in self.blocks:
            for index in range(block.size):
                own = block.incoming(index)
                yield own._replace(weights=start + own.weights)
            start += block.parameters
