"""The spectral norm of a symmetric operator and its eigenvector, by short programs that compile fast."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from secant.linalg.tridiagonal import largest_of_tridiagonal


class Norm(NamedTuple):
    r"""A spectral norm and its residual.

    Attributes:
        value: the largest magnitude $|\theta|$ among the Ritz values, at most $\|A\|$ up to rounding.
        residual: $\|Au - \theta u\|$. An eigenvalue lies within this distance of $\theta$.
    """

    value: Float[Array, ""]
    residual: Float[Array, ""]


def spectral_norm(
    product: Callable[[Float[Array, " p"]], Float[Array, " p"]], start: Float[Array, " p"], steps: int = 24
) -> Norm:
    r"""The spectral norm of a symmetric operator, from its products with vectors.

    The method runs Lanczos' three-term recurrence, $\beta_{j+1} q_{j+1} = A q_j - \alpha_j q_j - \beta_j q_{j-1}$, and
    takes the largest eigenvalue in magnitude of the tridiagonal matrix of the $\alpha_j$ and $\beta_j$. It keeps three
    vectors and orthogonalises nothing again. Eigenvalues already found can therefore come again, which does not change
    a norm. It compiles in a fraction of the time of [`block_lanczos`][secant.linalg.block_lanczos], and can be traced,
    mapped and batched. For eigenvectors, several eigenvalues or a tolerance use `block_lanczos`.

    Args:
        product: $v \mapsto Av$ on flat vectors.
        start: a random vector.
        steps: products to spend, at most the dimension.

    Example:
        ```python
        import jax
        import jax.numpy as jnp
        from secant.linalg.norm import spectral_norm

        A = jnp.diag(jnp.linspace(-3.0, 1.0, 50))
        found = spectral_norm(lambda v: A @ v, jax.random.normal(jax.random.key(0), (50,)))
        abs(float(found.value) - 3) < 1e-4
        ```
    """
    _, (alphas, betas) = jax.lax.scan(
        lambda state, _: _advance(product, state), _first(start), None, length=min(steps, start.size)
    )
    value, _, residual = _leading(alphas, betas)
    return Norm(jnp.abs(value), residual)


def largest_eigenvalue(matrix: Float[Array, "n n"], *, steps: int = 24, dense: int = 32) -> Float[Array, ""]:
    r"""The largest eigenvalue of a positive semi-definite matrix, such as a tangent kernel that is written out.

    Up to `dense` rows all eigenvalues are computed. Beyond, `steps` products with vectors find the largest eigenvalue
    from below, and to rounding if the next eigenvalue is well below it. Can be traced, mapped and batched.

    Args:
        matrix: symmetric, without negative eigenvalues.
        steps: products to spend.
        dense: up to this many rows all eigenvalues are computed.

    Example:
        ```python
        import jax.numpy as jnp
        from secant.linalg.norm import largest_eigenvalue

        print(f"{float(largest_eigenvalue(jnp.diag(jnp.array([1.0, 3.0, 2.0])))):.4f}")
        ```
        ```text
        3.0000
        ```
    """
    if len(matrix) <= dense:
        return jnp.linalg.eigvalsh(matrix)[-1]
    # The start is drawn here, because a compiled program would draw it again at every look of a run.
    start = jnp.asarray(np.random.default_rng(0).standard_normal(len(matrix)), matrix.dtype)
    _, (alphas, betas) = jax.lax.scan(
        lambda state, _: _advance(lambda v: matrix @ v, state),
        _first(start),
        None,
        length=min(steps, len(matrix)),
        unroll=2,
    )
    return largest_of_tridiagonal(alphas, betas[:-1])


class LeadingPair(NamedTuple):
    r"""The eigenvalue of largest magnitude, with its eigenvector.

    Attributes:
        value: $\theta$, with its sign; $|\theta|$ is the spectral norm.
        vector: $u$, of length 1, shape `(p,)`.
        residual: $\|Au - \theta u\|$, from the recurrence.
    """

    value: Float[Array, ""]
    vector: Float[Array, " p"]
    residual: Float[Array, ""]


def leading_pair(
    product: Callable[[Float[Array, " p"]], Float[Array, " p"]], start: Float[Array, " p"], steps: int = 24
) -> LeadingPair:
    r"""The eigenvalue of largest magnitude of a symmetric operator, with its eigenvector, kept in four vectors.

    The recurrence of [`spectral_norm`][secant.linalg.norm.spectral_norm] runs twice. The first pass gives the
    tridiagonal matrix and its eigenvector $s$. The second pass adds up $u = \sum_j s_j q_j$ from the same Krylov
    vectors. This costs twice the products, but the basis is never kept.

    Args:
        product: $v \mapsto Av$ on flat vectors.
        start: a random vector.
        steps: products to spend in each pass, at most the dimension.
    """
    steps = min(steps, start.size)

    def sweep(weights: Array, _: None) -> tuple[Array, tuple[Array, Array, Array]]:
        def advance(state: tuple[_State, Array], weight: Array) -> tuple[tuple[_State, Array], tuple[Array, Array]]:
            (before, now, beta), mixed = state
            after, found = _advance(product, (before, now, beta))
            return (after, mixed + weight * now), found

        end, (alphas, betas) = jax.lax.scan(advance, (_first(start), jnp.zeros_like(start)), weights)
        value, vector, residual = _leading(alphas, betas)
        return vector, (value, end[1], residual)

    # One scan of two passes, so that the product is compiled once.
    _, (values, vectors, residuals) = jax.lax.scan(sweep, jnp.zeros(steps, start.dtype), None, length=2)
    # Without orthogonalisation the Krylov vectors may repeat each other, and their mixture may be longer than 1.
    return LeadingPair(values[1], vectors[1] / jnp.linalg.norm(vectors[1]), residuals[1])


_State = tuple[Array, Array, Array]
"""The last and the current Lanczos vector, and the coefficient between them."""


def _first(start: Array) -> _State:
    return jnp.zeros_like(start), start / jnp.linalg.norm(start), jnp.zeros((), start.dtype)


def _advance(product: Callable[[Array], Array], state: _State) -> tuple[_State, tuple[Array, Array]]:
    """A step of Lanczos' recurrence: the next vector, and the diagonal and the next off-diagonal coefficient."""
    before, now, beta = state
    image = product(now) - beta * before
    alpha = now @ image
    image = image - alpha * now
    length = jnp.linalg.norm(image)
    # After an exhausted Krylov space come zeros, which add eigenvalues 0 and do not change the norm.
    after = jnp.where(length > 0, image / jnp.maximum(length, jnp.finfo(now.dtype).tiny), 0.0)
    return (now, after, length), (alpha, length)


def _leading(alphas: Array, betas: Array) -> tuple[Array, Array, Array]:
    """Eigenvalue of largest magnitude of the tridiagonal matrix, its eigenvector, and its residual."""
    values, vectors = jnp.linalg.eigh(jnp.diag(alphas) + jnp.diag(betas[:-1], 1) + jnp.diag(betas[:-1], -1))
    best = jnp.argmax(jnp.abs(values))
    return values[best], vectors[:, best], betas[-1] * jnp.abs(vectors[-1, best])


__all__ = ["LeadingPair", "Norm", "largest_eigenvalue", "leading_pair", "spectral_norm"]
