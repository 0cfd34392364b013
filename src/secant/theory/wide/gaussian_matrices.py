r"""How large Gaussian vectors and matrices get, also after the Gaussians are moved in the worst direction.

The vectors $a$, $a_i$ and numbers $\gamma_k$ are standard normal, then moved by at most $R$. Each bound holds except
with the probability on the right, `level`:

$$\begin{aligned}
|a^\top b| &\le t + |b|R, & 2e^{-t^2/2|b|^2};\\
\|[B_1a_1, \dots, B_na_n]\| &\le \sqrt2\,\bigl(\max\|B_i\|(\sqrt n + R + t) + \max\|B_i\|_F\bigr), & 2e^{-t^2};\\
\|Ba\| &\le t + \|B\|_F + \|B\|R, & 2e^{-t^2/2\|B\|^2};\\
\textstyle\|\sum_k\gamma_kB_k\| &\le t + R\sqrt\nu, & (d_1 + d_2)\,e^{-t^2/2\nu},
\end{aligned}$$

with the matrix variance $\nu = \max(\|\sum B_kB_k^\top\|, \|\sum B_k^\top B_k\|)$. The first three bound the tail of a
Lipschitz function of Gaussians, with the Lipschitz constants $|b|$, $\max\|B_i\|$ and $\|B\|$.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

Levels = Float[np.ndarray, " levels"] | float
"""Probabilities with which a bound may be exceeded."""


def product_bound(b: Float[np.ndarray, " d"], level: Levels, radius: float = 0.0) -> Any:
    """Bound on a Gaussian vector's product with another vector, one number per level."""
    return float(np.linalg.norm(b)) * (np.sqrt(2 * np.log(2 / level)) + radius)


def columns_bound(maps: Float[np.ndarray, "n d1 d2"], level: Levels, radius: float = 0.0) -> Any:
    """Bound on the norm of a matrix whose columns are images of Gaussian vectors, one number per level."""
    spectral, frobenius = _norms(maps).max(), np.linalg.norm(maps, axis=(1, 2)).max()
    return np.sqrt(2) * (spectral * (np.sqrt(len(maps)) + radius + np.sqrt(np.log(2 / level))) + frobenius)


def image_bound(matrix: Float[np.ndarray, "d1 d2"], level: Levels, radius: float = 0.0) -> Any:
    """Bound on the length of the image of a Gaussian vector, one number per level."""
    spectral = _norms(matrix)
    return spectral * np.sqrt(2 * np.log(2 / level)) + np.linalg.norm(matrix) + radius * spectral


def matrix_variance(terms: Float[np.ndarray, "k d1 d2"]) -> float:
    r"""The matrix variance $\nu = \max(\|\sum B_kB_k^\top\|, \|\sum B_k^\top B_k\|)$ of $\sum_k\gamma_kB_k$."""
    squares = np.einsum("kij,klj->il", terms, terms), np.einsum("kji,kjl->il", terms, terms)
    return float(max(np.linalg.norm(square, 2) for square in squares))


def series_bound(terms: Float[np.ndarray, "k d1 d2"], level: Levels, radius: float = 0.0) -> Any:
    """Bound on the norm of a Gaussian sum of matrices, one number per level."""
    variance = matrix_variance(terms)
    return np.sqrt(2 * variance * np.log(sum(terms.shape[1:]) / level)) + radius * np.sqrt(variance)


def moved_norms(
    build: Callable[[np.ndarray], np.ndarray],
    pull: Callable[[np.ndarray, np.ndarray], np.ndarray],
    gaussians: Float[np.ndarray, "s ..."],
    radius: float,
) -> Float[np.ndarray, " s"]:
    r"""Norms of matrices that are linear in Gaussians, after the Gaussians are moved along the slope of the norm.

    Args:
        build: Gaussians -> matrices, linear, one sample per row.
        pull: its adjoint on matrices of rank one: left and right singular vectors -> Gaussians.
        gaussians: the draws.
        radius: how far each is moved.
    """
    matrices = build(gaussians)
    u, _, v = np.linalg.svd(matrices, full_matrices=False)
    slope = pull(u[:, :, 0], v[:, 0])
    slope *= radius / np.linalg.norm(slope, axis=tuple(range(1, slope.ndim)), keepdims=True)
    return _norms(matrices + build(slope))


def moved_images(
    matrix: Float[np.ndarray, "d1 d2"], gaussians: Float[np.ndarray, "s d2"], radius: float
) -> Float[np.ndarray, " s"]:
    """Lengths of the images of Gaussian vectors, after the vectors are moved along the slope of the length.

    They are moved along the leading singular vector instead where that makes the image longer.
    """
    slope = gaussians @ matrix.T @ matrix
    slope /= np.linalg.norm(slope, axis=1, keepdims=True)
    leading = np.linalg.svd(matrix)[2][0]
    ways = slope, leading * np.sign(gaussians @ leading)[:, None]
    return np.maximum(*(np.linalg.norm((gaussians + radius * way) @ matrix.T, axis=1) for way in ways))


def _norms(matrices: np.ndarray) -> Any:
    return np.linalg.norm(matrices, 2, axis=(-2, -1))
