"""Networks of graphs as parts of a larger network: graphs are then data of one compiled program."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from secant.core.types import Params
from secant.nets import Graph, graphs


def edge_factors(graph: Graph, whole: Graph) -> Params:
    r"""The factors of the weights that turn the network of a whole graph into the network of a part of the graph.

    Both graphs have the same neurons. If the part has an edge into a neuron $v$, the factor is
    $\sqrt{\mathrm{fan}_v/\mathrm{fan}'_v}$, with the in-degrees in the whole and in the part; otherwise it is 0.
    Outputs and derivatives by the remaining weights are those of the part. Derivatives by the other weights are 0.
    """
    factors = []
    for now, before in zip(graph.blocks, whole.blocks, strict=True):
        if isinstance(now, graphs.Block) and isinstance(before, graphs.Block):
            factor = np.zeros(before.weight_shape, np.float32)
            rows = np.searchsorted(before.sources, now.sources)
            factor[rows] = now.edges * np.sqrt(before.fans / now.fans)
            factors.append({"weight": factor})
    return tuple(factors)


def part(params: Params, factors: Params) -> Params:
    """The parameters with which the whole network computes the same as its part; traceable."""
    return jax.tree.map(jnp.multiply, params, factors)
