"""Layers of infinite width: for every kind of layer of `secant.nets.layers` its rule, in a file of the same name.

The rules are imported by name, because the digest of the code that a study depends on follows imports.
"""

from __future__ import annotations

from typing import Any

from secant.kernels.layers import activation, attention, combinators, conv, dense, norm, pool, shape, tokens
from secant.kernels.layers.rule import NO_RULE, Join, Rule
from secant.nets import layers

RULES: dict[type, Rule] = {
    layers.Activation: activation.RULE,
    layers.Attention: attention.RULE,
    layers.AveragePool: pool.AVERAGE_POOL,
    layers.Conv: conv.RULE,
    layers.Dense: dense.RULE,
    layers.Flatten: shape.FLATTEN,
    layers.GlobalAveragePool: pool.GLOBAL_AVERAGE_POOL,
    layers.Identity: shape.IDENTITY,
    layers.LayerNorm: norm.RULE,
    layers.Patches: tokens.PATCHES,
    layers.Positions: tokens.POSITIONS,
    layers.Scalar: shape.SCALAR,
}
"""Rules of single layers, by the type of the record."""

JOINS: dict[type, Join] = {
    layers.Concat: combinators.side_by_side,
    layers.Product: combinators.multiplied,
    layers.Residual: combinators.added,
    layers.Sum: combinators.added,
}
"""Rules of layers that join branches, by the type of the record."""


def rule_of(layer: Any) -> Rule:
    """The rule of a layer; `NO_RULE` for a kind that has none."""
    return RULES.get(type(layer), NO_RULE)
