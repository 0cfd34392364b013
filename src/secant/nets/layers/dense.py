"""Dense layers: a matrix on the features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jaxtyping import Array, PRNGKeyArray

from secant.core.types import Params
from secant.nets import taps
from secant.nets.layers.checks import at_least_one
from secant.nets.network import FeatureMismatchError, Layer, Network, Shape, keys_of
from secant.nets.parametrization import Parametrization, parametrized


@dataclass(frozen=True)
class Dense(Layer):
    """A matrix on the last axis, drawn and scaled by its parametrisation; `last` if it gives the network's outputs."""

    features: int
    parametrization: Parametrization
    bias: bool
    last: bool


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
