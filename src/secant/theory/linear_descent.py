r"""Gradient descent on a model that is linear in its parameters: everything is known.

The tangent kernel $K$ never moves, and on $\frac12\|r\|^2$ the residual $r = f - y$ obeys $r' = (I - \eta K)\, r$.
Along an eigenvector of $K$ it is multiplied by $1 - \eta\lambda_i$ a step, so the loss falls for every start if and
only if $\eta < 2/\lambda_{\max}$: there is no step size that is critical and still converges.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from secant.theory._types import Real


def residual_after(
    residual: Float[Array, " n"], kernel: Float[Array, "n n"], lr: Real, steps: Real
) -> Float[Array, "... n"]:
    r"""The residual after some steps, $r_t = (I - \eta K)^t\, r_0$.

    Args:
        residual: $r_0$.
        kernel: $K$, symmetric.
        lr: $\eta$ for the loss $\frac12\|r\|^2$; broadcasts with `steps`.
        steps: $t$, whole numbers.
    """
    values, vectors = jnp.linalg.eigh(kernel)
    lr, steps = jnp.asarray(lr)[..., None], jnp.asarray(steps)[..., None]
    # Signs apart, so that the power of a negative factor is one of a positive number.
    factor = 1 - lr * values
    sign = jnp.where((factor < 0) & (steps % 2 == 1), -1.0, 1.0)
    return (sign * jnp.abs(factor) ** steps * (vectors.T @ residual)) @ vectors.T


def critical_step(kernel: Float[Array, "n n"]) -> Float[Array, ""]:
    r"""The largest step size at which no direction grows, $2/\lambda_{\max}(K)$, for the loss $\frac12\|r\|^2$."""
    return 2 / jnp.linalg.eigvalsh(kernel)[-1]


def loss_growth(kernel: Float[Array, "n n"], lr: Real) -> Float[Array, "..."]:
    r"""The factor of the loss a step after a long time, $\max_i (1 - \eta\lambda_i)^2$."""
    values = jnp.linalg.eigvalsh(kernel)
    return jnp.max((1 - jnp.asarray(lr)[..., None] * values) ** 2, axis=-1)
