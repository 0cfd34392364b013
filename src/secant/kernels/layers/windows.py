"""Sums and means over windows of pairs of positions."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

Shape = tuple[int, ...]


def window_sums(pairs: Array, axes: int, full: bool, window: Shape, steps: Shape, padding: str) -> Array:
    r"""$\sum_\delta k_{p + \delta, q + \delta}$: a window moves over both inputs at once, one axis after the other."""
    for axis in range(axes):
        if window[axis] == 1 and steps[axis] == 1:
            continue
        both = (axis, axes + axis) if full else (axis,)
        pairs = padded(pairs, both, window[axis], steps[axis], padding)
        places = (pairs.shape[axis] - window[axis]) // steps[axis] + 1
        shifted = (
            pairs[slices(pairs.ndim, both, slice(start, start + (places - 1) * steps[axis] + 1, steps[axis]))]
            for start in range(window[axis])
        )
        pairs = functools.reduce(jnp.add, shifted)
    return pairs


def padded(pairs: Array, axes: Shape, window: int, step: int, padding: str) -> Array:
    """Pairs of positions with those beyond the edge, along some axes at once."""
    if padding == "VALID":
        return pairs
    pads = lax.padtype_to_pads((pairs.shape[axes[0]],), (window,), (step,), "SAME")[0]
    widths = [pads if axis in axes else (0, 0) for axis in range(pairs.ndim)]
    padded = jnp.pad(pairs, widths, mode="wrap" if padding == "CIRCULAR" else "constant")
    # On a processor behind a barrier, or the compiler computes what is padded anew for every shift of the window.
    return lax.optimization_barrier(padded) if jax.default_backend() == "cpu" else padded


def slices(axes: int, chosen: Shape, part: slice) -> tuple[slice, ...]:
    """An index that takes a part of some axes and all of the others."""
    return tuple(part if axis in chosen else slice(None) for axis in range(axes))


def cell_means(pairs: Array, cells: Shape) -> Array:
    """Means over cells that lie side by side along the first axes; what fills no cell is left out. One pass."""
    whole = tuple(size // cell * cell for size, cell in zip(pairs.shape, cells, strict=False))
    pairs = pairs[tuple(slice(size) for size in whole)]
    split = [part for size, cell in zip(whole, cells, strict=True) for part in (size // cell, cell)]
    folded = pairs.reshape(*split, *pairs.shape[len(cells) :])
    return jnp.mean(folded, tuple(range(1, 2 * len(cells), 2)))
