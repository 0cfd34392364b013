r"""The one-hidden-layer linear network as a quadratic regression model.

$f(x) = v^\top U x$ with $v \in \mathbb R^M$, $U \in \mathbb R^{M\times N}$ has a constant second derivative
in $(v, U)$. On one sample the eigenvalues are $\pm|x|$, $M$ times each, and zero $M(N-1)$ times. The Jacobian
has no weight on the zero modes. With target $t$ the model is the quartic loss with eigenvalues $\{-|x|, |x|\}$ and
offset $E = 2t$: the catapult.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from secant.core.types import Real


def output(theta: Float[Array, " p"], x: Float[Array, " n"], width: int) -> Array:
    r"""Network output $f = v^\top Ux$ from the flat parameters $(v, \mathrm{vec}\,U)$.

    Args:
        theta: parameters, shape `(width * (n + 1),)`: first $v$, then $U$ row by row.
        x: input, shape `(n,)`.
        width: number $M$ of hidden units.

    Returns:
        Scalar array.
    """
    v, U = theta[:width], theta[width:].reshape(width, -1)
    return v @ U @ x


def second_derivative(X: Float[Array, "samples n"], width: int) -> Float[Array, "samples p p"]:
    r"""The constant tensor $Q_{\alpha} = \partial^2 f(x_\alpha)/\partial\theta\,\partial\theta$, with
    $Q_{\alpha, v_i, U_{jk}} = \delta_{ij} x_{\alpha k}$.

    Args:
        X: inputs, shape `(samples, n)`.
        width: number $M$ of hidden units.

    Returns:
        Shape `(samples, p, p)`, `p = width * (n + 1)`, symmetric in the last two axes.
    """
    blocks = jnp.einsum("ij,ak->aijk", jnp.eye(width), X).reshape(len(X), width, -1)
    p = width * (X.shape[1] + 1)
    Q = jnp.zeros((len(X), p, p)).at[:, :width, width:].set(blocks)
    return Q + jnp.swapaxes(Q, 1, 2)


def spectrum(x: Float[Array, " n"], width: int) -> Float[Array, " p"]:
    r"""Eigenvalues of the second derivative on one sample, ascending: $-|x|$ ($M$ times), $0$ ($M(N-1)$
    times), $|x|$ ($M$ times).

    Args:
        x: input, shape `(n,)`.
        width: number $M$ of hidden units.

    Returns:
        Shape `(width * (n + 1),)`.
    """
    norm = jnp.linalg.norm(x)
    return jnp.concatenate([-norm * jnp.ones(width), jnp.zeros(width * (x.shape[0] - 1)), norm * jnp.ones(width)])


def eigenvectors(x: Float[Array, " n"], width: int, sign: int = 1) -> Float[Array, "width p"]:
    r"""Eigenvectors of eigenvalue $\pm|x|$, not normalised: $(w, W) = (|x|\,e_i,\ \pm e_i x^\top)$, $i = 1..M$.

    Args:
        x: input, shape `(n,)`.
        width: number $M$ of hidden units.
        sign: `1` or `-1`.

    Returns:
        One eigenvector per row, shape `(width, width * (n + 1))`.
    """
    v = jnp.linalg.norm(x) * jnp.eye(width)
    U = sign * jnp.einsum("ij,k->ijk", jnp.eye(width), x).reshape(width, -1)
    return jnp.concatenate([v, U], axis=1)


def mode_weights(theta: Float[Array, " p"], x: Float[Array, " n"], width: int) -> tuple[Array, Array]:
    r"""Total squared Jacobian on the positive and on the negative modes, $(J_+^2, J_-^2)$.

    They obey $(J_+^2 - J_-^2)/|x| = 2f(x)$ and $J_+^2 + J_-^2 = |Ux|^2 + |v|^2|x|^2$, the tangent kernel.

    Args:
        theta: parameters, shape `(width * (n + 1),)`.
        x: input, shape `(n,)`.
        width: number $M$ of hidden units.

    Returns:
        Two scalar arrays.
    """
    v, U = theta[:width], theta[width:].reshape(width, -1)
    norm, hidden = jnp.linalg.norm(x), U @ x
    return jnp.sum((hidden + norm * v) ** 2) / 2, jnp.sum((hidden - norm * v) ** 2) / 2


def offset(target: Real) -> Array:
    r"""Offset of the equivalent quartic loss, $E = 2t$; zero only for a zero target.

    Args:
        target: the target $t$ of the sample.

    Returns:
        Same shape as `target`.
    """
    return jnp.asarray(2 * target)
