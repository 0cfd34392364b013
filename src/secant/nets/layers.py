"""Layers, each a Network of its own. Norms are in `norms`, those of image and token networks in `images`, `tokens`."""

from __future__ import annotations

import math
from typing import Any

from jaxtyping import Array, PRNGKeyArray

from secant.core.types import Params
from secant.nets import taps
from secant.nets.activations import Function, activate, named
from secant.nets.network import FeatureMismatchError, Network, Shape, keys_of
from secant.nets.parametrization import Parametrization, parametrized
from secant.nets.records import Activation, Dense, Flatten, Identity, Layer, Scalar


def fixed(name: str, function: Any, out: Any, layer: Layer, axes: int | None = None) -> Network:
    """A layer without parameters; `out` is the shape of one output, given that of one sample."""
    return Network(
        lambda key, shape, dtype: ((), out(shape)),
        lambda params, x: function(x),
        name,
        layer=layer,
        axes=axes,
    )


def at_least_one(name: str, **options: int) -> None:
    """Refuses sizes that are not whole numbers of at least 1."""
    for option, value in options.items():
        if not isinstance(value, int) or value < 1:
            raise ValueError(f"{name}: `{option}` must be a whole number of at least 1, got {value!r}.")


def identity() -> Network:
    r"""$x \mapsto x$."""
    return fixed("identity", lambda x: x, lambda shape: shape, Identity())


def activation(function: str | Function) -> Network:
    r"""$z \mapsto \sigma(z)$, entry by entry; by name (in [`ACTIVATIONS`][secant.nets.ACTIVATIONS]) or any function."""
    name, sigma = named(function)
    return fixed("activation", lambda z: activate(sigma, z), lambda shape: shape, Activation(name, sigma))


def flatten() -> Network:
    """One vector a sample."""
    return fixed("flatten", lambda x: x.reshape(len(x), -1), lambda shape: (math.prod(shape),), Flatten())


def scalar() -> Network:
    """Drops the feature axis of a network with a single output, so that a batch gives shape `(samples,)`."""

    def out(shape: Shape) -> Shape:
        if shape != (1,):
            raise ValueError(f"scalar: takes one output a sample, shape (samples, 1), got (samples, {shape}).")
        return ()

    return fixed("scalar", lambda x: x[..., 0], out, Scalar())


def dense(
    features: int, *, parametrization: str | Parametrization = "ntk", bias: bool = False, last: bool = False
) -> Network:
    r"""A dense layer, $z = s\, a W + s_b\, b$, on the last axis.

    Args:
        features: how many outputs.
        parametrization: sets how $W$ and $b$ are drawn and the scales $s$ and $s_b$; see
            [`Parametrization`][secant.nets.Parametrization].
        bias: whether there is a $b$.
        last: whether this layer gives the outputs of the network, which some parametrisations scale differently.

    Returns:
        A layer with `params = {"weight": (in, out)}` and, with a bias, `"bias": (out,)`.
    """
    at_least_one("dense", features=features)
    rule = parametrized(parametrization)

    def new(key: PRNGKeyArray, shape: Shape, dtype: Any) -> tuple[Params, Shape]:
        keys = keys_of(key, 2)
        fan_in = shape[-1]
        params = {"weight": rule.weight(fan_in, features, last=last).sample(keys[0], (fan_in, features), dtype)}
        if bias:
            params["bias"] = rule.bias(fan_in, features, last=last).sample(keys[1], (features,), dtype)
        return params, (*shape[:-1], features)

    def run(params: Params, x: Array) -> Array:
        weight = params["weight"]
        fan_in = weight.shape[0]
        if x.shape[-1] != fan_in:
            raise FeatureMismatchError("dense", x.shape[-1], fan_in)
        z = taps.linear(weight, x, rule.weight(fan_in, features, last=last).scale)
        return taps.shift(params["bias"], z, rule.bias(fan_in, features, last=last).scale) if bias else z

    return Network(new, run, "dense", layer=Dense(features, rule, bias, last))
