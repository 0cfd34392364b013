"""The alignment of two matrices of features: the cosine between them."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from secant.core.arguments import is_traced
from secant.core.device import jit, to_device


def alignment(first: Any, second: Any) -> Float[Array, ""]:
    r"""The cosine between two matrices, $\operatorname{tr}(A^\top B)/(\|A\|_F\|B\|_F)$.

    The cosine is 1 only if the matrices are positive multiples of each other. It lies between 0 and 1 for positive
    semi-definite matrices, such as the average gradient outer product of a network and the expected gradient outer
    product of its target.

    Args:
        first: a matrix, shape `(d, d)`.
        second: another matrix of this shape.

    Example:
        ```python
        import numpy as np
        import secant as sc

        target = sc.data.TARGETS["rank-2"].egop(4)  # diag(1, 1, 0, 0)
        print(f"{float(sc.alignment(np.eye(4), target)):.3f}")
        ```
        ```text
        0.707
        ```
    """
    a, b = to_device(first), to_device(second)
    if a.shape != b.shape or a.ndim != 2:
        raise ValueError(f"alignment: the matrices must have one shape (d, d), got {a.shape} and {b.shape}.")
    cosine, tops = _cosine(a, b)
    if not is_traced(tops):
        for name, top in zip(("first", "second"), map(float, tops), strict=True):
            if not math.isfinite(top):
                raise ValueError(f"alignment: the {name} matrix has entries that are not finite.")
            if top == 0:
                raise ValueError(f"alignment: the {name} matrix is zero; it has no direction to align with.")
    return cosine


def _scaled_first(a: Array, b: Array) -> tuple[Array, tuple[Array, Array]]:
    """The cosine and the largest entries. Scaling comes first, because squares of entries may overflow or vanish."""
    tops = jnp.max(jnp.abs(a)), jnp.max(jnp.abs(b))
    a, b = a / tops[0], b / tops[1]
    return jnp.sum(a * b) / (jnp.linalg.norm(a) * jnp.linalg.norm(b)), tops


_cosine = jit(_scaled_first)
