"""Convolutions: a matrix at every place of a window. Samples have one or two spatial axes, channels last."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from jaxtyping import Array, PRNGKeyArray

from secant.core.types import Params
from secant.nets import taps
from secant.nets.layers.checks import PADDINGS, at_least_one, fits, lengths, one_of, places
from secant.nets.network import FeatureMismatchError, Layer, Network, Shape, keys_of
from secant.nets.parametrization import Parametrization, parametrized


@dataclass(frozen=True)
class Conv(Layer):
    """A matrix at every place of a window."""

    channels: int
    window: tuple[int, ...]
    strides: int
    padding: str
    parametrization: Parametrization
    bias: bool
    last: bool


def conv(
    channels: int,
    window: int | tuple[int, ...] = 3,
    *,
    strides: int = 1,
    padding: str = "SAME",
    parametrization: str | Parametrization = "ntk",
    bias: bool = False,
    last: bool = False,
) -> Network:
    r"""A convolution, $z_{p} = s \sum_{\delta} a_{p + \delta} W_\delta + s_b\, b$.

    Every output has as many incoming edges as the window has places, times the channels of the input.

    Args:
        channels: how many outputs at every position.
        window: lengths of the window: `(3,)` for samples of shape `(length, channels)`, `(3, 3)`, or `3` for short,
            for samples of shape `(height, width, channels)`.
        strides: distance between neighbouring positions.
        padding: `SAME` pads with zeros so that no position is lost, `CIRCULAR` with what lies on the other side, and
            `VALID` not at all.
        parametrization: as for [`dense`][secant.nets.dense].
        bias: as for `dense`.
        last: as for `dense`.

    Returns:
        A layer with `params = {"weight": (*window, in, out)}` and, with a bias, `"bias": (out,)`.
    """
    at_least_one("conv", channels=channels, strides=strides)
    window, rule = lengths("conv", window), parametrized(parametrization)
    one_of("conv", "padding", padding, PADDINGS)

    def new(key: PRNGKeyArray, shape: Shape, dtype: Any) -> tuple[Params, Shape]:
        fits("conv", shape, window)
        keys = keys_of(key, 2)
        fan_in = math.prod(window) * shape[-1]
        draw = rule.weight(fan_in, channels, last=last)
        params = {"weight": draw.sample(keys[0], (*window, shape[-1], channels), dtype)}
        if bias:
            params["bias"] = rule.bias(fan_in, channels, last=last).sample(keys[1], (channels,), dtype)
        return params, (*places("conv", shape, window, (strides,) * len(window), padding), channels)

    def run(params: Params, x: Array) -> Array:
        weight = params["weight"]
        if x.shape[-1] != weight.shape[-2]:
            raise FeatureMismatchError("conv", x.shape[-1], weight.shape[-2])
        fan_in = math.prod(weight.shape[:-1])
        scale = rule.weight(fan_in, channels, last=last).scale
        z = taps.convolution(weight, x, scale, strides=strides, padding=padding)
        return taps.shift(params["bias"], z, rule.bias(fan_in, channels, last=last).scale) if bias else z

    layer = Conv(channels, window, strides, padding, rule, bias, last)
    return Network(new, run, "conv", layer=layer, axes=len(window) + 1)
