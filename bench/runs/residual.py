"""A residual network of 78,000 parameters for pictures of 32 x 32, in plain JAX, as somebody might have it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

WIDTHS = (16, 32, 64)
"""Channels of the three blocks."""

GROUPS = 8
"""Of channels that are normalised together."""


def shapes(norms: bool) -> dict[str, tuple[int, ...]]:
    """Name -> shape of every parameter: 78,042 numbers with norms."""
    found: dict[str, tuple[int, ...]] = {}

    def conv(name: str, size: int, inputs: int, outputs: int) -> None:
        found[f"{name}.weight"] = (size, size, inputs, outputs)
        if norms:
            found[f"{name}.scale"] = found[f"{name}.shift"] = (outputs,)

    conv("stem", 3, 3, WIDTHS[0])
    inputs = WIDTHS[0]
    for number, outputs in enumerate(WIDTHS):
        conv(f"{number}.a", 3, inputs, outputs)
        conv(f"{number}.b", 3, outputs, outputs)
        if inputs != outputs:
            conv(f"{number}.short", 1, inputs, outputs)
        inputs = outputs
    return found | {"head.weight": (inputs, 10), "head.shift": (10,)}


def draw(norms: bool = True, seed: int = 0) -> dict[str, np.ndarray]:
    """Parameters as He draws them."""
    rng = np.random.default_rng(seed)
    found = {}
    for name, shape in shapes(norms).items():
        if name.endswith("weight"):
            found[name] = rng.normal(size=shape) * np.sqrt(2 / np.prod(shape[:-1]))
        else:
            found[name] = np.full(shape, float(name.endswith("scale")))
    return {name: value.astype(np.float32) for name, value in found.items()}


def apply(params: dict[str, Any], x: Any) -> Any:
    """`(b, 32, 32, 3)` -> `(b, 10)`."""

    def conv(name: str, x: Any, stride: int = 1) -> Any:
        z = lax.conv_general_dilated(
            x, params[f"{name}.weight"], (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        if f"{name}.scale" not in params:
            return z
        groups = z.reshape(*z.shape[:3], GROUPS, -1)
        mean = groups.mean((1, 2, 4), keepdims=True)
        square = groups.var((1, 2, 4), keepdims=True)
        return ((groups - mean) * lax.rsqrt(square + 1e-5)).reshape(z.shape) * params[f"{name}.scale"] + params[
            f"{name}.shift"
        ]

    x = jax.nn.relu(conv("stem", x))
    for number, outputs in enumerate(WIDTHS):
        stride = 1 if x.shape[-1] == outputs else 2
        z = conv(f"{number}.b", jax.nn.relu(conv(f"{number}.a", x, stride)))
        x = jax.nn.relu(z + (x if stride == 1 else conv(f"{number}.short", x, stride)))
    return x.mean((1, 2)) @ params["head.weight"] + params["head.shift"]


def loss(params: dict[str, Any], batch: tuple[Any, Any]) -> Any:
    """Cross-entropy, a mean over the batch."""
    x, labels = batch
    logits = apply(params, x)
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1))


def batches(size: int = 64, seed: int = 0) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Pictures of noise with a faint pattern for each label, without end."""
    rng = np.random.default_rng(seed)
    patterns = rng.normal(size=(10, 32, 32, 3)).astype(np.float32)
    while True:
        labels = rng.integers(0, 10, size)
        yield 0.3 * patterns[labels] + rng.normal(size=(size, 32, 32, 3)).astype(np.float32), labels
