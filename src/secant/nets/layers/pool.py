"""Pools: means over windows, or over all positions."""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

from secant.nets import taps
from secant.nets.layers.checks import PADDINGS, at_least_one, fits, lengths, one_of, places
from secant.nets.network import Layer, Network, Shape, fixed


@dataclass(frozen=True)
class AveragePool(Layer):
    """Means over windows."""

    window: tuple[int, ...]
    strides: tuple[int, ...]
    padding: str = "VALID"


@dataclass(frozen=True)
class GlobalAveragePool(Layer):
    """The mean over all positions."""


def average_pool(window: int | tuple[int, ...] = 2, *, strides: int | None = None, padding: str = "VALID") -> Network:
    """Means over windows.

    Args:
        window: as for [`conv`][secant.nets.conv].
        strides: distance between neighbouring windows; by default they lie side by side.
        padding: `VALID` leaves out what does not fill a window; `SAME` fills it with zeros, which count in the mean,
            and `CIRCULAR` with what lies on the other side.
    """
    window = lengths("average_pool", window)
    steps = window if strides is None else (strides,) * len(window)
    at_least_one("average_pool", strides=min(steps))
    one_of("average_pool", "padding", padding, PADDINGS)

    def out(shape: Shape) -> Shape:
        fits("average_pool", shape, window)
        return (*places("average_pool", shape, window, steps, padding), shape[-1])

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
