r"""The average gradient outer product: which input directions a function uses.

$$G(f, X) = \frac1n\sum_i \nabla f(x_i)\,\nabla f(x_i)^\top \in \mathbb R^{d\times d},$$

with gradients by the *input*, and $J_i^\top J_i$ in place of $\nabla f\,\nabla f^\top$ for several outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from secant.core.arguments import whole
from secant.core.device import jit
from secant.core.memo import kept
from secant.core.types import Params
from secant.curvature.checks import Function, finite_results, outputs_of, refuse_mixing
from secant.models.entrance import takes_models

BLOCK = 512
"""How many samples' gradients are held at once."""


@takes_models
def agop(f: Function, params: Params, x: Float[Array, "n ..."], *, block: int = BLOCK) -> Float[Array, "d d"]:
    r"""The average gradient outer product of `f` over some inputs.

    Samples are streamed: apart from the result, only the gradients of one block are held. One block costs a forward
    and, for $k$ outputs, $k$ backward passes, and $kbd^2$ multiplications for $b$ samples of $d$ features.

    Args:
        f: any `f(params, x)` that treats its samples one by one.
        params: the parameters to evaluate at.
        x: inputs, one row a sample; images are read row by row, $d$ is all their pixels.
        block: samples at a time.

    Example:
        ```python
        import jax
        import numpy as np
        import secant as sc

        x = np.random.default_rng(0).normal(size=(50, 3))
        G = sc.agop(lambda w, x: x @ w, np.array([2.0, 0.0, 1.0]), x)
        print(np.asarray(G).round(6).tolist())
        ```
        ```text
        [[4.0, 0.0, 2.0], [0.0, 0.0, 0.0], [2.0, 0.0, 1.0]]
        ```
    """
    if not hasattr(x, "dtype"):
        raise TypeError(f"agop: `x` must be one array, one row a sample, got {type(x).__name__}.")
    if not jnp.issubdtype(x.dtype, jnp.floating):
        raise TypeError(
            f"agop: `x` is of type {x.dtype}, which has no gradients. Pass floating-point inputs; for words pass "
            "their embeddings."
        )
    block = whole("agop", "block", block, 1)
    outputs_of("agop", f, params, x)
    refuse_mixing("agop", f, params, x)
    found = _compiled(f, block)(params, jnp.asarray(x))
    finite_results("agop", found)
    return found


def agop_of(f: Function, block: int = BLOCK) -> Callable[[Params, Any], Array]:
    """The function `(params, x) -> G` behind `agop`, without checks, for use inside compiled code."""

    def outer(params: Params, x: Array) -> Array:
        n, features = x.shape[0], int(np.prod(x.shape[1:]))
        size = min(block, n)
        blocks = -(-n // size)
        # The last block is filled up with samples of weight zero.
        weight = (jnp.arange(blocks * size) < n).astype(x.dtype).reshape(blocks, size)
        padded = jnp.concatenate([x, jnp.broadcast_to(x[-1:], (blocks * size - n, *x.shape[1:]))])

        def add(total: Array, given: tuple[Array, Array]) -> tuple[Array, None]:
            rows, counts = given
            outputs, pull = jax.vjp(lambda inputs: f(params, inputs), rows)
            flat = outputs.reshape(size, -1)

            def of_output(sofar: Array, j: Array) -> tuple[Array, None]:
                seed = jnp.zeros_like(flat).at[:, j].set(counts.astype(flat.dtype)).reshape(outputs.shape)
                gradient = pull(seed)[0].reshape(size, features)
                return sofar + gradient.T @ gradient, None

            return lax.scan(of_output, total, jnp.arange(flat.shape[1]))

        start = jnp.zeros((features, features), x.dtype)
        total, _ = lax.scan(add, start, (padded.reshape(blocks, size, *x.shape[1:]), weight))
        return total / n

    return outer


@kept
def _compiled(f: Function, block: int) -> Any:
    return jit(agop_of(f, block))
