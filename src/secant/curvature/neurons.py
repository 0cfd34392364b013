r"""First and second derivatives of all neurons of a small tanh network on a graph, written out.

They show what a Hessian is made of: block by block between the weights of two layers, and neuron by neuron for the
neurons that the output reads. The output is the last neuron and is linear.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from secant import nets
from secant.core.device import jit
from secant.core.types import Params
from secant.nets import Graph

_norm = partial(np.linalg.norm, ord=2)


class Neurons(NamedTuple):
    """Pre-activations of all neurons but the inputs, in the order of the graph, and their derivatives by the weights.

    Attributes:
        weights: the parameters as one vector.
        sums: pre-activations.
        slopes: gradients of the pre-activations.
        bends: Hessians of the pre-activations.
    """

    weights: Float[np.ndarray, " p"]
    sums: Float[np.ndarray, " n"]
    slopes: Float[np.ndarray, "n p"]
    bends: Float[np.ndarray, "n p p"]


def neurons(graph: Graph, params: Params, x: Float[Array, "1 inputs"]) -> Neurons:
    """First and second derivatives of all pre-activations, by automatic differentiation.

    Args:
        graph: the graph of the network.
        params: its parameters, in the form that [`dag`][secant.nets.dag] uses.
        x: one input.
    """
    net = nets.dag(graph, "tanh")

    def sums(weights: Array) -> Array:
        heard = net.pre_activations(nets.with_edge_weights(graph, weights), x)
        return jnp.concatenate([z.reshape(-1) for z in heard])

    def gradients(weights: Array) -> tuple[Array, tuple[Array, Array]]:
        values, pull = jax.vjp(sums, weights)
        (slopes,) = jax.vmap(pull)(jnp.eye(values.size))
        return slopes, (values, slopes)

    weights = nets.edge_weights(graph, params)
    bends, (values, slopes) = jit(jax.jacfwd(gradients, has_aux=True), quick=True)(weights)
    return Neurons(*map(np.asarray, (weights, values, slopes, bends)))


def layer_ends(graph: Graph) -> np.ndarray:
    """Where the weights of each layer end."""
    return np.cumsum([block.parameters for block in graph.blocks])


def block_norms(hessian: Float[np.ndarray, "p p"], graph: Graph) -> Float[np.ndarray, "layers layers"]:
    """Spectral norms of the blocks between the weights of two layers."""
    cuts = layer_ends(graph)[:-1]
    return np.array([[_norm(block) for block in np.split(row, cuts, axis=1)] for row in np.split(hessian, cuts)])


def read_slopes(graph: Graph, found: Neurons) -> Float[np.ndarray, " layers"]:
    """For each layer, the norm of the gradients that the neurons read by the output have in the layer's weights.

    The norm is divided by the root of the output's in-degree. It is then as large as the Hessian's block between that
    layer and the last.
    """
    *_, output = graph.incoming()
    read = output.sources[output.sources >= graph.inputs] - graph.inputs  # inputs have no slope
    slopes = (1 - np.tanh(found.sums[read]) ** 2)[:, None] * found.slopes[read]
    return np.array([output.factor * _norm(part) for part in np.split(slopes, layer_ends(graph)[:-1], axis=1)])


def first_block_norms(graph: Graph, found: Neurons) -> tuple[float, float]:
    r"""Norm of the first layer's block of the output's Hessian, as a sum of $\partial f/\partial f_u\,D^2f_u$.

    The sum runs over all neurons $u$, and the derivative can be read in two ways. The total derivative follows all
    paths from the neuron to the output; a path then counts once for every neuron on it. The direct derivative takes
    only the output's own weight, and is right.

    Returns:
        The norm with total and the norm with direct derivatives.
    """
    first, f = slice(layer_ends(graph)[0]), np.tanh(found.sums)
    slope, bend = 1 - f**2, -2 * f * (1 - f**2)
    slope[-1], bend[-1] = 1.0, 0.0  # the output is linear
    own = found.slopes[:, first]
    bends = slope[:, None, None] * found.bends[:, first, first] + bend[:, None, None] * own[:, :, None] * own[:, None]
    incoming, (total, direct) = list(graph.incoming()), np.zeros((2, graph.neurons))
    total[-1] = 1.0
    for neuron in range(graph.neurons - 1, graph.inputs - 1, -1):
        reads = incoming[neuron - graph.inputs]
        outer = total[neuron] * slope[neuron - graph.inputs] * reads.factor
        total[reads.sources] += outer * found.weights[reads.weights]
    direct[incoming[-1].sources] = incoming[-1].factor * found.weights[incoming[-1].weights]
    by_total, by_direct = (np.tensordot(d[graph.inputs :], bends, 1) for d in (total, direct))
    return float(_norm(by_total)), float(_norm(by_direct))
