"""Ritz pairs: approximate eigenpairs from a projected operator, and their errors."""

from __future__ import annotations

from typing import Literal, NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

Which = Literal["largest", "magnitude", "smallest"]
"""Which end of the spectrum: algebraically largest, largest in magnitude, algebraically smallest."""


class Ritz(NamedTuple):
    r"""Approximate eigenpairs, best first.

    Attributes:
        values: $\theta_i$.
        vectors: $u_i$, orthonormal rows.
        residuals: $r_i = \|A u_i - \theta_i u_i\|$ plus rounding. An eigenvalue is guaranteed to lie within this
            distance of $\theta_i$.
        errors: $\min(r_i, r_i^2 / \delta_i)$ plus rounding, with $\delta_i$ the distance to the nearest other Ritz
            value. This is the size of the error once the spectrum near $\theta_i$ is resolved (Temple and Kato).
        products: how many products with the operator were spent.
        converged: whether every error came below the tolerance.
    """

    values: Float[Array, " k"]
    vectors: Float[Array, "k p"]
    residuals: Float[Array, " k"]
    errors: Float[Array, " k"]
    products: Int[Array, ""]
    converged: Bool[Array, ""]


def lengths(rows: Array) -> Array:
    """Norms over the last axis, right also for numbers so small that their squares vanish."""
    peak = jnp.max(jnp.abs(rows), axis=-1, keepdims=True)
    unit = jnp.where(peak > 0, peak, 1.0)
    return unit[..., 0] * jnp.linalg.norm(rows / unit, axis=-1)


def ranked_eigh(projected: Float[Array, "m m"], size: Array | int, which: Which) -> tuple[Array, Array]:
    """Eigenvalues and eigenvectors (columns) of the leading `size` rows, the wanted ones first.

    Rows beyond `size` get eigenvalues that no other row has, on the operator's own scale, and come last.
    """
    active = jnp.arange(projected.shape[0]) < size
    inside = jnp.where(active[:, None] & active[None, :], projected, 0.0)
    inside = (inside + inside.T) / 2
    bound = jnp.max(jnp.sum(jnp.abs(inside), axis=1))  # no eigenvalue is larger
    far = jnp.where(bound > 0, 2 * bound, 1.0)
    values, vectors = jnp.linalg.eigh(inside + jnp.diag(jnp.where(active, 0.0, far)))
    keys = {"largest": -values, "smallest": values, "magnitude": -jnp.abs(values)}[which]
    order = jnp.argsort(jnp.where(values > 0.75 * far, jnp.inf, keys))
    return values[order], vectors[:, order]


def estimates(
    values: Float[Array, " m"], coordinates: Float[Array, "m m"], size: Array, coupling: Float[Array, "b b"], k: int
) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
    """Residual norms and error estimates of the first `k` Ritz pairs of a block Krylov space.

    Args:
        values: eigenvalues of the projected operator, the wanted ones first.
        coordinates: its eigenvectors, as columns.
        size: how many rows the basis has; the rows beyond are padding.
        coupling: the coupling of the last block of the basis to the block that would come next.
        k: how many pairs.
    """
    b = coupling.shape[0]
    last = lax.dynamic_slice(coordinates, (size - b, jnp.int32(0)), (b, coordinates.shape[1]))
    residuals = lengths((coupling.T @ last).T)[:k]
    present = jnp.arange(k) < size
    residuals = jnp.where(present, residuals, jnp.inf)
    apart = jnp.abs(values[:k, None] - values[None, :])
    apart = jnp.where(jnp.eye(k, values.shape[0], dtype=bool), jnp.inf, apart)
    gap = jnp.min(apart, axis=1)
    squared = residuals * (residuals / jnp.maximum(gap, jnp.finfo(gap.dtype).tiny))
    return residuals, jnp.where(present, jnp.minimum(residuals, squared), jnp.inf)
