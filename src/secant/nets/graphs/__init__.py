"""Networks on general graphs, a node a neuron and an edge a weight: builders of such graphs."""

from secant.nets.graphs.builders import (
    bottleneck_neurons,
    connect,
    convolutional,
    densenet,
    drop_edges,
    fully_connected,
    random,
    skip,
)
from secant.nets.graphs.graph import Block, Shared

__all__ = [
    "Block",
    "Shared",
    "bottleneck_neurons",
    "connect",
    "convolutional",
    "densenet",
    "drop_edges",
    "fully_connected",
    "random",
    "skip",
]
