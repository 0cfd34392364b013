"""Eigenpairs of a symmetric operator by block Lanczos: warm starts, residual tolerance, thick restarts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray, ScalarLike

from secant.linalg.ritz import Ritz, Which, estimates, lengths, ranked_eigh
from secant.linalg.spaces import images

Product = Callable[[Float[Array, " p"]], Float[Array, " p"]]

STEEP = 0.72
"""If projection leaves less than this share of a row, it is repeated: the sine of somewhat above 45 degrees."""


class _Krylov(NamedTuple):
    basis: Array  # (capacity, p), orthonormal rows, zero from `size` on
    projected: Array  # (capacity, capacity), basis A basis^T
    values: Array  # (capacity,), eigenvalues of `projected`, the wanted ones first
    coordinates: Array  # (capacity, capacity), its eigenvectors, as columns
    size: Array
    block: Array  # (b, p), the next orthonormal rows
    since: Array  # products when the Krylov space was last exhausted
    ritz: Ritz


def block_lanczos(
    product: Product,
    start: Float[Array, "b p"],
    k: int,
    *,
    which: Which = "largest",
    tol: ScalarLike = 1e-6,
    min_products: ScalarLike = 0,
    max_products: ScalarLike = 400,
    capacity: int | None = None,
    key: PRNGKeyArray | None = None,
) -> Ritz:
    r"""The `k` leading eigenpairs of a symmetric operator.

    The method builds an orthonormal basis $Q$ of the block Krylov space of `start`, with full reorthogonalisation, and
    solves $Q A Q^\top$. Each round costs one product for each row of `start`. These products are taken together, so
    that a block runs at the speed of a matrix product. From one random row this is Lanczos' method; from the
    eigenvectors of a nearby operator it needs a round or two. A full basis is compressed to its best Ritz vectors
    (thick restart). An exhausted Krylov space is widened by a random direction, so that a rank-deficient operator
    yields its zeros.

    Every value found is an eigenvalue. Very likely, but not certainly, none between them was skipped. A Krylov space of
    $b$ rows holds at most $b$ eigenvectors of an eigenvalue: if multiplicities matter, start with as many rows.

    The function can be traced: it stops by itself inside a compiled function.

    Args:
        product: $v \mapsto Av$ on flat vectors.
        start: the starting block; its rows need not be orthonormal.
        k: how many pairs; at most $p$.
        which: `largest`, `magnitude` or `smallest`.
        tol: stop when every error is at most `tol` times the largest magnitude among the Ritz values.
        min_products: the fewest products before a stop, counted from the start or from the last exhausted Krylov space.
            A start without knowledge cannot judge its first Ritz values.
        max_products: stop after this many products in any case, at the end of a round; `k` are always spent.
        capacity: rows of the basis kept; more rows need fewer products and more memory.
        key: random key for the random directions.
    """
    b, p = start.shape
    k = min(k, p)
    if is_solved_whole(b, p, k, capacity):
        return _dense(product, jnp.zeros((p,), start.dtype), k, which)
    capacity = _capacity(b, k, capacity)
    keep = min(k + max(2, k // 2), capacity - b)
    key = jax.random.key(0) if key is None else key
    none, rounding = jnp.int32(0), 4 * jnp.finfo(start.dtype).eps
    products = jax.vmap(product) if b > 1 else lambda rows: product(rows[0])[None]
    spare = _directions(key, b, p).astype(start.dtype)  # every round shifts these to get other directions

    def extend(state: _Krylov) -> _Krylov:
        """One round: multiply the block, orthogonalise, solve the projected problem."""
        basis = lax.dynamic_update_slice(state.basis, state.block, (state.size, none))
        images = products(state.block)
        coefficients = images @ basis.T  # (b, capacity)
        remainder = images - coefficients @ basis
        # The block's own rows of the projected matrix, and by symmetry its columns.
        projected = lax.dynamic_update_slice(state.projected, coefficients, (state.size, none))
        projected = lax.dynamic_update_slice(projected, coefficients.T, (none, state.size))
        size, spent = state.size + b, state.ritz.products + b
        another, rounded = jnp.roll(spare, spent, axis=1), jnp.max(jnp.abs(projected))
        block, coupling = _orthonormal_rows(remainder, basis, another, lengths(images), rounded)
        values, coordinates = ranked_eigh(projected, size, which)
        residuals, errors = estimates(values, coordinates, size, coupling, k)
        # The decomposition of a matrix that is not finite may come out finite.
        best = jnp.where(jnp.isfinite(rounded), values[:k], jnp.nan)
        allowed = tol * jnp.max(jnp.abs(best)) + rounding * lengths(projected.ravel())
        # In an exhausted Krylov space everything is exact, but nothing is known outside. The random direction that
        # comes next is a start like the first, unless it finds another exhausted space with nothing new.
        exhausted = jnp.any(jnp.diag(coupling) == 0)
        nothing_new = jnp.all(jnp.abs(best - state.ritz.values) <= allowed) | (min_products == 0)
        enough = jnp.where(exhausted, nothing_new, spent - state.since >= min_products)
        done = jnp.all(errors <= allowed) & enough & jnp.all(jnp.isfinite(best))
        ritz = Ritz(best, state.ritz.vectors, residuals, errors, spent, done)
        since = jnp.where(exhausted, spent, state.since)
        return _Krylov(basis, projected, values, coordinates, size, block, since, ritz)

    def compress(state: _Krylov) -> _Krylov:
        """The basis becomes its best Ritz vectors; the next block stays orthogonal to them."""
        basis = jnp.zeros_like(state.basis).at[:keep].set(state.coordinates[:, :keep].T @ state.basis)
        projected = jnp.zeros_like(state.projected).at[jnp.arange(keep), jnp.arange(keep)].set(state.values[:keep])
        return state._replace(basis=basis, projected=projected, size=jnp.asarray(keep, state.size.dtype))

    def unfinished(state: _Krylov) -> Any:
        finite = jnp.all(jnp.isfinite(state.ritz.values)) | (state.ritz.products == 0)
        return ~state.ritz.converged & (state.ritz.products < jnp.maximum(max_products, k)) & finite

    def fill(state: _Krylov) -> _Krylov:
        return lax.while_loop(lambda s: unfinished(s) & (s.size + b <= capacity), extend, state)

    empty, square = jnp.zeros((capacity, p), start.dtype), jnp.zeros((capacity, capacity), start.dtype)
    # The start becomes orthonormal even if its rows depend on each other; a row of zeros is no start at all.
    first = jnp.linalg.qr(jnp.where(jnp.any(start != 0, axis=1, keepdims=True), start, spare).T)[0].T
    zero = jnp.zeros((k,), start.dtype)
    nothing = Ritz(zero, zero, zero, zero, jnp.int32(0), jnp.asarray(False))
    state = _Krylov(empty, square, square[0], square, none, first, none, nothing)
    state = lax.while_loop(unfinished, lambda s: compress(fill(s)), state)
    floor = _rounding(state.projected)
    ritz = state.ritz
    return ritz._replace(vectors=state.basis[:k], residuals=ritz.residuals + floor, errors=ritz.errors + floor)


def _capacity(b: int, k: int, capacity: int | None) -> int:
    return max(capacity or 0, 2 * k + 18, k + 3 * b)


def is_solved_whole(b: int, p: int, k: int, capacity: int | None) -> bool:
    """Whether an operator of `p` dimensions is so small that its whole matrix is solved, whatever the starting rows."""
    return p <= _capacity(b, min(k, p), capacity) + b


def _directions(key: PRNGKeyArray, b: int, p: int) -> Array:
    """Numbers between -1 and 1 without a pattern, by a hash of their place, for directions that are seldom needed.

    With random numbers of JAX, a quarter of this file's compile time would go to them.
    """
    words = jnp.ravel(jax.random.key_data(key))
    mixed = lax.iota(jnp.uint32, b * p) * jnp.uint32(0x9E3779B9) + words[0] + words[-1] * jnp.uint32(0x27D4EB2F)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):  # the finaliser of MurmurHash3
        mixed = (mixed ^ (mixed >> shift)) * jnp.uint32(factor)
    mixed = mixed ^ (mixed >> 16)
    return lax.bitcast_convert_type(mixed, jnp.int32).reshape(b, p) / 2.0**31


def _dense(product: Product, zero: Array, k: int, which: Which) -> Ritz:
    """A small operator, multiplied by every basis vector and solved exactly."""
    matrix = images(product, zero.size, zero.dtype)
    matrix = (matrix + matrix.T) / 2
    values, vectors = ranked_eigh(matrix, zero.size, which)
    values, vectors = values[:k], vectors[:, :k].T
    residuals = lengths(vectors @ matrix - values[:, None] * vectors) + _rounding(matrix)
    finite = jnp.all(jnp.isfinite(values))
    return Ritz(values, vectors, residuals, residuals, jnp.int32(zero.size), finite)


def _rounding(projected: Array) -> Array:
    """How far rounding alone can move an eigenvalue: some units in the last place of the norm."""
    return 16 * jnp.finfo(projected.dtype).eps * lengths(projected.ravel())


def _orthonormal_rows(rows: Array, basis: Array, spare: Array, scale: Array, rounded: Array) -> tuple[Array, Array]:
    """Orthonormal rows that span `rows` and are orthogonal to `basis`, with `rows = coupling @ result`.

    A row that is only the rounding of numbers like `rounded` is replaced by a row of `spare`, without coupling.
    `scale` holds the lengths of the rows before the basis was projected out.
    """
    epsilon = jnp.finfo(rows.dtype).eps
    done: list[Array] = []
    coupling = jnp.zeros((rows.shape[0], rows.shape[0]), rows.dtype)
    for index in range(rows.shape[0]):
        row = rows[index]
        for other, earlier in enumerate(done):
            overlap = earlier @ row
            row = row - overlap * earlier
            coupling = coupling.at[index, other].set(overlap)
        length = lengths(row)
        lost = length <= 10 * epsilon * rounded
        # A row that has lost digits by cancellation is orthogonalised once more: twice is enough.
        fresh = jnp.where(lost, spare[index] / jnp.linalg.norm(spare[index]), row / jnp.where(lost, 1.0, length))

        def again(vector: Array) -> Array:
            vector = vector - (basis @ vector) @ basis
            for earlier in done:
                vector = vector - (earlier @ vector) * earlier
            return vector / jnp.maximum(jnp.linalg.norm(vector), epsilon)

        # One projection multiplies the basis's lack of orthogonality by the tangent of the angle between the row and
        # its remainder. Above 45 degrees the lack grows, and most rows are there if the spectrum lies far from zero.
        passes = jnp.where(lost | (length < 0.1 * scale[index]), 2, jnp.where(length < STEEP * scale[index], 1, 0))
        fresh = lax.fori_loop(0, passes, lambda _, vector: again(vector), fresh)
        coupling = coupling.at[index, index].set(jnp.where(lost, 0.0, length))
        done.append(fresh)
    return jnp.stack(done), coupling
