"""A graph becomes a network: layer by layer, as masked products."""

from __future__ import annotations

import functools
import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray

from secant.core.device import jit, to_device
from secant.core.types import Params
from secant.nets import taps
from secant.nets.activations import Function, activate, named
from secant.nets.graphs.graph import Block, Graph, Shared
from secant.nets.network import FeatureMismatchError, Layer, Network, Shape, keys_of
from secant.nets.parametrization import Draw


@dataclass(frozen=True)
class Dag(Layer):
    """A network on a general graph."""

    graph: Graph


def dag(
    graph: Graph,
    activation: str | Function = "tanh",
    *,
    exceptions: Mapping[Hashable, str | Function] | None = None,
    name: str = "dag",
) -> Network:
    r"""The network of a graph.

    $f_v = \sigma_v(\tilde f_v)$ with $\tilde f_v = \mathrm{in}(v)^{-1/2} \sum_{u \to v} w_{uv} f_u$ and
    $w_{uv} \sim N(0, 1)$; $\sigma_v$ is the identity at the outputs, and there are no biases. A graph with one output
    gives outputs of shape `(samples,)`, with several `(samples, outputs)`.

    `params` has one entry a block of the graph, `{"weight": (sources, neurons)}`. Entries without an edge start at 0
    and never matter, so every derivative in them is 0; [`edge_weights`][secant.nets.edge_weights] gives only the
    weights that exist.

    Args:
        graph: the graph.
        activation: name or function, for all hidden neurons.
        exceptions: other activations for some of them, by label.
        name: the network's name in errors and records.

    Example:
        ```python
        import jax
        from secant import nets

        graph = nets.graphs.drop_edges(nets.graphs.densenet(3, [64, 64], concat_input=False), jax.random.key(0))
        net = nets.dag(graph, "tanh")
        x = jax.random.normal(jax.random.key(1), (5, 3))
        params = net.init(jax.random.key(2), x.shape)
        print(net.apply(params, x).shape, nets.edge_weights(graph, params).size == graph.edges)
        ```
        ```text
        (5,) True
        ```
    """
    functions = neuron_activations(graph, activation, exceptions)
    # Made outside of any trace: the masks belong to the network, not to the call that happens to build it.
    with jax.ensure_compile_time_eval():
        masks = [None if isinstance(b, Shared) or b.edges.all() else to_device(b.edges) for b in graph.blocks]

    def new(key: PRNGKeyArray, shape: Shape, dtype: Any) -> tuple[Params, Shape]:
        if shape != (graph.inputs,):
            raise ValueError(f"{name}.init: the graph has {graph.inputs} inputs but a sample has shape {shape}.")
        params = []
        for block, mask, one in zip(graph.blocks, masks, keys_of(key, len(masks)), strict=True):
            weight = Draw("normal", 1.0).sample(one, block.weight_shape, dtype)
            params.append({"weight": weight if mask is None else jnp.where(mask, weight, 0)})
        return tuple(params), () if len(graph.outputs) == 1 else (len(graph.outputs),)

    def run(params: Params, x: Array) -> Array:
        if x.shape[-1] != graph.inputs:
            raise FeatureMismatchError(name, x.shape[-1], graph.inputs)
        values = x
        for block, mask, sigma, own in zip(graph.blocks, masks, functions, params, strict=True):
            z = _sums(block, mask, own["weight"], values)
            f = sigma(z)
            if block.skips is not None:
                f = f + jnp.where(block.skips < 0, 0, _take(values, np.maximum(block.skips, 0)))
            values = jnp.concatenate([values, f], axis=-1)
        outputs = _take(values, graph.outputs)
        return outputs[:, 0] if len(graph.outputs) == 1 else outputs

    return Network(new, run, name, layer=Dag(graph), axes=1)


def graph_of(net: Network) -> Graph:
    """The graph that a network was made of."""
    if not isinstance(net.layer, Dag):
        raise TypeError(f"graph_of: `net` must be the network of a graph, made by `dag`, got {net.name}.")
    return net.layer.graph


def _take(values: Array, neurons: np.ndarray) -> Array:
    """Columns of the values; a slice where they lie side by side."""
    first, last = int(neurons[0]), int(neurons[-1])
    if np.array_equal(neurons, np.arange(first, last + 1)):
        return values[:, first : last + 1]
    return values[:, neurons]


