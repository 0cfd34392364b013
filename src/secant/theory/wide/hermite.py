r"""Hermite series of activations, and the kernel that follows for two correlated Gaussians.

Let $h_k = He_k/\sqrt{k!}$ be the orthonormal polynomials of a standard normal $Z$. Every activation of finite mean
square is $\sigma = \sum_k c_kh_k$, $c_k = \mathbb E\,\sigma(Z)h_k(Z)$. For $(u, v)$ of unit variance and correlation
$\rho$

$$\mathbb E\,\sigma(u)\sigma(v) = \sum_k c_k^2\,\rho^k,$$

so the mean kernel of a layer is a power series with positive weights. Take inputs of length 1 with no two equal or
opposite: the kernel is positive definite if infinitely many even and infinitely many odd $c_k$ are not zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.polynomial import hermite_e, polynomial

from secant.core.arguments import whole

REACH = 12.0
"""Standard deviations on either side beyond which a Gaussian counts as zero."""

NODES = 200
"""Number of quadrature nodes on either side of zero."""


def hermite_coefficients(
    function: Callable[[np.ndarray], Any], terms: int = 60, weight: float = 0.5
) -> Float[np.ndarray, " terms"]:
    r"""The Hermite coefficients of an activation, $c_k = \mathbb E\,\sigma(Z)h_k(Z)$ for $k <$ `terms`.

    Gauss-Legendre quadrature on either side of zero, so that a kink at zero does no harm. Runs on the host, in NumPy.

    Args:
        function: $\sigma$, a function of a NumPy array.
        terms: number of coefficients, at most 120; beyond that the nodes do not resolve the polynomials.
        weight: the density is proportional to $e^{-\text{weight}\,z^2}$. The $h_k$ are orthogonal only for one half.

    Example:
        ```python
        import numpy as np
        from secant.theory.wide.hermite import hermite_coefficients

        print(np.round(hermite_coefficients(lambda z: np.maximum(z, 0), 6), 6) + 0.0)
        ```
        ```text
        [ 0.398942  0.5       0.282095  0.       -0.081434  0.      ]
        ```
    """
    if whole("hermite_coefficients", "terms", terms, 1) > 120:
        raise ValueError(f"hermite_coefficients: `terms` must be at most 120, got {terms}.")
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    half = REACH / 2
    nodes, weights = np.concatenate([half * nodes - half, half * nodes + half]), np.tile(half * weights, 2)
    density = weights * np.exp(-weight * nodes**2) * math.sqrt(weight / math.pi)
    lengths = np.sqrt([float(math.factorial(k)) for k in range(terms)])
    return (density * np.asarray(function(nodes))) @ hermite_e.hermevander(nodes, terms - 1) / lengths


def dual_series(coefficients: Float[np.ndarray, " terms"], rho: Any) -> Any:
    r"""The kernel of a layer from its Hermite coefficients, $\sum_k c_k^2\rho^k$.

    The terms left out add up to at most $|\rho|^K(\mathbb E\,\sigma(Z)^2 - \sum_{k<K} c_k^2)$.

    Args:
        coefficients: $c_k$.
        rho: correlations, at most 1 in size.
    """
    return polynomial.polyval(rho, np.asarray(coefficients) ** 2)
