"""Activations as layers: a function of every entry. The functions themselves are in `nets.activations`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from secant.nets.activations import Function, activate, named
from secant.nets.network import Layer, Network, fixed


@dataclass(frozen=True)
class Activation(Layer):
    """A function of every entry alone; `activation` is its name."""

    activation: str
    function: Callable[[Any], Any]


def activation(function: str | Function) -> Network:
    r"""$z \mapsto \sigma(z)$, entry by entry; by name (in [`ACTIVATIONS`][secant.nets.ACTIVATIONS]) or any function."""
    name, sigma = named(function)
    return fixed("activation", lambda z: activate(sigma, z), lambda shape: shape, Activation(name, sigma))
