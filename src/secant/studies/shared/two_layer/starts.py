"""Random networks of several widths at their start: the outputs and curvatures that the map of one sample needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from secant.core.device import jit

BLOCK = 2**20
"""How many neurons are drawn at once; a network with more is drawn as a whole."""

FEW = 2**17
"""Drawing this many neurons takes less time than compiling for fewer."""


def starting_points(
    key: PRNGKeyArray, width: int, seeds: int, *, signs: bool = True
) -> tuple[Float[np.ndarray, "seeds"], Float[np.ndarray, "seeds"]]:
    r"""Outputs and curvatures of random networks on an input of size one, without building them.

    Only $s_i = u_i^\top x/\|x\| \sim \mathcal N(0, 1)$ and $v_i$ matter: $\pm 1$, or Gaussian if not `signs`.

    Args:
        key: random key.
        width: hidden neurons.
        seeds: how many networks.
        signs: whether outer weights are $\pm 1$; otherwise they are Gaussian.
    """
    (found,) = _starts(lambda key: [key], key, (width,), seeds, signs)
    return found


def random_starts(
    key: PRNGKeyArray, widths: Sequence[int], seeds: int, *, signs: bool = True
) -> dict[str, Float[np.ndarray, "networks"]]:
    """Starting points for several widths: `output`, `curvature` and `width` of `seeds` networks of each width in turn.

    The key is split over the widths.
    """
    found = _starts(lambda key: jax.random.split(key, len(widths)), key, widths, seeds, signs)
    output, curvature = (np.concatenate(part) for part in zip(*found, strict=True))
    return {"output": output, "curvature": curvature, "width": np.repeat(np.asarray(widths, float), seeds)}


def _starts(
    split: Callable[[PRNGKeyArray], Any], key: PRNGKeyArray, widths: Sequence[int], seeds: int, signs: bool
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Outputs and curvatures of every width, by two compiled programs.

    A random number depends on its place in an array and not on the array's shape. Neurons are therefore drawn in blocks
    of one length, or of another if they are few, and cut to their width on the host.
    """
    at_once = [min(max(1, BLOCK // width), seeds) for width in widths]
    needed = [width * count for width, count in zip(widths, at_once, strict=True)]
    draw = {size: jit(partial(_drawn, size, signs), quick=size == FEW) for size in (FEW, max(needed))}

    def block_keys(key: PRNGKeyArray) -> list[list[PRNGKeyArray]]:
        pairs = zip(split(key), at_once, strict=True)
        return [list(jax.random.split(own, -(-seeds // count))) for own, count in pairs]

    found = []
    for width, count, size, keys in zip(widths, at_once, needed, jit(block_keys, quick=True)(key), strict=True):
        output, curvature = [], []
        for i, k in enumerate(keys):
            drawn = draw[FEW if size <= FEW else max(needed)](k)
            shape = min(count, seeds - i * count), width
            s, v = (np.asarray(part)[: shape[0] * width].reshape(shape) for part in drawn)
            output.append((v * s).sum(axis=1) / np.sqrt(width))
            curvature.append(((s > 0) * (v**2 + s**2)).mean(axis=1))
        found.append((np.concatenate(output), np.concatenate(curvature)))
    return found


def _drawn(size: int, signs: bool, key: PRNGKeyArray) -> tuple[Array, Array]:
    """The positive part of the neurons' pre-activations, and their outer weights."""
    inner, outer = jax.random.split(key)
    weights = (jax.random.rademacher if signs else jax.random.normal)(outer, (size,))
    return jnp.maximum(jax.random.normal(inner, (size,)), 0), weights
