r"""Backpropagation on graphs of single neurons, with its operations counted.

On a graph with values $f_v = \sigma_v(\tilde f_v)$, $\tilde f_v = c_v\sum_{u\to v}w_{uv}f_u$, an output $f$ has a
derivative in the value of every neuron. Backpropagation finds all of these in one wave from the outputs down. A neuron
adds the messages from its outgoing edges to $S_v$, and sends $S_v\,\partial f_v/\partial f_u$ along each incoming edge.
Then

$$S_v = \frac{\partial f}{\partial f_v}, \qquad
\frac{\partial f}{\partial w_{uv}} = S_v\,\sigma'_v(\tilde f_v)\,c_v f_u,$$

and the work is proportional to the number of edges. The naive way goes forward with the derivatives of every neuron in
every earlier neuron: its work is the number of neurons times the number of edges. The derivative of a weight that
several edges share is the sum over these edges. A recurrent network, unrolled in time, is therefore a graph like any
other. Differentiating the wave once more in a direction $v$ gives $\nabla^2f\,v$ for less than the work of three
gradients, whatever the graph.

Everything runs on the host, one sample at a time. An operation is one product along one edge, of a value with a weight
or of a message with a derivative. Products at neurons are not counted; there are fewer of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from secant.core.arguments import whole
from secant.core.device import jit
from secant.nets import Graph
from secant.nets.activations import Function, named
from secant.nets.graphs import Block

Derivatives = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]
"""An activation with its first and second derivative."""


class Gradient(NamedTuple):
    r"""All derivatives of an output, by one wave of messages.

    Attributes:
        value: $f$.
        nodes: $S_v = \partial f/\partial f_v$, one per neuron, the inputs first.
        edges: derivatives in the weight of each edge, as if no weight were shared, in the order of the edges.
        weights: derivatives in the weights: sums over the edges that share a weight.
        operations: products along edges.
    """

    value: float
    nodes: Float[np.ndarray, " neurons"]
    edges: Float[np.ndarray, " edges"]
    weights: Float[np.ndarray, " weights"]
    operations: int


class Pairs(NamedTuple):
    r"""Derivatives of every neuron in every earlier one.

    Attributes:
        derivatives: $\partial f_v/\partial f_u$ in row $v$ and column $u$; 1 on the diagonal.
        nodes: derivatives of the output in every neuron.
        operations: products along edges.
    """

    derivatives: Float[np.ndarray, "neurons neurons"]
    nodes: Float[np.ndarray, " neurons"]
    operations: int


class Product(NamedTuple):
    r"""The Hessian of an output times a vector.

    Attributes:
        product: $\nabla^2f\,v$ in the weights.
        operations: products along edges.
    """

    product: Float[np.ndarray, " weights"]
    operations: int


class Unrolled(NamedTuple):
    """A recurrent network as a graph.

    Attributes:
        graph: one block per step; its inputs are the inputs of all steps, then the start.
        tie: for every edge the number of its weight; all steps share their weights.
    """

    graph: Graph
    tie: Int[np.ndarray, " edges"]


def gradient(
    graph: Graph,
    weights: Float[np.ndarray, " weights"],
    x: Float[np.ndarray, " inputs"],
    activation: str | Function = "tanh",
    *,
    output: Float[np.ndarray, " outputs"] | None = None,
    tie: Int[np.ndarray, " ties"] | None = None,
) -> Gradient:
    r"""Backpropagation: the derivatives of an output in all neurons and all weights.

    Args:
        graph: the graph.
        weights: one number per weight, in the order of [`edge_weights`][secant.nets.edge_weights].
        x: one sample.
        activation: name or function, for all hidden neurons; outputs are linear.
        output: weights of the outputs, if there are several: $f$ is their weighted sum.
        tie: for every edge the number of its weight; by default the graph's own numbers.

    Example:
        ```python
        import numpy as np
        from secant.nets import Graph
        from secant.theory.descent import backprop

        graph = Graph.from_edges([("x", "a"), ("x", "b"), ("a", "b"), ("a", "f"), ("b", "f")])
        found = backprop.gradient(graph, np.array([1.0, 2.0, 3.0, 4.0, 5.0]), np.array([0.1]), "identity")
        print(found.nodes.round(3), found.operations)
        ```
        ```text
        [15.328 10.328  3.536  1.   ] 15
        ```
    """
    wave = _Wave.of("gradient", graph, weights, x, activation, tie)
    values, slopes, _ = wave.forward()
    nodes, at_sums = wave.start("gradient", output), np.zeros(graph.neurons)
    edges, operations = np.zeros(len(wave.weight)), len(wave.weight)
    for block in reversed(wave.blocks):
        own, part = block.own, block.edges
        at_sums[own] = nodes[own] * slopes[own]
        sent = at_sums[wave.target[part]] * wave.factor[part]
        np.add.at(nodes, wave.source[part], sent * wave.weights[wave.weight[part]])
        edges[part] = sent * values[wave.source[part]]
        operations += 2 * len(sent) + wave.skip(nodes, nodes, block)
    value = float(wave.start("gradient", output) @ values)
    return Gradient(value, nodes, edges, wave.tied(edges), operations)


def naive(
    graph: Graph,
    weights: Float[np.ndarray, " weights"],
    x: Float[np.ndarray, " inputs"],
    activation: str | Function = "tanh",
    *,
    output: Float[np.ndarray, " outputs"] | None = None,
    tie: Int[np.ndarray, " ties"] | None = None,
) -> Pairs:
    r"""The derivatives of every neuron in every earlier one, computed forward: the naive way.

    $$\frac{\partial f_v}{\partial f_j}
    = \sum_{u\to v}\frac{\partial f_v}{\partial f_u}\,\frac{\partial f_u}{\partial f_j} .$$

    An edge that leaves the $i$-th neuron costs $i$ products, one for every neuron up to the $i$-th. The total is about
    half the number of neurons times the number of edges. The arguments are those of
    [`gradient`][secant.theory.descent.backprop.gradient].
    """
    wave = _Wave.of("naive", graph, weights, x, activation, tie)
    _, slopes, _ = wave.forward()
    pairs, operations = np.eye(graph.neurons), len(wave.weight)
    for block in wave.blocks:
        for edge in range(block.edges.start, block.edges.stop):
            u, v = wave.source[edge], wave.target[edge]
            local = slopes[v] * wave.factor[edge] * wave.weights[wave.weight[edge]]
            pairs[v, : u + 1] += local * pairs[u, : u + 1]
            operations += int(u) + 1
        for v, u in block.skips:
            pairs[v, : u + 1] += pairs[u, : u + 1]
            operations += int(u) + 1
    return Pairs(pairs, wave.start("naive", output) @ pairs, operations)


def hessian_product(
    graph: Graph,
    weights: Float[np.ndarray, " weights"],
    x: Float[np.ndarray, " inputs"],
    v: Float[np.ndarray, " directions"],
    activation: str | Function = "tanh",
    *,
    output: Float[np.ndarray, " outputs"] | None = None,
    tie: Int[np.ndarray, " ties"] | None = None,
) -> Product:
    r"""The Hessian of an output times a vector, $\nabla^2f\,v$ in the weights.

    The wave is differentiated in the direction $v$: values and messages carry their derivatives $\dot f_u$ and
    $\dot S_u$ along. The work is 8 products per edge; a gradient takes 3. The arguments are those of
    [`gradient`][secant.theory.descent.backprop.gradient]; `v` has one entry per weight.
    """
    wave = _Wave.of("hessian_product", graph, weights, x, activation, tie)
    v = np.asarray(v, float)
    if v.shape != wave.weights.shape:
        raise ValueError(f"hessian_product: `v` must have shape {wave.weights.shape}, as `weights`, got {v.shape}.")
    values, slopes, bends = wave.forward()
    moved, sums, operations = np.zeros(graph.neurons), np.zeros(graph.neurons), len(wave.weight)
    w, direction = wave.weights[wave.weight], v[wave.weight]
    for block in wave.blocks:
        part, sources = block.edges, wave.source[block.edges]
        change = wave.factor[part] * (w[part] * moved[sources] + direction[part] * values[sources])
        np.add.at(sums, wave.target[part], change)
        moved[block.own] = slopes[block.own] * sums[block.own]
        operations += 2 * len(change)
        for node, source in block.skips:
            moved[node] += moved[source]
    nodes, twice = wave.start("hessian_product", output), np.zeros(graph.neurons)
    edges = np.zeros(len(wave.weight))
    for block in reversed(wave.blocks):
        own, part, sources, targets = block.own, block.edges, wave.source[block.edges], wave.target[block.edges]
        sent, bent = np.zeros(graph.neurons), np.zeros(graph.neurons)
        sent[own] = nodes[own] * slopes[own]
        bent[own] = twice[own] * slopes[own] + nodes[own] * bends[own] * sums[own]
        one, two = sent[targets] * wave.factor[part], bent[targets] * wave.factor[part]
        np.add.at(nodes, sources, one * w[part])
        np.add.at(twice, sources, two * w[part] + one * direction[part])
        edges[part] = two * values[sources] + one * moved[sources]
        operations += 5 * len(one) + wave.skip(nodes, nodes, block)
        wave.skip(twice, twice, block)
    return Product(wave.tied(edges), operations)


def unroll(neurons: int, inputs: int, steps: int) -> Unrolled:
    r"""The graph of a recurrent network in time, $h_t = \sigma\big((n + m)^{-1/2}(Wh_{t-1} + Ux_t)\big)$.

    The neurons of the last step are the outputs, and linear. The weights are one matrix `(neurons, inputs + neurons)`,
    $(U, W)$, flattened; a sample is $(x_1, \dots, x_T, h_0)$, flattened.

    Args:
        neurons: $n$.
        inputs: $m$, inputs of each step; 0 for a network that has no input after its start.
        steps: $T$.

    Example:
        ```python
        import numpy as np
        from secant.theory.descent import backprop

        graph, tie = backprop.unroll(neurons=2, inputs=1, steps=50)
        rng = np.random.default_rng(0)
        found = backprop.gradient(graph, rng.normal(size=6), rng.normal(size=52), tie=tie, output=np.ones(2))
        print(found.weights.shape, found.edges.shape)
        ```
        ```text
        (6,) (300,)
        ```
    """
    neurons, inputs = whole("unroll", "neurons", neurons), whole("unroll", "inputs", inputs, 0)
    steps = whole("unroll", "steps", steps)
    given, full = steps * inputs, np.ones((inputs + neurons, neurons), bool)
    blocks = []
    for step in range(steps):
        before = given + step * neurons
        sources = np.concatenate([step * inputs + np.arange(inputs), before + np.arange(neurons)])
        blocks.append(Block(sources, full, np.full(neurons, inputs + neurons)))
    count = given + (steps + 1) * neurons
    graph = Graph(given + neurons, tuple(blocks), np.arange(count - neurons, count))
    return Unrolled(graph, np.tile(np.arange(neurons * (inputs + neurons)), steps))


class _Part(NamedTuple):
    """A block of the graph: its neurons, its edges, and its skips as pairs (target, source)."""

    own: slice
    edges: slice
    skips: list[tuple[int, int]]


@dataclass(frozen=True)
class _Wave:
    """A graph as lists of edges, neuron by neuron, with one sample and the weights."""

    graph: Graph
    weights: np.ndarray
    x: np.ndarray
    derivatives: Derivatives
    source: np.ndarray
    target: np.ndarray
    weight: np.ndarray
    factor: np.ndarray
    blocks: list[_Part]

    @staticmethod
    def of(name: str, graph: Graph, weights: Any, x: Any, activation: str | Function, tie: Any) -> _Wave:
        incoming = list(graph.incoming())
        degrees = np.array([len(one.sources) for one in incoming])
        own = np.concatenate([one.weights for one in incoming]) if tie is None else np.asarray(tie)
        if tie is not None and (own.shape != (degrees.sum(),) or own.dtype.kind != "i" or own.min() < 0):
            raise ValueError(
                f"{name}: `tie` must give each of the {degrees.sum()} edges its weight, by whole numbers from 0 on, "
                f"got {own.dtype} of shape {own.shape}."
            )
        count = graph.parameters if tie is None else int(own.max()) + 1
        weights, x = np.asarray(weights, float), np.asarray(x, float)
        for what, array, size in (("weights", weights, count), ("x", x, graph.inputs)):
            if array.shape != (size,):
                raise ValueError(f"{name}: `{what}` must have shape ({size},), got {array.shape}.")
        return _Wave(
            graph,
            weights,
            x,
            _derivatives(activation),
            np.concatenate([one.sources for one in incoming]),
            np.repeat(graph.inputs + np.arange(len(incoming)), degrees),
            own,
            np.repeat([one.factor for one in incoming], degrees),
            list(_parts(graph, degrees)),
        )

    def forward(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Values of all neurons, and first and second derivatives of their activations."""
        values, slopes, bends = (np.zeros(self.graph.neurons) for _ in range(3))
        values[: self.graph.inputs] = self.x
        last = np.zeros(self.graph.neurons, bool)
        last[self.graph.outputs] = True
        for block in self.blocks:
            part, own = block.edges, block.own
            products = self.factor[part] * self.weights[self.weight[part]] * values[self.source[part]]
            sums = np.bincount(self.target[part] - own.start, products, minlength=own.stop - own.start)
            flat = (sums, np.ones_like(sums), np.zeros_like(sums))
            for kind, bent, linear in zip((values, slopes, bends), self.derivatives(sums), flat, strict=True):
                kind[own] = np.where(last[own], linear, bent)
            for node, source in block.skips:
                values[node] += values[source]
        return values, slopes, bends

    def start(self, name: str, output: Any) -> np.ndarray:
        """The first message: 1 at the output, or the weights of several."""
        ends = self.graph.outputs
        if output is None and len(ends) > 1:
            raise ValueError(f"{name}: the graph has {len(ends)} outputs; give their weights as `output`.")
        chosen = np.ones(1) if output is None else np.asarray(output, float)
        if chosen.shape != ends.shape:
            raise ValueError(f"{name}: `output` must have shape {ends.shape}, got {chosen.shape}.")
        first = np.zeros(self.graph.neurons)
        first[ends] = chosen
        return first

    def tied(self, edges: np.ndarray) -> np.ndarray:
        """Sums over the edges that share a weight."""
        return np.bincount(self.weight, edges, minlength=len(self.weights))

    @staticmethod
    def skip(to: np.ndarray, of: np.ndarray, block: _Part) -> int:
        """Adds the messages along skips, whose weight is fixed at 1, and counts them."""
        for node, source in block.skips:
            to[source] += of[node]
        return len(block.skips)


