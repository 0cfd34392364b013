"""Frozen networks: drawn once, and not trained."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from secant.core.arguments import whole
from secant.core.types import Params
from secant.nets import taps
from secant.nets.network import Layer, Network, Shape


@dataclass(frozen=True)
class Frozen(Layer):
    """A network, the only part, whose parameters are drawn once from a seed and not trained."""

    seed: int


def frozen(net: Network, seed: int = 0) -> Network:
    """A network whose parameters are drawn once, from a seed, and not trained; its `params` is empty.

    They are drawn for the shape and the type of the inputs, and are the same whenever those are the same.

    Args:
        net: any network.
        seed: of the draw.

    Example:
        ```python
        import jax
        from secant import nets

        net = nets.serial(nets.dense(64), nets.activation("relu"), nets.frozen(nets.dense(10, last=True)))
        params = net.init(jax.random.key(0), (1, 20))
        print(nets.count_parameters(params), net.output_shape((5, 20)))
        ```
        ```text
        1280 (5, 10)
        ```
    """
    seed = whole("frozen", "seed", seed, least=0)

    @functools.lru_cache(maxsize=8)
    def drawn(shape: Shape, dtype: str) -> Params:
        with jax.ensure_compile_time_eval():  # numbers, also inside a function that is being compiled
            return net.new(jax.random.key(seed), shape, jnp.dtype(dtype))[0]

    def new(key: PRNGKeyArray, shape: Shape, dtype: Any) -> tuple[Params, Shape]:
        return (), net.output_shape((1, *shape))[1:]

    def run(params: Params, x: Array) -> Array:
        return taps.unobserved(lambda: net.run(drawn(x.shape[1:], x.dtype.name), x))

    return Network(new, run, f"frozen {net.name}", (net,), Frozen(seed), net.axes)
