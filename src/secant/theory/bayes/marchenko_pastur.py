r"""Eigenvalues of sample covariances: the law of Marchenko and Pastur.

Of $P$ standard normal vectors with $n$ entries, the rows of $X$, the matrix $\Sigma = XX^\top/n$ has for
$P/n \to \alpha < 1$ the density of eigenvalues

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
    r"""Where the eigenvalues begin and end, $\lambda_\pm = (1 \pm \sqrt\alpha)^2$.

    Args:
        ratio: $\alpha = P/n$, between 0 and 1.
    """
    root = math.sqrt(share("edges", "ratio", ratio))
    return (1 - root) ** 2, (1 + root) ** 2


def density(x: Real, ratio: Real) -> Any:
    r"""The density of eigenvalues at $x$, zero outside of its edges.

    Args:
        x: where.
        ratio: $\alpha = P/n$, between 0 and 1.
    """
    low, high = edges(ratio)
    x = np.asarray(x, float)
    inside = np.maximum((high - x) * (x - low), 0.0)
    return np.sqrt(inside) / (2 * np.pi * float(ratio) * np.where(inside > 0, x, 1.0))


def moment(order: int, ratio: Real) -> float:
    r"""$\int x^k\,d\mu$: $1/(1 - \alpha)$ for $k = -1$, $\sum_{j<k}\frac{\alpha^j}{j + 1}\binom kj\binom{k-1}j$ above.

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

    With $x = 1 + \alpha - 2\sqrt\alpha\cos\phi$ the integrand is smooth up to both edges; Gauss-Legendre does it.

    Args:
        x: where.
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
        samples: $P$, vectors.
        dim: $n$, entries of each.
        draws: how many matrices.
    """
    shape = [whole("eigenvalues", name, n) for name, n in (("draws", draws), ("samples", samples), ("dim", dim))]
    X = random.standard_normal(shape)
    return np.linalg.eigvalsh(X @ X.transpose(0, 2, 1) / dim)
