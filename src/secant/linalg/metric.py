r"""Block Lanczos in coordinates that are not orthonormal: eigenpairs in an inner product given by a metric."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, ScalarLike

from secant.linalg.ritz import Ritz, estimates, ranked_eigh

Rows = Float[Array, "b p"]


class _Krylov(NamedTuple):
    basis: Array  # (rounds, b, p), blocks orthonormal in the metric
    duals: Array  # (rounds, b, p), the metric times the basis
    projected: Array
    round: Array
    block: Array
    dual: Array
    ritz: Ritz


def metric_lanczos(
    products: Callable[[Rows, Rows], Rows],
    metric: Callable[[Rows], Rows],
    start: tuple[Rows, Rows],
    k: int,
    *,
    tol: ScalarLike,
    rounds: int,
    min_rounds: int = 1,
) -> Ritz:
    r"""The `k` largest eigenpairs of an operator $A$ that is self-adjoint in the inner product $u^\top M v$.

    This is block Lanczos in coordinates where $M$ is not the identity, for example coefficients of vectors that are not
    orthogonal. The product with $A$ then usually begins with a multiplication by $M$, and the inner products share this
    multiplication. There are no restarts: a full basis ends the search.

    Args:
        products: $(V, M V) \mapsto A V$ for a block of rows.
        metric: $V \mapsto M V$ for a block of rows.
        start: the starting block $V$, and $M V$.
        k: how many pairs.
        tol: stop when every estimated error is at most `tol` times the largest magnitude.
        rounds: the most blocks of the basis.
        min_rounds: the fewest rounds before a stop. A start without knowledge cannot judge its first Ritz values.
    """
    b, p = start[0].shape
    none = jnp.int32(0)

    def extend(state: _Krylov) -> _Krylov:
        basis = lax.dynamic_update_index_in_dim(state.basis, state.block, state.round, 0)
        duals = lax.dynamic_update_index_in_dim(state.duals, state.dual, state.round, 0)

        def project_out(earlier: Array, carried: tuple[Array, Array]) -> tuple[Array, Array]:
            remainder, coefficients = carried
            overlap = remainder @ duals[earlier].T
            remainder = remainder - overlap @ basis[earlier]
            return remainder, lax.dynamic_update_slice(coefficients, overlap, (none, earlier * b))

        images = products(state.block, state.dual)
        # The projection goes block by block, so that a short basis costs little.
        blank = jnp.zeros((b, rounds * b), images.dtype)
        remainder, coefficients = lax.fori_loop(0, state.round + 1, project_out, (images, blank))
        here = state.round * b
        projected = lax.dynamic_update_slice(state.projected, coefficients, (here, none))
        projected = lax.dynamic_update_slice(projected, coefficients.T, (none, here))
        block, dual, coupling = _orthonormal(remainder, metric(remainder))
        values, coordinates = ranked_eigh(projected, here + b, "largest")
        residuals, errors = estimates(values, coordinates, here + b, coupling, k)
        enough = state.round + 1 >= min_rounds
        done = enough & jnp.all(errors <= tol * jnp.max(jnp.abs(values[:k])))
        ritz = Ritz(values[:k], state.ritz.vectors, residuals, errors, state.ritz.products + b, done)
        return _Krylov(basis, duals, projected, state.round + 1, block, dual, ritz)

    def unfinished(state: _Krylov) -> Any:
        return ~state.ritz.converged & (state.round < rounds) & jnp.all(jnp.isfinite(state.ritz.values))

    empty = jnp.zeros((rounds, b, p), start[0].dtype)
    zero = jnp.zeros((k,), empty.dtype)
    block, dual, _ = _orthonormal(*start)
    nothing = Ritz(zero, zero, zero, zero, none, jnp.asarray(False))
    square = jnp.zeros((rounds * b, rounds * b), empty.dtype)
    state = lax.while_loop(unfinished, extend, _Krylov(empty, empty, square, none, block, dual, nothing))
    _, coordinates = ranked_eigh(state.projected, state.round * b, "largest")
    return state.ritz._replace(vectors=coordinates[:, :k].T @ state.basis.reshape(rounds * b, p))


def _orthonormal(rows: Rows, duals: Rows) -> tuple[Rows, Rows, Array]:
    """Rows orthonormal in the metric, with their duals, and `coupling` with `rows = coupling @ result`.

    A direction that is only rounding becomes zero. It adds a zero to the spectrum, and this zero is never leading.
    """
    values, vectors = jnp.linalg.eigh(rows @ duals.T)
    real = values > 1e2 * jnp.finfo(rows.dtype).eps * jnp.max(jnp.abs(values))
    roots = jnp.sqrt(jnp.where(real, values, 1.0))
    whiten = jnp.where(real, 1.0 / roots, 0.0)[:, None] * vectors.T
    return whiten @ rows, whiten @ duals, vectors * jnp.where(real, roots, 0.0)


__all__ = ["metric_lanczos"]
