"""Random networks of several widths at their start: all that the map of one sample needs to know of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from secant.core.device import jit

BLOCK = 2**20
"""Neurons that are drawn at once, or those of one network if it has more."""

FEW = 2**17
"""So many take less time than to compile for fewer."""


def random_starts(
    key: PRNGKeyArray, widths: Sequence[int], seeds: int, *, signs: bool = True
) -> dict[str, Float[np.ndarray, "networks"]]:
    r"""Networks of several widths on an input of size one: `output`, `curvature` and `width` of each.

    The networks of [`starting_points`][secant.setups.two_layer.models.starting_points], for all widths by two compiled
    programs: a random number depends on its place in an array and not on the array's shape, so they are drawn in blocks
    of one length, or of another if they are few, and cut to their width on the host.

    Args:
        key: randomness, split over the widths.
        widths: hidden neurons.
        seeds: networks of every width, which follow one another.
        signs: outer weights $\pm 1$; otherwise Gaussian.
    """
    at_once = [min(max(1, BLOCK // width), seeds) for width in widths]
    needed = [width * count for width, count in zip(widths, at_once, strict=True)]
    blocks = [-(-seeds // count) for count in at_once]
    draw = {size: jit(partial(_drawn, size, signs), quick=size == FEW) for size in (FEW, max(needed))}
    keys = jit(partial(_block_keys, blocks), quick=True)(key)
    output, curvature = [], []
    for width, count, size, own in zip(widths, at_once, needed, keys, strict=True):
        for i, k in enumerate(own):
            drawn = draw[FEW if size <= FEW else max(needed)](k)
            shape = min(count, seeds - i * count), width
            s, v = (np.asarray(part)[: shape[0] * width].reshape(shape) for part in drawn)
            output.append((v * s).sum(axis=1) / np.sqrt(width))
            curvature.append(((s > 0) * (v**2 + s**2)).mean(axis=1))
    found = {"output": np.concatenate(output), "curvature": np.concatenate(curvature)}
    return found | {"width": np.repeat(np.asarray(widths, float), seeds)}


def _block_keys(blocks: Sequence[int], key: PRNGKeyArray) -> list[list[PRNGKeyArray]]:
    keys = jax.random.split(key, len(blocks))
    return [list(jax.random.split(own, count)) for own, count in zip(keys, blocks, strict=True)]


def _drawn(size: int, signs: bool, key: PRNGKeyArray) -> tuple[Array, Array]:
    """What neurons see of the input, if positive, and their outer weights."""
    inner, outer = jax.random.split(key)
    weights = (jax.random.rademacher if signs else jax.random.normal)(outer, (size,))
    return jnp.maximum(jax.random.normal(inner, (size,)), 0), weights
