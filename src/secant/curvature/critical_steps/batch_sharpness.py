"""Batch sharpness: the curvature of a batch's loss along the gradient of the same batch, which a step of SGD meets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int

from secant import losses
from secant.core.device import jit
from secant.core.memo import kept
from secant.core.types import Params
from secant.curvature.checks import Function, matching_targets, outputs_of
from secant.curvature.critical_steps.full_batch import sample_numbers
from secant.curvature.operators import Loss
from secant.models.entrance import takes_models


@takes_models
def batch_sharpness(
    f: Function, params: Params, x: Any, y: Any, loss: Loss | str, batches: Int[Array, "count b"]
) -> Float[Array, " count"]:
    r"""The Rayleigh quotient of every batch, $g_b^\top H_bg_b/|g_b|^2$. Their mean is the batch sharpness.

    $g_b$ and $H_b$ are the gradient and the Hessian of the loss of batch $b$. To second order, a step of SGD on the
    batch lowers the batch's own loss if the quotient is below $2/\eta$. For the full batch the quotient is the
    curvature along the gradient.

    Args:
        f: any `f(params, x)`, or a model, which replaces `f` and `params` ([`model`][secant.models.model]).
        params: the parameters to evaluate at.
        x: all inputs, one row a sample.
        y: all targets.
        loss: a [`Loss`][secant.losses.Loss], its name, or any scalar function of outputs and targets.
        batches: rows of sample numbers.

    Returns:
        One number for each batch; NaN where the gradient of the batch is zero.

    Example:
        ```python
        import jax.numpy as jnp
        import secant as sc

        x, y = jnp.array([[1.0], [2.0], [3.0]]), jnp.zeros(3)
        batches = jnp.array([[0, 1], [1, 2]])
        print(sc.batch_sharpness(lambda w, x: x @ w, jnp.ones(1), x, y, "half_mean", batches))
        ```
        ```text
        [2.5 6.5]
        ```
    """
    outputs = outputs_of("batch_sharpness", f, params, x)
    matching_targets("batch_sharpness", outputs, y)
    rows = sample_numbers("batch_sharpness", batches, outputs.shape[0])
    return _quotients(f, losses.get(loss))(params, x, y, rows)


@kept
def _quotients(f: Function, loss: Loss) -> Callable[..., Array]:
    return jit(lambda params, x, y, rows: quotients(f, loss, params, x, y, rows))


def quotients(f: Function, loss: Loss, params: Params, x: Any, y: Any, rows: Int[Array, "count b"]) -> Array:
    """The Rayleigh quotient of every batch, as a traceable function that checks nothing."""

    def one(batch: Array) -> Array:
        inputs, targets = (jax.tree.map(lambda leaf: leaf[batch], part) for part in (x, y))
        slope, product = jax.linearize(jax.grad(lambda p: loss(f(p, inputs), targets)), params)
        flat, bent = ravel_pytree(slope)[0], ravel_pytree(product(slope))[0]
        square = flat @ flat
        return jnp.where(square > 0, flat @ bent / jnp.where(square > 0, square, 1.0), jnp.nan)

    return jax.lax.map(one, rows)
