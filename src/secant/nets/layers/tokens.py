"""Tokens: images are cut into patches, and a trained table tells positions apart."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from secant.core.types import Params
from secant.nets import taps
from secant.nets.layers.checks import at_least_one, fits
from secant.nets.network import FeatureMismatchError, Layer, Network, Shape, fixed
from secant.nets.parametrization import Parametrization, parametrized


@dataclass(frozen=True)
class Patches(Layer):
    """Square pieces of an image, each a vector."""

    size: int


@dataclass(frozen=True)
class Positions(Layer):
    """A trained vector added to every token."""

    parametrization: Parametrization


def patches(size: int = 4) -> Network:
    """Cuts images into square patches, each a vector: `(height, width, channels)` to `(tokens, size² channels)`."""
    at_least_one("patches", size=size)

    def out(shape: Shape) -> Shape:
        fits("patches", shape, (size, size))
        if shape[0] % size or shape[1] % size:
            raise ValueError(
                f"patches: images of {shape[0]} by {shape[1]} cannot be cut into patches of size {size}. Take a `size` "
                "that divides both."
            )
        return (shape[0] // size * (shape[1] // size), size * size * shape[2])

    def cut(x: Array) -> Array:
        n, tokens = len(x), out(x.shape[1:])
        rows = x.reshape(n, x.shape[1] // size, size, x.shape[2] // size, size, x.shape[3])
        return jnp.swapaxes(rows, 2, 3).reshape(n, *tokens)

    return fixed("patches", cut, out, Patches(size), 3)


def positions(parametrization: str | Parametrization = "ntk") -> Network:
    r"""Adds a trained table, one vector a token, $x_t \mapsto x_t + s_b\, b_t$, drawn as a bias is."""
    rule = parametrized(parametrization)

    def new(key: PRNGKeyArray, shape: Shape, dtype: Any) -> tuple[Params, Shape]:
        return {"table": rule.bias(shape[-1], shape[-1]).sample(key, shape, dtype)}, shape

    def run(params: Params, x: Array) -> Array:
        table = params["table"]
        if table.shape != x.shape[1:]:
            raise FeatureMismatchError("positions", math.prod(x.shape[1:]), table.size)
        return taps.shift(table, x, rule.bias(x.shape[-1], x.shape[-1]).scale)

    return Network(new, run, "positions", layer=Positions(rule))
