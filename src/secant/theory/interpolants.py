r"""Which of all weights that fit linear data a method ends in, without running it.

With fewer samples than weights the solutions of $Xw = y$ are many. Mirror descent and mirror flow with a potential $R$
end in the one of least Bregman divergence $D_R(w, w_0)$ from their start: their dual $\nabla R(w)$ never leaves
$\nabla R(w_0) + \operatorname{span}(x_1, \dots, x_n)$, and there is one solution whose dual lies there. That is $n$
equations, $X\,\nabla R^*(\nabla R(w_0) + X^\top\nu) = y$, for $n$ unknowns: a convex function of $\nu$ is least.
"""

from __future__ import annotations

import contextlib
import math
from typing import Any, NamedTuple

import numpy as np
import scipy  # its parts are loaded when they are used

from secant.theory._dual_newton import MOST_STEPS, newton
from secant.theory._types import Real
from secant.theory.potentials import Potential, half_squared

MOST_CORNERS = 100_000
"""Corners of a stagewise path, at most."""


class Projection(NamedTuple):
    r"""A solution of $Xw = y$ and what shows that it is the nearest.

    Attributes:
        weights: $w$, with the shape of a start.
        multipliers: $\nu$ of shape `(..., n)`, for which $\nabla R(w) = \nabla R(w_0) + X^\top\nu$.
        residual: the length of $Xw - y$, over all samples.
        steps: of Newton's method.
    """

    weights: np.ndarray
    multipliers: np.ndarray
    residual: Any
    steps: int


def bregman_projection(X: Real, y: Real, potential: Potential, start: Real | None = None) -> Projection:
    r"""The solution of $Xw = y$ of least divergence, $\operatorname{argmin}_{Xw = y}D_R(w, w_0)$.

    Newton's method on $\phi(\nu) = R^*(\nabla R(w_0) + X^\top\nu) - y\cdot\nu$, with a line search along each step that
    keeps exponentials in bounds. A step costs $n^2d + n^3$. Samples may repeat or depend on each other.
    Leading axes of starts, of targets and of the potential's own numbers broadcast and are solved together. Where only
    the border of the potential's domain has a solution, it is the limit.

    Args:
        X: samples, shape `(n, d)`; of matrices, `(n, k, k)`, of which the symmetric part counts.
        y: targets, shape `(n,)` or with leading axes.
        potential: $R$, one of [`potentials`][secant.theory.potentials].
        start: $w_0$, with or without leading axes; without one, where $\nabla R = 0$, which gives the least $R$.

    Raises:
        ValueError: if nothing fits the data, with the least residual; or, for a potential of positive weights, if
            nothing positive does, with the combination of samples that shows it.

    Example:
        ```python
        import numpy as np
        from secant.theory import interpolants, potentials

        X, y = np.array([[1.0, 1.0, 1.0], [1.0, 2.0, 0.0]]), np.array([1.0, 10.0])
        for alpha in (100.0, 1.0, 0.01):  # from the least 2-norm to the least 1-norm
            print(interpolants.bregman_projection(X, y, potentials.hypentropy(alpha)).weights.round(3))
        ```

        ```text
        [ 0.333  4.833 -4.167]
        [ 0.169  4.915 -4.085]
        [ 0.  5. -4.]
        ```
    """
    X, y = np.asarray(X, float), np.asarray(y, float)
    axes = potential.axes
    if X.ndim != 1 + axes or y.ndim == 0 or y.shape[-1] != len(X) or not len(X):
        raise ValueError(
            f"bregman_projection: `X` must have shape {'(n, d)' if axes == 1 else '(n, k, k)'} and `y` (..., n), got "
            f"{X.shape} and {y.shape}."
        )
    _finite("bregman_projection", X=X, y=y)
    shape = X.shape[1:]
    if axes == 2:
        X = (X + X.transpose(0, 2, 1)) / 2
    begin = potential.inverse(np.zeros(shape)) if start is None else np.asarray(start, float)
    if begin.shape[-axes:] != shape:
        raise ValueError(f"bregman_projection: `start` must have shape (..., {shape}) as `X`, got {begin.shape}.")
    if not potential.inside(begin):
        raise ValueError(
            f"bregman_projection: the {potential.name} is defined on {potential.domain}, and `start` is not there."
        )
    flat = X.reshape(len(X), -1)
    rows, targets, back = _independent("bregman_projection", flat, y)
    wide = rows.reshape(len(rows), *shape)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        found = newton(wide, targets, potential, potential.gradient(begin))
    weights, nu, steps, off = found
    if np.any(off > 1e-9):
        _explain(flat, y, potential, float(off.max()))
    residual = np.linalg.norm(weights.reshape(*weights.shape[: weights.ndim - axes], -1) @ flat.T - y, axis=-1)
    return Projection(weights, nu @ back, residual, steps)