def _sums(block: Block | Shared, mask: Array | None, weight: Array, values: Array) -> Array:
    """The pre-activations of a block."""
    if isinstance(block, Shared):
        padded = jnp.pad(values, ((0, 0), (0, 1)))  # index -1 finds the zero at the end
        windows = padded[:, block.windows]
        return taps.linear(weight, windows, block.windows.shape[1] ** -0.5).reshape(len(values), -1)
    inputs, roots = _take(values, block.sources), block.fans**-0.5
    if mask is None and len(np.unique(roots)) == 1:
        return taps.linear(weight, inputs, float(roots[0]))
    scale = jnp.asarray(roots, weight.dtype)
    if mask is None:
        return taps.linear(weight, inputs, jnp.broadcast_to(scale, weight.shape))
    # The barrier keeps the compiler from multiplying the mask out, which takes it seconds at large width.
    return taps.linear(weight, inputs, lax.optimization_barrier(mask) * scale)


def neuron_activations(
    graph: Graph, activation: str | Function, exceptions: Mapping[Hashable, str | Function] | None = None
) -> list[Function]:
    """For every block the activation of its neurons, which is the identity at the outputs."""
    _, usual = named(activation)
    special = {label: named(function)[1] for label, function in (exceptions or {}).items()}
    hidden = set(range(graph.inputs, graph.neurons)) - set(graph.outputs.tolist())
    known = {graph.label(neuron): neuron for neuron in hidden} if special else {}
    for label in special:
        if label not in known:
            raise ValueError(f"dag: `exceptions` names {label!r}, which is not a hidden neuron of the graph.")
    functions = []
    for start, block in zip(graph.starts, graph.blocks, strict=False):
        own = start + np.arange(block.size)
        linear = np.isin(own, graph.outputs)
        others = [(own == known[label], f) for label, f in special.items() if start <= known[label] <= own[-1]]
        functions.append(_joined(usual, linear, others))
    return functions


def _joined(usual: Function, linear: np.ndarray, others: list[tuple[np.ndarray, Function]]) -> Function:
    """One function for a block whose neurons may have different activations."""
    if linear.all():
        return lambda z: z

    def sigma(z: Array) -> Array:
        f = usual(z)
        for where, function in others:
            f = jnp.where(where, function(z), f)
        return jnp.where(linear, z, f) if linear.any() else f

    return lambda z: activate(sigma, z)


def edge_weights(graph: Graph, params: Params) -> Float[Array, "parameters"]:
    r"""The weights that exist, as one vector: $w = (w^{(1)}, w^{(2)}, \dots)$ block by block, neuron by neuron."""
    return _gathered([own["weight"] for own in params], [block.places for block in graph.blocks])


@jit
def _gathered(matrices: list[Array], places: list[np.ndarray]) -> Array:
    return jnp.concatenate([matrix.ravel()[place] for matrix, place in zip(matrices, places, strict=True)])


def with_edge_weights(graph: Graph, weights: Float[Array, "parameters"]) -> Params:
    """The `params` of the network with these weights; undoes [`edge_weights`][secant.nets.edge_weights].

    `lambda w, x: net.apply(with_edge_weights(graph, w), x)` is the network as a function of one vector of weights.
    """
    if weights.shape != (graph.parameters,):
        raise ValueError(f"with_edge_weights: `weights` must have shape ({graph.parameters},), got {weights.shape}.")
    shapes = tuple(tuple(map(int, block.weight_shape)) for block in graph.blocks)
    matrices = _scattered(weights, [block.places for block in graph.blocks], shapes)
    return tuple({"weight": matrix} for matrix in matrices)


@functools.partial(jit, static_argnames="shapes")
def _scattered(weights: Array, places: list[np.ndarray], shapes: tuple[Shape, ...]) -> list[Array]:
    matrices, start = [], 0
    for place, shape in zip(places, shapes, strict=True):
        own = weights[start : start + len(place)]
        matrices.append(jnp.zeros(math.prod(shape), own.dtype).at[place].set(own).reshape(shape))
        start += len(place)
    return matrices
