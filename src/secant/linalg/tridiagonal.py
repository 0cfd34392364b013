"""The largest eigenvalue of a tridiagonal matrix, for loops that need no other eigenvalue."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

POINTS = 16
"""An interval is cut into this many parts at once: at best a CPU divides as many numbers in one instruction."""


@jax.custom_jvp
def largest_of_tridiagonal(diagonal: Float[Array, " n"], beside: Float[Array, " n-1"]) -> Float[Array, ""]:
    r"""The largest eigenvalue of the symmetric tridiagonal matrix $T$ with diagonal $\alpha$ and off-diagonal $\beta$.

    All pivots of $T - xI$, $p_1 = \alpha_1 - x$ and $p_i = \alpha_i - x - \beta_{i-1}^2 / p_{i-1}$, are negative if and
    only if $x > \lambda_{\max}$. The method starts with an interval that holds $\lambda_{\max}$, from the largest
    $\alpha_i$ to Gershgorin's bound, and cuts it into sixteenths until it is as short as rounding. This takes only
    divisions of vectors, in one small loop. The derivative is $u^\top \dot T u$ with the eigenvector $u$. Can be
    traced, mapped and batched.

    Args:
        diagonal: $\alpha$.
        beside: $\beta$, of either sign; one entry less.

    Example:
        ```python
        import jax.numpy as jnp
        from secant.linalg.tridiagonal import largest_of_tridiagonal

        print(f"{float(largest_of_tridiagonal(jnp.array([2.0, 2.0]), jnp.array([1.0]))):.4f}")
        ```
        ```text
        3.0000
        ```
    """
    if diagonal.ndim != 1 or beside.shape != (diagonal.size - 1,):
        raise ValueError(
            "largest_of_tridiagonal: `beside` must have one entry less than `diagonal`, got shapes "
            f"{beside.shape} and {diagonal.shape}."
        )
    dtype = diagonal.dtype
    scale = jnp.max(jnp.abs(diagonal)) + jnp.max(jnp.abs(beside), initial=0)
    unit = jnp.where(scale == 0, 1, scale)  # in units of the scale, squares of small numbers do not vanish
    alphas, betas = diagonal / unit, jnp.abs(beside) / unit
    low = jnp.max(alphas)
    high = jnp.max(alphas + jnp.pad(betas, (1, 0)) + jnp.pad(betas, (0, 1)))
    parts = np.arange(POINTS, dtype=dtype) / POINTS

    def narrower(_: Array, interval: tuple[Array, Array]) -> tuple[Array, Array]:
        start, length = interval
        x = start + length * parts
        pivot = alphas[0] - x
        beyond = pivot < 0
        for row in range(1, len(alphas)):
            # After a pivot of zero the pivots mean nothing, and need not: x then does not exceed the eigenvalue.
            pivot = alphas[row] - x - betas[row - 1] ** 2 / pivot
            beyond &= pivot < 0
        last = jnp.sum(~beyond, dtype=np.int32) - 1
        return start + length * (last / POINTS).astype(dtype), length / POINTS

    rounds = math.ceil((jnp.finfo(dtype).nmant + 2) / math.log2(POINTS))
    start, length = lax.fori_loop(0, rounds, narrower, (low, high - low))
    return unit * (start + length / 2)


@largest_of_tridiagonal.defjvp
def _tangent(at: tuple[Array, Array], by: tuple[Array, Array]) -> tuple[Float[Array, ""], Float[Array, ""]]:
    diagonal, beside = at
    vector = jnp.linalg.eigh(jnp.diag(diagonal) + jnp.diag(beside, 1) + jnp.diag(beside, -1))[1][:, -1]
    return largest_of_tridiagonal(*at), by[0] @ vector**2 + 2 * by[1] @ (vector[1:] * vector[:-1])
