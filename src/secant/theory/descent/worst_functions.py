r"""A function through given values and gradients, with curvature between $\mu$ and $L$.

For $\mu = 0$ it is the largest convex function with these data: the parabola $\frac L2|x|^2$ rolled along the lower
hull of the points $p_i = x_i - g_i/L$ at the heights $c_i = f_i - |g_i|^2/2L$,

$$f(x) = \min_{\lambda}\frac L2\Big|x - \sum_i\lambda_ip_i\Big|^2 + \sum_i\lambda_ic_i, \qquad
\nabla f(x) = L\Big(x - \sum_i\lambda_ip_i\Big),$$

over weights $\lambda_i \ge 0$ that sum to 1. For other $\mu$ the parabola $\frac\mu2|x|^2$ is subtracted first and
added again at the end. For $\mu \le 0$ the least value over $x$ is then concave in $\lambda$, so its minimum belongs to
one of the points: the infimum of $f$ is the least $f_i - |g_i|^2/2L$.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True, eq=False)
class WorstFunction:
    r"""The largest function through given points.

    Attributes:
        points: $x_i$.
        values: $f_i$.
        gradients: $g_i$.
        smooth: $L$.
        convex: $\mu < L$, of any sign.

    Example:
        ```python
        import numpy as np
        from secant.theory.descent.worst_functions import WorstFunction

        points, gradients = np.array([[0.0], [2.0]]), np.array([[0.0], [1.0]])
        huber = WorstFunction(points, np.array([0.0, 1.5]), gradients, smooth=1.0)
        value, gradient = huber([0.5])
        print(round(value, 9), gradient.round(9))
        ```
        ```text
        0.125 [0.5]
        ```
    """

    points: Float[np.ndarray, "n d"]
    values: Float[np.ndarray, "n"]
    gradients: Float[np.ndarray, "n d"]
    smooth: float
    convex: float = 0.0

    def __call__(self, x: Any) -> tuple[float, Float[np.ndarray, "d"]]:
        """The value and the gradient of the function at a point."""
        x, mu, curvature = np.asarray(x, float), self.convex, self.smooth - self.convex
        g = self.gradients - mu * self.points
        places = self.points - g / curvature
        heights = self.values - mu / 2 * (self.points**2).sum(1) - (g**2).sum(1) / (2 * curvature)
        weights = _weights(x - places, heights / curvature)
        off, lowest = x - weights @ places, weights @ heights
        value = mu / 2 * x @ x + curvature / 2 * off @ off + lowest
        return float(value), mu * x + curvature * off


def _weights(offsets: np.ndarray, heights: np.ndarray) -> np.ndarray:
    r"""The weights $\lambda$ that make $\frac12|\sum_i\lambda_iv_i|^2 + \sum_i\lambda_ic_i$ least."""
    clarabel, sparse = solver()
    size = max(float(np.abs(offsets).max()), float(np.sqrt(np.ptp(heights))), 1e-300)
    v, c = offsets / size, (heights - heights.min()) / size**2
    n = len(c)
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-13
    rows = sparse.vstack([sparse.csc_matrix(np.ones((1, n))), -sparse.identity(n, format="csc")]).tocsc()
    form = sparse.csc_matrix(np.triu(v @ v.T))
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(n)]
    found = clarabel.DefaultSolver(form, c, rows, np.append(1.0, np.zeros(n)), cones, settings).solve()
    rough = np.maximum(np.asarray(found.x), 0.0)
    tries = [rough / rough.sum(), *(_polished(v, c, np.nonzero(rough > least)[0]) for least in (1e-3, 1e-5, 1e-7))]
    return min(tries, key=lambda weights: ((weights @ v) ** 2).sum() / 2 + c @ weights)


def _polished(v: np.ndarray, c: np.ndarray, support: np.ndarray) -> np.ndarray:
    """The best weights on a support; entries that would fall below zero leave the support."""
    while True:
        n = len(support)
        matrix = np.ones((n + 1, n + 1))
        matrix[:n, :n] = v[support] @ v[support].T
        matrix[n, n] = 0.0
        found = np.linalg.lstsq(matrix, np.append(-c[support], 1.0), rcond=1e-13)[0][:n]
        if found.min() >= 0 or n == 1:
            weights = np.zeros(len(c))
            weights[support] = found
            return weights
        support = np.delete(support, found.argmin())


def solver() -> tuple[Any, Any]:
    """The modules of the solver Clarabel and of the sparse matrices that it reads."""
    try:
        import clarabel
    except ImportError as error:
        raise ImportError('worst_case needs the solver Clarabel: pip install "secant[convex]".') from error
    from scipy import sparse

    return clarabel, sparse
