"""Leading eigenvalues of an operator that changes along a run, each look starting from the last eigenvectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from secant.dynamics.probes import Probe
from secant.linalg import Operator, Ritz, block_lanczos


def followed(
    operator: Callable[[Any], Operator],
    k: int,
    every: int,
    tol: float,
    max_products: int,
    label: str,
    whole: bool = False,
) -> Probe:
    """A probe of the leading eigenvalues of an operator of the parameters, started from the last eigenvectors."""

    def look(params: Any, vectors: Array) -> tuple[dict[str, Array], Array]:
        at = operator(params)
        found: Ritz = block_lanczos(at.flat_product(), vectors, k, tol=tol, max_products=max_products)
        # A run that blows up leaves no eigenvectors behind, and the next look starts from the old ones.
        usable = jnp.all(jnp.isfinite(found.vectors))
        record = {
            "value": found.values,
            "residual": found.residuals,
            "error": found.errors,
            "products": found.products,
        }
        return record, jnp.where(usable, found.vectors, vectors)

    def memory(params: Any) -> Array:
        at = jax.eval_shape(lambda p: jnp.zeros(operator(p).shape[0], operator(p).dtype), params)
        return jax.random.normal(jax.random.key(0), (min(k, at.shape[0]), at.shape[0]), at.dtype)

    return Probe(look, every, label=label, dims=("mode",), memory=memory, whole=whole)
