r"""Eigenvalues of sample covariances: the law of Marchenko and Pastur.

The rows of $X$ are $P$ standard normal vectors with $n$ entries. For $P/n \to \alpha < 1$ the eigenvalues of
$\Sigma = XX^\top/n$ have the density

$$\frac{\sqrt{(\lambda_+ - x)(x - \lambda_-)}}{2\pi\alpha x}, \qquad \lambda_\pm = (1 \pm \sqrt\alpha)^2 .$$
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from jaxtyping import Float

from secant.core.arguments import share, whole
from secant.core.types import Real


def edges(ratio: Real) -> tuple[float, float]:
    r"""The smallest and the largest eigenvalue in the limit, $\lambda_\pm = (1 \pm \sqrt\alpha)^2$.

    Args:
        ratio: $\alpha = P/n$, between 0 and 1.
    """
    root = math.sqrt(share("edges", "ratio", ratio))
    return (1 - root) ** 2, (1 + root) ** 2


def density(x: Real, ratio: Real) -> Any:
    r"""The density of eigenvalues at $x$, zero outside its edges.

    Args:
        x: eigenvalue, or an array of them.
        ratio: $\alpha = P/n$, between 0 and 1.
    """
    low, high = edges(ratio)
    x = np.asarray(x, float)
    inside = np.maximum((high - x) * (x - low), 0.0)
    return np.sqrt(inside) / (2 * np.pi * float(ratio) * np.where(inside > 0, x, 1.0))


def moment(order: int, ratio: Real) -> float:
    r"""The moment $\int x^k\,d\mu$ of the eigenvalues.

    It is $1/(1 - \alpha)$ for $k = -1$, and $\sum_{j<k}\frac{\alpha^j}{j + 1}\binom kj\binom{k-1}j$ for $k \ge 1$.

    Args:
        order: $k$, at least -1.
        ratio: $\alpha = P/n$, between 0 and 1.
    """
    alpha, order = share("moment", "ratio", ratio), whole("moment", "order", order, least=-1)
    if order <= 0:
        return 1.0 if order == 0 else 1 / (1 - alpha)
    return sum(alpha**j / (j + 1) * math.comb(order, j) * math.comb(order - 1, j) for j in range(order))


def below(x: Real, ratio: Real) -> float:
    r"""The share of eigenvalues below $x$.

    With $x = 1 + \alpha - 2\sqrt\alpha\cos\phi$ the integrand is smooth up to both edges, so Gauss-Legendre quadrature
    is enough.

    Args:
        x: upper end of the share.
        ratio: $\alpha = P/n$, between 0 and 1.
    """
    low, high = edges(ratio)
    alpha = float(ratio)
    root = math.sqrt(alpha)
    cosine = (1 + alpha - min(max(float(x), low), high)) / (2 * root)
    top = math.acos(min(max(cosine, -1.0), 1.0))
    nodes, weights = np.polynomial.legendre.leggauss(200)
    angle = top / 2 * (nodes + 1)
    at = 1 + alpha - 2 * root * np.cos(angle)
    return float(top / 2 * weights @ (2 / np.pi * np.sin(angle) ** 2 / at))


def eigenvalues(random: np.random.Generator, samples: int, dim: int, draws: int) -> Float[np.ndarray, "draws samples"]:
    r"""Eigenvalues of random $XX^\top/n$, ascending.

    Their mean is 1, their mean square $1 + (P + 1)/n$ and their mean inverse $n/(n - P - 1)$, at every size.

    Args:
        random: source of randomness.
        samples: $P$, the number of vectors.
        dim: $n$, the entries of each vector.
        draws: number of matrices.
    """
    shape = [whole("eigenvalues", name, n) for name, n in (("draws", draws), ("samples", samples), ("dim", dim))]
    X = random.standard_normal(shape)
    return np.linalg.eigvalsh(X @ X.transpose(0, 2, 1) / dim)
