"""Layers of infinite width: for every kind of layer of `secant.nets.layers` a file of the same name with its rule.

Whoever asks for a rule has all of these files, because they are imported here by name: the digest of the code that a
study depends on follows imports.
"""

from __future__ import annotations

from typing import Any

from secant.kernels.layers import activation, attention, combinators, conv, dense, norm, pool, registry, shape, tokens
from secant.kernels.layers.registry import Join, Rule

FILES = (activation, attention, combinators, conv, dense, norm, pool, shape, tokens)
"""The files with rules."""

RULES: dict[type, Rule] = registry.RULES
"""Rules of single layers, by the type of the record."""

JOINS: dict[type, Join] = registry.JOINS
"""Rules of layers that join branches, by the type of the record."""


def rule_of(layer: Any) -> Rule:
    """The rule of a layer; an empty one for a kind that has none."""
    return RULES.get(type(layer), Rule())
