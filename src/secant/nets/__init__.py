"""Networks: layers, combinators, parametrisations, architectures and general graphs."""

from secant.nets import activations, graphs
from secant.nets.activations import ACTIVATIONS, Nonlinearity
from secant.nets.architectures import (
    cnn,
    deep_linear,
    densenet,
    mlp,
    myrtle5,
    resnet,
    two_layer,
    vit,
    vit4,
    wide_resnet,
)
from secant.nets.graphs.graph import Graph
from secant.nets.graphs.network import dag, edge_weights, with_edge_weights
from secant.nets.graphs.recursion import pre_activation_hessian
from secant.nets.homogeneity import Homogeneity, homogeneity
from secant.nets.invariant import scale_invariant
from secant.nets.layers.activation import activation
from secant.nets.layers.attention import attention
from secant.nets.layers.combinators import add, concat, multiply, residual, serial
from secant.nets.layers.conv import conv
from secant.nets.layers.dense import dense
from secant.nets.layers.frozen import frozen
from secant.nets.layers.norm import batch_norm, group_norm, layer_norm
from secant.nets.layers.pool import average_pool, global_average_pool
from secant.nets.layers.shape import flatten, identity, scalar
from secant.nets.layers.tokens import patches, positions
from secant.nets.network import Network, count_parameters
from secant.nets.parametrization import Draw, Parametrization
from secant.nets.rebuild import with_parametrizations
from secant.nets.taps import Site, observe

__all__ = [
    "ACTIVATIONS",
    "Draw",
    "Graph",
    "Homogeneity",
    "Network",
    "Nonlinearity",
    "Parametrization",
    "Site",
    "activation",
    "activations",
    "add",
    "attention",
    "average_pool",
    "batch_norm",
    "cnn",
    "concat",
    "conv",
    "count_parameters",
    "dag",
    "deep_linear",
    "dense",
    "densenet",
    "edge_weights",
    "flatten",
    "frozen",
    "global_average_pool",
    "graphs",
    "group_norm",
    "homogeneity",
    "identity",
    "layer_norm",
    "mlp",
    "multiply",
    "myrtle5",
    "observe",
    "patches",
    "positions",
    "pre_activation_hessian",
    "residual",
    "resnet",
    "scalar",
    "scale_invariant",
    "serial",
    "two_layer",
    "vit",
    "vit4",
    "wide_resnet",
    "with_edge_weights",
    "with_parametrizations",
]
