r"""Looks at a JAX model's outputs, sample by sample: its tangent kernel, and which inputs it uses.

Every look is compared with the first look, on the inputs of the first look.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from secant.core.types import Params
from secant.curvature.loss_split import kernel_drift
from secant.curvature.tangent.tangent_kernel import pair_kernel
from secant.losses import Loss

SAMPLES = 16
"""Number of samples that looks at outputs use."""

ROWS = 256
"""Largest number of samples times outputs: a kernel has as many rows, each of them a gradient."""


def inputs_of(batch: Any) -> Any:
    """The inputs in a batch: its first part, or the entry x, inputs, input, image or images of a dictionary."""
    if isinstance(batch, Mapping):
        for name in ("x", "inputs", "input", "image", "images"):
            if name in batch:
                return batch[name]
        raise ValueError(
            f"no entry of the batch is known as its inputs; it has {', '.join(map(str, batch))}. Give `inputs=`, a "
            "function batch -> inputs."
        )
    return batch[0] if isinstance(batch, list | tuple) else batch


def samples_for(f: Callable[..., Any], params: Params, x: Any, wanted: int = SAMPLES) -> int:
    """How many samples a look uses, so that the kernel stays small."""
    size = jax.tree.leaves(x)[0].shape[0]
    outputs = jax.eval_shape(f, params, x)
    each = max(1, math.prod(outputs.shape[1:]))
    if outputs.shape[:1] != (size,):
        raise ValueError(f"`f` must return one row for each sample, got shape {outputs.shape} for {size} samples.")
    return max(1, min(size, wanted, ROWS // each))


def kernel_look(
    f: Callable[..., Any], curvature: float, params: Params, x: Any, first: Array | None
) -> tuple[dict[str, Array], Array]:
    r"""The critical step of the linearised network, $2/(c\,\lambda_{\max}(K))$, and $\|K - K_0\|/\|K_0\|$.

    Args:
        f: any `f(params, x)` that treats each sample alone.
        curvature: $c$, the curvature of the loss in each output.
        params: the parameters.
        x: inputs.
        first: $K_0$, or zeros at the first look.

    Returns:
        The numbers, and the kernel.
    """
    kernel = pair_kernel(f)(params, x, None)
    first = kernel if first is None else first
    largest = jnp.linalg.eigvalsh(kernel)[-1]
    found = {
        "kernel_critical_lr": jnp.where(largest > 0, 2 / (curvature * jnp.where(largest > 0, largest, 1)), jnp.inf),
        "kernel_drift": jnp.where(jnp.any(first != 0), kernel_drift(first, kernel), 0.0),
    }
    return found, kernel


def agop_look(f: Callable[..., Any], params: Params, x: Array, first: Array | None) -> tuple[dict[str, Array], Array]:
    r"""How far the average gradient outer product $G = A^\top A/n$ has moved, $\|G - G_0\|_F/\|G_0\|_F$.

    $A$ has a row for every output of every sample: the gradient of this output by the input. Since
    $\|G - G_0\|^2 = (\|AA^\top\|^2 - 2\|AA_0^\top\|^2 + \|A_0A_0^\top\|^2)/n^2$, no array as large as $G$ is needed.

    Args:
        f: any `f(params, x)` that treats each sample alone.
        params: the parameters.
        x: inputs, one array.
        first: $A_0$, or zeros at the first look.

    Returns:
        The numbers, and $A$.
    """

    def of_sample(sample: Array) -> Array:
        outputs, pull = jax.vjp(lambda one: f(params, one[None]).reshape(-1), sample)
        return jax.vmap(lambda e: pull(e)[0].reshape(-1))(jnp.eye(outputs.size, dtype=outputs.dtype))

    rows = jax.vmap(of_sample)(x)
    rows = rows.reshape(-1, rows.shape[-1])
    first = rows if first is None else first
    here, both, there = (jnp.sum((a @ b.T) ** 2) for a, b in ((rows, rows), (rows, first), (first, first)))
    change = jnp.sqrt(jnp.maximum(here - 2 * both + there, 0))
    return {"agop_change": jnp.where(there > 0, change / jnp.sqrt(jnp.where(there > 0, there, 1)), 0.0)}, rows


def output_curvature(loss: Any, outputs: Any) -> float:
    r"""$c$ with $L = \tfrac c2|f - y|^2$ for a squared loss, else that of $\frac1{2n}\sum_i|f_i - y_i|^2$."""
    found = loss.curvature(outputs) if isinstance(loss, Loss) else None
    return 1 / outputs.shape[0] if found is None else float(found)