def _finite(caller: str, **arrays: np.ndarray) -> None:
    for name, array in arrays.items():
        if not np.all(np.isfinite(array)):
            raise ValueError(f"{caller}: `{name}` must be finite, and has entries that are not.")


def _independent(caller: str, X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""The same equations with orthonormal rows, and the matrix that takes their multipliers back to the samples'."""
    if len(X) <= X.shape[1]:
        with contextlib.suppress(np.linalg.LinAlgError):
            lower = np.linalg.cholesky(X @ X.T)
            pivots = np.diagonal(lower)
            if pivots.min() > 1e-2 * pivots.max():  # far enough that squares lose nothing: a third of the work
                back = np.linalg.inv(lower)
                return back @ X, y @ back.T, back
        basis, upper = np.linalg.qr(X.T)
        pivots = np.abs(np.diagonal(upper))
        if pivots.min() > 1e-4 * pivots.max():  # far from dependent: a third of the work of what follows
            back = np.linalg.inv(upper).T
            return basis.T, y @ back.T, back
    left, values, right = np.linalg.svd(X, full_matrices=False)
    kept = values > max(X.shape) * np.finfo(float).eps * values[0] if len(values) else np.zeros(0, bool)
    left, values, right = left[:, kept], values[kept], right[kept]
    inner = y @ left
    missed = np.linalg.norm(y - inner @ left.T, axis=-1)
    if np.any(missed > 1e-9 * np.linalg.norm(y, axis=-1)):
        raise ValueError(
            f"{caller}: no weights fit the data: the least length of Xw - y is {missed.max():.6g}, where y has "
            f"{np.linalg.norm(y, axis=-1).max():.6g}. Take fewer samples than weights, or targets in the range of X."
        )
    return right, inner / values, left.T / values[:, None]


def _explain(X: np.ndarray, y: np.ndarray, potential: Potential, off: float) -> None:
    """Why there is no solution: for positive weights the combination of samples that shows it."""
    if potential.domain == "positive weights":
        for target in y.reshape(-1, len(X)):
            positive_solution("bregman_projection", X, target)
    raise ValueError(
        f"bregman_projection: no solution was found in {MOST_STEPS} steps: Xw - y is still {off:.3g} of y. With "
        f"the {potential.name} the solution must be in the interior of its domain, {potential.domain}."
    )


def positive_solution(caller: str, X: Real, y: Real) -> np.ndarray:
    r"""Some $w > 0$ with $Xw = y$, that whose least entry is largest, up to 1.

    Args:
        caller: who asks, for the error.
        X: samples, shape `(n, d)`.
        y: targets, shape `(n,)`.

    Raises:
        ValueError: if there is none, with a certificate $\nu$: $X^\top\nu \ge 0$ and not zero, yet $y\cdot\nu \le 0$.
    """
    X, y = np.asarray(X, float), np.asarray(y, float)
    d = X.shape[1]
    # Least entry t as one more unknown: X (v + t) = y, v >= 0, t <= 1.
    found = scipy.optimize.linprog(
        np.append(np.zeros(d), -1.0),
        A_eq=np.column_stack([X, X.sum(1)]),
        b_eq=y,
        bounds=[(0, None)] * d + [(None, 1)],
        method="highs",
    )
    if found.status == 0 and found.x[-1] > 1e-12 * max(1.0, np.abs(found.x[:-1]).max()):
        return found.x[:-1] + found.x[-1]
    if found.status != 0:
        raise ValueError(f"{caller}: no weights fit the data; the linear program says: {found.message}")
    nu = -np.asarray(found.eqlin.marginals)
    nu = nu / max(np.abs(nu).max(), 1e-300)
    raise ValueError(
        f"{caller}: no positive weights fit the data. The samples, each times its entry of nu = "
        f"{np.array2string(nu, precision=4, threshold=20)}, add up to features of which none is below "
        f"{(nu @ X).min():.3g} and the largest is {(nu @ X).max():.3g}, and their targets to {nu @ y:.3g}, not above "
        "0. Take targets of a positive model, or a potential of weights of both signs, as `hypentropy`."
    )


def min_norm(X: Real, y: Real, p: Real) -> np.ndarray:
    r"""The weights of least norm that fit the data, $\operatorname{argmin}_{Xw = y}\|w\|_p$, of shape `(d,)`.

    For $p = 1$ and $p = \infty$ a linear program (HiGHS), which gives one solution where there are several; for $p = 2$
    the pseudo-inverse; else Newton's method, in the dual if $p < 2$.

    Args:
        X: samples, shape `(n, d)`.
        y: targets, shape `(n,)`.
        p: the norm's exponent, from 1 to infinity.

    Example:
        ```python
        import numpy as np
        from secant.theory import interpolants

        X, y = np.array([[1.0, 1.0, 1.0], [1.0, 2.0, 0.0]]), np.array([1.0, 10.0])
        interpolants.min_norm(X, y, 4 / 3)  # 0.00023, 4.99989, -4.00012
        ```
    """
    X, y, p = np.asarray(X, float), np.asarray(y, float), float(p)
    if not p >= 1:
        raise ValueError(f"min_norm: `p` must be at least 1, infinity included, got {p!r}.")
    if X.ndim != 2 or y.shape != (len(X),) or not len(X):
        raise ValueError(f"min_norm: `X` must have shape (n, d) and `y` (n,), got {X.shape} and {y.shape}.")
    _finite("min_norm", X=X, y=y)
    rows, targets, _ = _independent("min_norm", X, y)
    d = X.shape[1]
    if p == 2 or not np.any(targets):
        return targets @ rows
    if p < 1.001:
        found = scipy.optimize.linprog(np.ones(2 * d), A_eq=np.hstack([rows, -rows]), b_eq=targets, method="highs")
        least = found.x[:d] - found.x[d:]
        return least if p == 1 else _near_one(rows, targets, p, least, np.asarray(found.eqlin.marginals))
    if p == math.inf:
        bound = np.vstack([np.hstack([s * np.eye(d), -np.ones((d, 1))]) for s in (1, -1)])
        found = scipy.optimize.linprog(
            np.append(np.zeros(d), 1.0),
            A_ub=bound,
            b_ub=np.zeros(2 * d),
            A_eq=np.hstack([rows, np.zeros((len(rows), 1))]),
            b_eq=targets,
            bounds=[(None, None)] * d + [(0, None)],
            method="highs",
        )
        return found.x[:d]
    if p < 2:
        return bregman_projection(X, y, half_squared(p), np.zeros(d)).weights
    return _flat(rows, targets, p)


def _flat(X: np.ndarray, y: np.ndarray, p: float) -> np.ndarray:
    r"""For $p > 2$ the norm itself is the smoother side.

    With $NX^\top = 0$ and $w = X^\dagger y + N^\top c$ it is least where $N\,\nabla\frac12\|w\|_p^2 = 0$, an
    equation of the same kind.
    """
    w = y @ X
    if len(X) == len(w):
        return w
    away = np.linalg.svd(X)[2][len(X) :]
    with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
        _, c, _, off = newton(away, np.zeros(len(away)), half_squared(p / (p - 1)), w)
    if not off < 1e-9:
        raise ValueError(
            f"min_norm: with `p` = {p:g} no solution was found in {MOST_STEPS} steps; the limit, `p=math.inf`, is a "
            "linear program."
        )
    return w + c @ away


def _near_one(X: np.ndarray, y: np.ndarray, p: float, least: np.ndarray, nu: np.ndarray) -> np.ndarray:
    r"""The least $p$-norm from the least 1-norm and its multipliers, where $\frac1q\sum_i|x_i\cdot\nu|^q$ is steep.

    On the support of the least 1-norm the dual is $\operatorname{sign}(w)|w|^{p-1}$, which is near $\pm 1$.
    """
    size, q = np.abs(least).max(), p / (p - 1)
    on = np.abs(least) > 1e-9 * size
    wanted = np.sign(least[on]) * (np.abs(least[on]) / size) ** (p - 1)
    nu = nu + np.linalg.lstsq(X[:, on].T, wanted - nu @ X[:, on], rcond=None)[0]
    powers = Potential(
        f"power {p:g}",
        value=lambda w: (np.abs(w) ** p).sum(-1) / p,
        gradient=lambda w: np.sign(w) * np.abs(w) ** (p - 1),
        inverse=lambda z: np.sign(z) * np.abs(z) ** (q - 1),
        slope=lambda z, v: (q - 1) * np.abs(z) ** (q - 2) * v,
    )
    with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
        w, _, _, off = newton(X, y / size, powers, np.zeros(X.shape[1]), nu)
    if not off < 1e-6:  # what the rounding of a dual near 1 leaves, to the power q
        raise ValueError(
            f"min_norm: with `p` = 1 + {p - 1:.3g} no solution was found: Xw - y is still {off:.3g} of y; the limit, "
            "`p=1`, is a linear program."
        )
    return size * w


class Path(NamedTuple):
    r"""Corners of a path that is straight between them.

    Attributes:
        weights: shape `(corners, d)`, from zero to the end.
        correlation: $\max_j|x_j\cdot(y - Xw)|$ at each, over columns $x_j$, from its largest to 0.
        length: $\int\|dw\|_1$ up to each; where no weight turns back it is the 1-norm.
    """

    weights: np.ndarray
    correlation: np.ndarray
    length: np.ndarray


def stagewise_path(X: Real, y: Real) -> Path:
    r"""Coordinate descent with infinitesimal steps, averaged over ties: forward stagewise regression, exactly.

    On $\frac12\|Xw - y\|^2$ the coordinate of largest correlation $|x_j\cdot r|$ moves, $r = y - Xw$. Once several are
    tied they move together, each in the sense of its own correlation only. With signs $s_j$ their speeds solve
    $\min_{\rho \ge 0}\|r - \sum_js_jx_j\rho_j\|^2$ over the tied set: those that move stay tied, others fall behind. So
    the path is straight until one more coordinate joins. It ends in a solution of least squares. Where no weight of the
    lasso's path ever turns back, it is the lasso's path.

    Args:
        X: samples, shape `(n, d)`.
        y: targets, shape `(n,)`.

    Example:
        ```python
        import numpy as np
        from secant.theory import interpolants

        X, y = np.array([[1.0, 1.0, 1.0], [1.0, 2.0, 0.0]]), np.array([1.0, 10.0])
        interpolants.stagewise_path(X, y).weights[-1]  # 0, 5, -4
        ```
    """
    X, y = np.asarray(X, float), np.asarray(y, float)
    if X.ndim != 2 or y.shape != (len(X),) or not X.size:
        raise ValueError(f"stagewise_path: `X` must have shape (n, d) and `y` (n,), got {X.shape} and {y.shape}.")
    _finite("stagewise_path", X=X, y=y)
    w, left = np.zeros(X.shape[1]), y
    size = np.abs(X.T @ y).max()
    corners, heights, lengths = [w], [size], [0.0]
    for _ in range(MOST_CORNERS):
        correlation = X.T @ left
        height = np.abs(correlation).max()
        if height <= 1e-12 * size:
            return Path(np.array(corners), np.array([*heights[:-1], 0.0]), np.array(lengths))
        tied = np.abs(correlation) > height * (1 - 1e-9)
        sign = np.sign(correlation[tied])
        speed = np.zeros_like(w)
        speed[tied] = sign * scipy.optimize.nnls(X[:, tied] * sign, left)[0]
        change = X.T @ (X @ speed)
        # The height falls as 1 - t; another is reached by c - t change = +-(1 - t) height.
        with np.errstate(divide="ignore", invalid="ignore"):
            meets = np.concatenate([(height - s * correlation) / (height - s * change) for s in (1, -1)])
        others = np.concatenate([~tied | (correlation * s < 0) for s in (1, -1)]) & (meets > 1e-12)
        share = min(1.0, meets[others].min(initial=1.0))
        w, left = w + share * speed, left - share * (X @ speed)
        corners.append(w)
        heights.append(height * (1 - share))
        lengths.append(lengths[-1] + share * np.abs(speed).sum())
    raise ValueError(f"stagewise_path: the path has more than {MOST_CORNERS} corners; scale the columns of `X` alike.")
