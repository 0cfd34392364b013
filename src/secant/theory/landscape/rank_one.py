r"""The landscape of the top eigenvector: the best symmetric approximation of rank one.

For a symmetric matrix $M$ with eigenvalues $\lambda_1 > \lambda_2 \ge \dots$ and eigenvectors $v_i$,

$$f(x) = \tfrac14\|M - xx^\top\|_F^2, \qquad \nabla f = (|x|^2 - M)\,x, \qquad \nabla^2f = |x|^2 + 2xx^\top - M .$$

The critical points are 0 and $\pm\sqrt{\lambda_i}\,v_i$ for $\lambda_i > 0$. If eigenvalues coincide, all vectors of
this length in their eigenspace are critical. At $\sqrt{\lambda_i}\,v_i$ the Hessian has the eigenvalues $2\lambda_i$
along $v_i$ and $\lambda_i - \lambda_j$ along $v_j$. Every critical point but the first has a way down, and all minima
are global.

The functions of `x` take points with leading axes, as arrays of NumPy or of JAX.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from secant.core.arguments import positive, share
from secant.core.types import Real


def objective(M: Any, x: Any) -> Any:
    r"""The loss $\frac14\|M - xx^\top\|_F^2$.

    Args:
        M: symmetric, shape `(d, d)`.
        x: shape `(..., d)`.
    """
    return ((M - x[..., :, None] * x[..., None, :]) ** 2).sum((-2, -1)) / 4


def gradient(M: Any, x: Any) -> Any:
    r"""The gradient $(|x|^2 - M)\,x$; the arguments are those of `objective`."""
    return (x**2).sum(-1)[..., None] * x - x @ M


def hessian(M: Any, x: Any) -> Any:
    r"""The Hessian $|x|^2 + 2xx^\top - M$, shape `(..., d, d)`; the arguments are those of `objective`."""
    return (x**2).sum(-1)[..., None, None] * np.eye(x.shape[-1]) + 2 * x[..., :, None] * x[..., None, :] - M


class CriticalPoints(NamedTuple):
    r"""All critical points up to their sign, the best first and 0 last.

    Attributes:
        points: $\sqrt{\lambda_i}\,v_i$ for $\lambda_i > 0$, descending, and 0: shape `(k + 1, d)`.
        values: $f$ at the points.
        spectra: eigenvalues of the Hessian at the points, in the order of `directions`: shape `(k + 1, d)`.
        directions: $v_1, \dots, v_d$, as rows, the eigenvectors of all these Hessians.
    """

    points: Float[np.ndarray, "points d"]
    values: Float[np.ndarray, " points"]
    spectra: Float[np.ndarray, "points d"]
    directions: Float[np.ndarray, "d d"]


def critical_points(M: Any) -> CriticalPoints:
    r"""The points where $\nabla f = 0$, with their values and Hessians.

    At $\sqrt{\lambda_i}\,v_i$ the value is $f = \frac14\sum_{j\ne i}\lambda_j^2$.

    Args:
        M: symmetric, shape `(d, d)`.

    Example:
        ```python
        import numpy as np
        from secant.theory.landscape import rank_one

        found = rank_one.critical_points(np.diag([3.0, 2.0, 1.0]))
        print(found.spectra)
        ```
        ```text
        [[ 6.  1.  2.]
         [-1.  4.  1.]
         [-2. -1.  2.]
         [-3. -2. -1.]]
        ```
    """
    M = np.asarray(M, float)
    if M.ndim != 2 or M.shape[0] != M.shape[1] or not np.allclose(M, M.T, rtol=1e-12, atol=1e-12 * np.abs(M).max()):
        raise ValueError(f"critical_points: `M` must be a symmetric matrix, got shape {M.shape}.")
    eigenvalues, vectors = np.linalg.eigh(M)
    eigenvalues, directions = eigenvalues[::-1], vectors.T[::-1]
    kept = np.append(eigenvalues[eigenvalues > 0], 0.0)
    points = np.sqrt(kept)[:, None] * np.concatenate([directions[: len(kept) - 1], np.zeros((1, len(M)))])
    spectra = kept[:, None] - eigenvalues
    spectra[np.arange(len(kept) - 1), np.arange(len(kept) - 1)] = 2 * kept[:-1]
    values = ((eigenvalues**2).sum() - kept**2) / 4
    return CriticalPoints(points, values, spectra, directions)


def smoothness(M: Any, radius: Real) -> tuple[float, float]:
    r"""Lipschitz constants of gradient and Hessian in the ball $|x| \le R$, $(\max(3R^2 - \lambda_d, \lambda_1), 6R)$.

    The Hessian lies between $-\lambda_1$ and $3R^2 - \lambda_d$. Between two points it changes by at most
    $|x|^2 - |x'|^2 + 2\|xx^\top - x'x'^\top\| \le 6R\,|x - x'|$.

    Args:
        M: symmetric, shape `(d, d)`.
        radius: $R$.
    """
    R = positive("smoothness", "radius", radius)
    eigenvalues = np.linalg.eigvalsh(np.asarray(M, float))
    return float(max(3 * R**2 - eigenvalues[0], eigenvalues[-1])), 6 * R


class Saddle(NamedTuple):
    r"""The best critical point that is no minimum, $\sqrt{\lambda_2}\,v_2$, with the numbers that decide an escape.

    Attributes:
        point: the saddle.
        way: $v_1$, the unit vector along which $f$ falls.
        curvature: $\gamma = \lambda_1 - \lambda_2$, minus the curvature along `way`.
        height: $f - f^* = (\lambda_1^2 - \lambda_2^2)/4$.
        smooth: a Lipschitz constant of the gradient in the ball $|x|^2 \le 2\lambda_1$, around all critical points.
        turn: a Lipschitz constant of the Hessian in this ball.
    """

    point: Float[np.ndarray, " d"]
    way: Float[np.ndarray, " d"]
    curvature: float
    height: float
    smooth: float
    turn: float


def second_best(M: Any) -> Saddle:
    r"""The saddle $\sqrt{\lambda_2}\,v_2$.

    Args:
        M: symmetric with $\lambda_1 > \lambda_2 > 0$, shape `(d, d)`.
    """
    known = critical_points(M)
    top = float(known.points[0] @ known.points[0])
    second = float(known.points[1] @ known.points[1])
    if not 0 < second < top:
        raise ValueError(f"second_best: `M` must have two different positive eigenvalues, got {top:g} and {second:g}.")
    height = (top**2 - second**2) / 4
    return Saddle(known.points[1], known.directions[0], top - second, height, *smoothness(M, (2 * top) ** 0.5))


class Improvement(NamedTuple):
    r"""Slopes and curvatures of $\frac14\|zz^\top - xx^\top\|^2$, $|z| = 1$, along the unit vectors of $x$ and $z$.

    Attributes:
        value: $f(x)$.
        slope_x: $|\langle\nabla f, x\rangle|/|x|$.
        slope_z: $|\langle\nabla f, z\rangle|$.
        bend_x: $x^\top\nabla^2f\,x/|x|^2$.
        bend_z: $z^\top\nabla^2f\,z$.
    """

    value: Any
    slope_x: Any
    slope_z: Any
    bend_x: Any
    bend_z: Any


def improvement(along: Real, across: Real) -> Improvement:
    r"""How much steps along $x$ and $z$ improve a point, which depends on two numbers alone.

    With $a = x\cdot z$ and $s = |x|^2$: $f = \frac14(1 - 2a^2 + s^2)$, $\nabla f\cdot x = s^2 - a^2$,
    $\nabla f\cdot z = a(s - 1)$, $x^\top\nabla^2f\,x = 3s^2 - a^2$ and $z^\top\nabla^2f\,z = s + 2a^2 - 1$. The point
    $x = 0$ is no direction: its slope is set to 0, and its curvature to the curvature along $z$, -1.

    Args:
        along: $a$, the part of $x$ along $z$.
        across: the length of the part of $x$ orthogonal to $z$.
    """
    a, b = np.asarray(along, float), np.asarray(across, float)
    s = a**2 + b**2
    safe = np.where(s > 0, s, 1.0)
    return Improvement(
        # As a sum of squares, so that nothing cancels near the minimum.
        ((1 - a**2 - b**2) ** 2 + 2 * b**2) / 4,
        np.abs(s**2 - a**2) / np.sqrt(safe),
        np.abs(a * (s - 1)),
        np.where(s > 0, (3 * s**2 - a**2) / safe, -1.0),
        s + 2 * a**2 - 1,
    )


def robust_constant(curvature: Real = 0.25) -> float:
    r"""The largest $c$ with $f(x) \le \tau$ where neither $x$ nor $z$ is a $(c\tau, \gamma)$-direction of improvement.

    This must hold for every $\tau < 1$. A direction $\delta$ of improvement has $|\nabla f\cdot\delta| > c\tau|\delta|$
    or $\delta^\top\nabla^2f\,\delta < -\gamma|\delta|^2$. At every point without such a curvature take the larger slope
    over $\min(f, 1)$: $c$ is the least of these ratios. It is reached where $z^\top\nabla^2f\,z = -\gamma$ and both
    slopes are equal. With $s = |x|^2$ and $a^2 = (1 - \gamma - s)/2$ this is the root of
    $s^2 - a^2 = \sqrt s\,|a|\,(1 - s)$. For $\gamma = \frac14$ the point is $s = \frac12$, $a^2 = \frac18$,
    $f = \frac14$, and $c = 1/\sqrt2$.

    Args:
        curvature: $\gamma$, between 0 and 1.

    Example:
        ```python
        from secant.theory.landscape import rank_one

        print(round(rank_one.robust_constant(), 4))
        ```
        ```text
        0.7071
        ```
    """
    from scipy import optimize

    gamma = share("robust_constant", "curvature", curvature)
    square = lambda s: (1 - gamma - s) / 2  # noqa: E731
    miss = lambda s: s**2 - square(s) - np.sqrt(s * square(s)) * (1 - s)  # noqa: E731
    s = optimize.brentq(miss, (1 - gamma) / 3, 1 - gamma, xtol=1e-15)
    a = np.sqrt(square(s))
    at = improvement(a, np.sqrt(s - a**2))
    return float(at.slope_z / at.value)
