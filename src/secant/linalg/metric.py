r"""Leading eigenpairs in coordinates that are not orthonormal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from secant.linalg.lanczos import Ritz, _eigh, _rayleigh_ritz

Rows = Float[Array, "b p"]


class _Krylov(NamedTuple):
    basis: Array
    duals: Array
    projected: Array
    size: Array
    block: Array
    dual: Array
    ritz: Ritz


def metric_lanczos(
    products: Callable[[Rows, Rows], Rows],
    metric: Callable[[Rows], Rows],
    start: Rows,
    k: int,
    *,
    tol: float | Array,
    capacity: int,
) -> Ritz:
    r"""The `k` largest eigenpairs of an operator $A$ that is self-adjoint in the inner product $u^\top M v$.

    Block Lanczos in coordinates where $M$ is not the identity, as happens when vectors are given by coefficients of
    vectors that are not orthogonal. Where the product with $A$ begins by multiplying with $M$, as it then usually does,
    that multiplication is shared with the inner products. There are no restarts: a full basis ends the search.

    Args:
        products: $(V, M V) \mapsto A V$ for a block of rows.
        metric: $V \mapsto M V$ for a block of rows.
        start: the starting block.
        k: how many pairs.
        tol: stop when every estimated error is at most `tol` times the largest magnitude.
        capacity: rows of the basis at most.
    """
    b, p = start.shape
    none = jnp.int32(0)

    def extend(state: _Krylov) -> _Krylov:
        basis = lax.dynamic_update_slice(state.basis, state.block, (state.size, none))
        duals = lax.dynamic_update_slice(state.duals, state.dual, (state.size, none))
        images = products(state.block, state.dual)
        coefficients = images @ duals.T
        remainder = images - coefficients @ basis
        projected = lax.dynamic_update_slice(state.projected, coefficients, (state.size, none))
        projected = lax.dynamic_update_slice(projected, coefficients.T, (none, state.size))
        size = state.size + b
        block, dual, coupling = _orthonormal(remainder, metric(remainder))
        values, residuals, errors = _rayleigh_ritz(projected, size, coupling, k, "largest")
        done = jnp.all(errors <= tol * jnp.max(jnp.abs(values)))
        ritz = Ritz(values, state.ritz.vectors, residuals, errors, state.ritz.products + b, done)
        return _Krylov(basis, duals, projected, size, block, dual, ritz)

    def unfinished(state: _Krylov) -> Any:
        finite = jnp.all(jnp.isfinite(state.ritz.values))
        return ~state.ritz.converged & (state.size + b <= capacity) & finite

    empty = jnp.zeros((capacity, p), start.dtype)
    zero = jnp.zeros((k,), start.dtype)
    block, dual, _ = _orthonormal(start, metric(start))
    nothing = Ritz(zero, zero, zero, zero, none, jnp.asarray(False))
    square = jnp.zeros((capacity, capacity), start.dtype)
    state = lax.while_loop(unfinished, extend, _Krylov(empty, empty, square, none, block, dual, nothing))
    _, coordinates = _eigh(state.projected, state.size, "largest")
    return state.ritz._replace(vectors=coordinates[:, :k].T @ state.basis)


def _orthonormal(rows: Rows, duals: Rows) -> tuple[Rows, Rows, Array]:
    """Rows orthonormal in the metric, with their duals, and `coupling` with `rows = coupling @ result`.

    A direction that is nothing but rounding becomes zero: it adds a zero to the spectrum, which is never leading.
    """
    values, vectors = jnp.linalg.eigh(rows @ duals.T)
    real = values > 1e2 * jnp.finfo(rows.dtype).eps * jnp.max(jnp.abs(values))
    roots = jnp.sqrt(jnp.where(real, values, 1.0))
    whiten = jnp.where(real, 1.0 / roots, 0.0)[:, None] * vectors.T
    return whiten @ rows, whiten @ duals, vectors * jnp.where(real, roots, 0.0)


__all__ = ["metric_lanczos"]
