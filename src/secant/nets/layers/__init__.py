"""Layers, a file a kind: its record, how its parameters are drawn, and what it computes.

The record of a layer holds its choices, so that a rule for a kind of layer is a function of its record. A new layer is
a file here and a name in the list below. If it has a limit of infinite width, its rule is a file of the same name in
`secant.kernels.layers`.
"""

from secant.nets.layers.activation import Activation
from secant.nets.layers.attention import Attention
from secant.nets.layers.combinators import Concat, Product, Residual, Serial, Sum
from secant.nets.layers.conv import Conv
from secant.nets.layers.dense import Dense
from secant.nets.layers.frozen import Frozen
from secant.nets.layers.norm import BatchNorm, GroupNorm, LayerNorm
from secant.nets.layers.pool import AveragePool, GlobalAveragePool
from secant.nets.layers.shape import Flatten, Identity, Scalar
from secant.nets.layers.tokens import Patches, Positions
from secant.nets.network import Layer

__all__ = [
    "Activation",
    "Attention",
    "AveragePool",
    "BatchNorm",
    "Concat",
    "Conv",
    "Dense",
    "Flatten",
    "Frozen",
    "GlobalAveragePool",
    "GroupNorm",
    "Identity",
    "Layer",
    "LayerNorm",
    "Patches",
    "Positions",
    "Product",
    "Residual",
    "Scalar",
    "Serial",
    "Sum",
]