def _parts(graph: Graph, degrees: np.ndarray) -> Iterator[_Part]:
    ends = np.concatenate([[0], np.cumsum(degrees)])
    for start, block in zip(graph.starts, graph.blocks, strict=False):
        first, last = int(start) - graph.inputs, int(start) - graph.inputs + block.size
        skips = [] if block.skips is None else [(int(start) + i, int(u)) for i, u in enumerate(block.skips) if u >= 0]
        yield _Part(slice(int(start), int(start) + block.size), slice(int(ends[first]), int(ends[last])), skips)


def _tanh(z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    f = np.tanh(z)
    return f, 1 - f**2, -2 * f * (1 - f**2)


_BY_HAND: dict[str, Derivatives] = {
    "identity": lambda z: (z, np.ones_like(z), np.zeros_like(z)),
    "tanh": _tanh,
    "relu": lambda z: (np.maximum(z, 0), (z > 0) * 1.0, np.zeros_like(z)),
    "sin": lambda z: (np.sin(z), np.cos(z), -np.sin(z)),
}
"""Activations with derivatives by hand, which need no compiler."""


def _derivatives(activation: str | Function) -> Derivatives:
    name, function = named(activation)
    if isinstance(activation, str) and name in _BY_HAND:
        return _BY_HAND[name]

    def twice(z: Any) -> Any:
        ones = jnp.ones_like(z)
        return jax.jvp(lambda z: jax.jvp(function, (z,), (ones,)), (z,), (ones,))

    def found(z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        (value, slope), (_, bend) = jit(twice, quick=True)(z)
        return np.asarray(value), np.asarray(slope), np.asarray(bend)

    return found
