"""Networks of graphs as parts of a larger one: graphs are then data of one compiled program."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from secant.core.types import Params
from secant.nets import Graph, graphs


def edge_factors(graph: Graph, whole: Graph) -> Params:
    r"""What the weights of a whole graph's network are multiplied with to make it that of a part of it.

    Both have the same neurons. Where the part has an edge into a neuron $v$ the factor is
    $\sqrt{\mathrm{fan}_v/\mathrm{fan}'_v}$, the numbers under the root in the whole and in the part, and elsewhere 0:
    outputs, and derivatives in the weights that exist, are those of the part, and derivatives in the others are 0.
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
    """The parameters of the whole network with which it computes what its part computes; to be traced."""
    return jax.tree.map(jnp.multiply, params, factors)
