"""Layers for samples with one or two spatial axes, channels last."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, PRNGKeyArray

from secant.core.types import Params
from secant.nets import taps
from secant.nets.layers import at_least_one, fixed
from secant.nets.network import FeatureMismatchError, Network, Shape, keys_of
from secant.nets.parametrization import Parametrization, parametrized
from secant.nets.records import AveragePool, Conv, GlobalAveragePool, Patches


def _spatial(name: str, window: int | tuple[int, ...]) -> tuple[int, ...]:
    """A window as a tuple: a number stands for a square."""
    window = (window, window) if isinstance(window, int) else tuple(window)
    if len(window) not in (1, 2):
        raise ValueError(f"{name}: `window` must have one or two lengths, got {window}.")
    for size in window:
        at_least_one(name, window=size)
    return window


def _fits(name: str, shape: Shape, window: tuple[int, ...]) -> None:
    if len(shape) != len(window) + 1:
        wanted = "(length, channels)" if len(window) == 1 else "(height, width, channels)"
        raise ValueError(f"{name}: with window {window} one sample must have shape {wanted}, got {shape}.")


def _known(name: str, padding: str) -> None:
    if padding not in ("SAME", "VALID", "CIRCULAR"):
        raise ValueError(f"{name}: `padding` must be 'SAME', 'VALID' or 'CIRCULAR', got {padding!r}.")


def _places(name: str, shape: Shape, window: Shape, steps: Shape, padding: str) -> Shape:
    """How many positions a window is put at along every axis."""
    lost = tuple(size - 1 if padding == "VALID" else 0 for size in window)
    places = tuple(-(-(size - less) // step) for size, less, step in zip(shape, lost, steps, strict=False))
    if min(places) < 1:
        raise ValueError(f"{name}: window {window} does not fit into samples of shape {shape}. Use padding='SAME'.")
    return places


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
    window, rule = _spatial("conv", window), parametrized(parametrization)
    _known("conv", padding)

    def new(key: PRNGKeyArray, shape: Shape, dtype: Any) -> tuple[Params, Shape]:
        _fits("conv", shape, window)
        keys = keys_of(key, 2)
        fan_in = math.prod(window) * shape[-1]
        draw = rule.weight(fan_in, channels, last=last)
        params = {"weight": draw.sample(keys[0], (*window, shape[-1], channels), dtype)}
        if bias:
            params["bias"] = rule.bias(fan_in, channels, last=last).sample(keys[1], (channels,), dtype)
        return params, (*_places("conv", shape, window, (strides,) * len(window), padding), channels)

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


def average_pool(window: int | tuple[int, ...] = 2, *, strides: int | None = None, padding: str = "VALID") -> Network:
    """Means over windows.

    Args:
        window: as for [`conv`][secant.nets.conv].
        strides: distance between neighbouring windows; by default they lie side by side.
        padding: `VALID` leaves out what does not fill a window; `SAME` fills it with zeros, which count in the mean,
            and `CIRCULAR` with what lies on the other side.
    """
    window = _spatial("average_pool", window)
    steps = window if strides is None else (strides,) * len(window)
    at_least_one("average_pool", strides=min(steps))
    _known("average_pool", padding)

    def out(shape: Shape) -> Shape:
        _fits("average_pool", shape, window)
        return (*_places("average_pool", shape, window, steps, padding), shape[-1])

    def pool(x: Array) -> Array:
        x, how = taps.padded(x, window, steps, padding)
        # A plain number: JAX knows the derivative of a sum over windows only if it can see that it starts at zero.
        sums = lax.reduce_window(x, np.zeros((), x.dtype), lax.add, (1, *window, 1), (1, *steps, 1), how)
        return sums / math.prod(window)

    return fixed("average_pool", pool, out, AveragePool(window, steps, padding), len(window) + 1)


def global_average_pool() -> Network:
    """The mean over all positions: everything between the samples and the features."""

    def pool(x: Array) -> Array:
        return jnp.mean(x, axis=tuple(range(1, x.ndim - 1)))

    return fixed("global_average_pool", pool, lambda shape: shape[-1:], GlobalAveragePool())


def patches(size: int = 4) -> Network:
    """Cuts images into square patches, each a vector: `(height, width, channels)` to `(tokens, size² channels)`."""
    at_least_one("patches", size=size)

    def out(shape: Shape) -> Shape:
        _fits("patches", shape, (size, size))
        if shape[0] % size or shape[1] % size:
            raise ValueError(f"patches: images of {shape[0]} by {shape[1]} cannot be cut into patches of size {size}.")
        return (shape[0] // size * (shape[1] // size), size * size * shape[2])

    def cut(x: Array) -> Array:
        n, tokens = len(x), out(x.shape[1:])
        rows = x.reshape(n, x.shape[1] // size, size, x.shape[2] // size, size, x.shape[3])
        return jnp.swapaxes(rows, 2, 3).reshape(n, *tokens)

    return fixed("patches", cut, out, Patches(size), 3)
