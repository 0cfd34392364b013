r"""The interpolating weights that a training method ends in, without running it.

With fewer samples than weights, $Xw = y$ has many solutions. Mirror descent and mirror flow with a potential $R$ end in
the solution of least Bregman divergence $D_R(w, w_0)$ from their start. The reason is that their dual $\nabla R(w)$
never leaves $\nabla R(w_0) + \operatorname{span}(x_1, \dots, x_n)$, and exactly one solution has its dual there. This
gives $n$ equations for $n$ unknowns, $X\,\nabla R^*(\nabla R(w_0) + X^\top\nu) = y$. They hold where a convex function
of $\nu$ is least.
"""

from __future__ import annotations

import contextlib
import math
from typing import Any, NamedTuple

import numpy as np
import scipy  # its parts are loaded when they are used

from secant.core.types import Real
from secant.theory.bias._dual_newton import MOST_STEPS, newton
from secant.theory.bias._least_norms import linear_program, near_one, onto, power_norm
from secant.theory.bias.margins import dual, norm_of
from secant.theory.bias.potentials import Potential

NEAR_ONE = 1.1
"""Exponents of norms below this value are reached in stages."""

MOST_CORNERS = 100_000
"""The largest number of corners of a stagewise path."""


class Projection(NamedTuple):
    r"""A solution of $Xw = y$, and the multipliers that show it is the nearest.

    Attributes:
        weights: $w$, with the shape of a start.
        multipliers: $\nu$ of shape `(..., n)`, for which $\nabla R(w) = \nabla R(w_0) + X^\top\nu$.
        residual: the length of $Xw - y$, over all samples.
        steps: number of Newton steps.
    """

    weights: np.ndarray
    multipliers: np.ndarray
    residual: Any
    steps: int


def bregman_projection(X: Real, y: Real, potential: Potential, start: Real | None = None) -> Projection:
    r"""The solution of $Xw = y$ of least divergence, $\operatorname{argmin}_{Xw = y}D_R(w, w_0)$.

    Newton's method minimises $\phi(\nu) = R^*(\nabla R(w_0) + X^\top\nu) - y\cdot\nu$. A line search along each step
    keeps exponentials in bounds. A step costs $n^2d + n^3$. Samples may repeat or depend on each other.
    Leading axes of starts, of targets and of the potential's own numbers broadcast and are solved together. If only the
    border of the potential's domain has a solution, the result is the limit.

    Args:
        X: samples, shape `(n, d)`, or `(n, k, k)` for matrices, where only the symmetric part counts.
        y: targets, shape `(n,)` or with leading axes.
        potential: $R$, one of [`potentials`][secant.theory.bias.potentials].
        start: $w_0$, with or without leading axes; by default the point with $\nabla R = 0$, which gives the least $R$.

    Raises:
        ValueError: if no weights fit the data, with the least residual; or if a potential needs positive weights and
            none fit, with the combination of samples that shows it.

    Example:
        ```python
        import numpy as np
        from secant.theory.bias import interpolants, potentials

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
            f"bregman_projection: the {potential.name} is defined on {potential.domain}, but `start` is not there."
        )
    flat = X.reshape(len(X), -1)
    rows, targets, back = _independent("bregman_projection", flat, y)
    wide = rows.reshape(len(rows), *shape)
    if potential.exponent is not None and potential.exponent < NEAR_ONE and not np.any(begin):
        found = near_one(rows, targets, potential.exponent, begin)
    else:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            found = newton(wide, targets, potential, potential.gradient(begin))
    weights, nu, steps, off = found
    if potential.exponent is not None and 1e-13 < np.max(off) < 1e-3:  # the last digits of a dual leave this
        weights = onto(rows, targets, weights)
        off = np.linalg.norm(weights @ rows.T - targets, axis=-1) / np.linalg.norm(targets, axis=-1)
    if np.any(off > 1e-9):
        _explain(flat, y, potential, float(off.max()))
    residual = np.linalg.norm(weights.reshape(*weights.shape[: weights.ndim - axes], -1) @ flat.T - y, axis=-1)
    return Projection(weights, nu @ back, residual, steps)


def _finite(caller: str, **arrays: np.ndarray) -> None:
    for name, array in arrays.items():
        if not np.all(np.isfinite(array)):
            raise ValueError(f"{caller}: `{name}` must be finite, but some entries are infinite or not numbers.")


def _independent(caller: str, X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""The same equations with orthonormal rows, and the matrix that maps their multipliers to those for `X`."""
    if len(X) <= X.shape[1]:
        with contextlib.suppress(np.linalg.LinAlgError):
            lower = np.linalg.cholesky(X @ X.T)
            pivots = np.diagonal(lower)
            if pivots.min() > 1e-2 * pivots.max():  # well enough conditioned for squares: a third of the work
                back = np.linalg.inv(lower)
                return back @ X, y @ back.T, back
        basis, upper = np.linalg.qr(X.T)
        pivots = np.abs(np.diagonal(upper))
        if pivots.min() > 1e-4 * pivots.max():  # well conditioned: a third of the work of the SVD below
            back = np.linalg.inv(upper).T
            return basis.T, y @ back.T, back
    left, values, right = np.linalg.svd(X, full_matrices=False)
    kept = values > max(X.shape) * np.finfo(float).eps * values[0] if len(values) else np.zeros(0, bool)
    left, values, right = left[:, kept], values[kept], right[kept]
    inner = y @ left
    missed = np.linalg.norm(y - inner @ left.T, axis=-1)
    if np.any(missed > 1e-9 * np.linalg.norm(y, axis=-1)):
        raise ValueError(
            f"{caller}: no weights fit the data: the least length of Xw - y is {missed.max():.6g}, and the length of y "
            f"is {np.linalg.norm(y, axis=-1).max():.6g}. Use fewer samples than weights, or targets in the range of X."
        )
    return right, inner / values, left.T / values[:, None]


def _explain(X: np.ndarray, y: np.ndarray, potential: Potential, off: float) -> None:
    """Raises the reason why there is no solution; for positive weights, the combination of samples that shows it."""
    if potential.domain == "positive weights":
        for target in y.reshape(-1, len(X)):
            positive_solution("bregman_projection", X, target)
    if potential.exponent is not None and potential.exponent < NEAR_ONE:
        raise ValueError(
            f"bregman_projection: with `p` = {potential.exponent!r} and this `start` no solution was found: Xw - y is "
            f"still {off:.3g} of y. Leave out `start` to get the least norm, or use a larger `p`."
        )
    raise ValueError(
        f"bregman_projection: no solution was found in {MOST_STEPS} steps: Xw - y is still {off:.3g} of y. With "
        f"the {potential.name} the solution must be in the interior of its domain, {potential.domain}."
    )


def positive_solution(caller: str, X: Real, y: Real) -> np.ndarray:
    r"""Positive weights $w$ with $Xw = y$, chosen so that the least entry is as large as possible, up to 1.

    Args:
        caller: name of the calling function, for the error.
        X: samples, shape `(n, d)`.
        y: targets, shape `(n,)`.

    Raises:
        ValueError: if there is none, with a certificate $\nu$: $X^\top\nu \ge 0$ and not zero, yet $y\cdot\nu \le 0$.
    """
    X, y = np.asarray(X, float), np.asarray(y, float)
    d = X.shape[1]
    # The least entry t is one more unknown: X (v + t) = y, v >= 0, t <= 1.
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
        f"{np.array2string(nu, precision=4, threshold=20)}, add up to features between "
        f"{(nu @ X).min():.3g} and {(nu @ X).max():.3g}, but their targets add up to {nu @ y:.3g}, not above 0. "
        "Use targets of a positive model, or a potential for weights of both signs, such as `hypentropy`."
    )


class LeastNorm(NamedTuple):
    r"""Weights of least norm that fit the data, with the multipliers that prove it.

    Attributes:
        weights: $w$, shape `(d,)`.
        multipliers: $\nu$, shape `(n,)`, with $\|X^\top\nu\|_q = 1$ in the dual norm: then $\|w\|_p \ge y\cdot\nu$ for
            every $w$ that fits.
        norm: $\|w\|_p$.
        gap: relative excess of `norm` over this bound, which is due to rounding.
    """

    weights: np.ndarray
    multipliers: np.ndarray
    norm: float
    gap: float


def min_norm(X: Real, y: Real, p: Real) -> np.ndarray:
    r"""The weights of least norm that fit the data, $\operatorname{argmin}_{Xw = y}\|w\|_p$, of shape `(d,)`.

    [`least_norm`][secant.theory.bias.interpolants.least_norm] gives the same weights with their proof.

    Args:
        X: samples, shape `(n, d)`.
        y: targets, shape `(n,)`.
        p: the norm's exponent, from 1 to infinity.

    Example:
        ```python
        import numpy as np
        from secant.theory.bias import interpolants

        X, y = np.array([[1.0, 1.0, 1.0], [1.0, 2.0, 0.0]]), np.array([1.0, 10.0])
        interpolants.min_norm(X, y, 4 / 3)  # 0.00023, 4.99989, -4.00012
        ```
    """
    return least_norm(X, y, p).weights


def least_norm(X: Real, y: Real, p: Real) -> LeastNorm:
    r"""The weights of least norm that fit the data, with multipliers that prove it.

    * $p = 1$ and $p = \infty$: a linear program (HiGHS), which gives one solution if there are several.
    * $p = 2$: the pseudo-inverse.
    * Other $p$: Newton's method. Exponents near 1, such as $1 + 10^{-9}$, are reached in stages from 1.1; large ones,
      such as $10^9$, from 11. If the linear program of the limit has several solutions, they choose one of these.

    Args:
        X: samples, shape `(n, d)`.
        y: targets, shape `(n,)`.
        p: the norm's exponent, from 1 to infinity.

    Raises:
        ValueError: if no weights fit the data, with the least residual.

    Example:
        ```python
        import numpy as np
        from secant.theory.bias import interpolants

        X, y = np.array([[1.0, 1.0, 2.0]]), np.array([4.0])
        for p in (1, 1 + 1e-9, 1e9):
            print(interpolants.least_norm(X, y, p).weights.round(6))
        both = interpolants.least_norm(np.ones((1, 2)), np.array([4.0]), 1 + 1e-9).weights
        print(both.round(6))  # of all solutions of least 1-norm
        ```

        ```text
        [0. 0. 2.]
        [0. 0. 2.]
        [1. 1. 1.]
        [2. 2.]
        ```
    """
    X, y, p = np.asarray(X, float), np.asarray(y, float), float(p)
    if not p >= 1:
        raise ValueError(f"min_norm: `p` must be at least 1, infinity included, got {p!r}.")
    if X.ndim != 2 or y.shape != (len(X),) or not len(X):
        raise ValueError(f"min_norm: `X` must have shape (n, d) and `y` (n,), got {X.shape} and {y.shape}.")
    _finite("min_norm", X=X, y=y)
    rows, targets, back = _independent("min_norm", X, y)
    if not np.any(targets):
        return LeastNorm(np.zeros(X.shape[1]), np.zeros(len(X)), 0.0, 0.0)
    least = targets @ rows
    if p == 2:
        w, nu = least, targets
    elif p in (1, math.inf):
        w, nu = linear_program(rows, targets, p)
    else:
        w, nu = power_norm(rows, targets, least, p)
    nu = nu / norm_of(nu @ rows, dual(p))
    size = norm_of(w, p)
    gap = size / float(targets @ nu) - 1
    missed = float(np.linalg.norm(rows @ w - targets) / np.linalg.norm(targets))
    if not (abs(gap) < 1e-6 and missed < 1e-9):
        raise ValueError(
            f"min_norm: with `p` = {p!r} no solution was found: the norm is within {gap:.1e} of its bound, and Xw - y "
            f"is {missed:.1e} of y. Use the limit instead, `p=1` or `p=math.inf`, which is a linear program."
        )
    return LeastNorm(w, nu @ back, size, max(gap, 0.0))


class Path(NamedTuple):
    r"""The corners of a path that is straight between them.

    Attributes:
        weights: shape `(corners, d)`, from zero to the end.
        correlation: $\max_j|x_j\cdot(y - Xw)|$ at each corner, over columns $x_j$, from its largest value to 0.
        length: $\int\|dw\|_1$ up to each corner; it is the 1-norm if no weight turns back.
    """

    weights: np.ndarray
    correlation: np.ndarray
    length: np.ndarray


def stagewise_path(X: Real, y: Real) -> Path:
    r"""The exact path of forward stagewise regression: coordinate descent with infinitesimal steps.

    On $\frac12\|Xw - y\|^2$ the coordinate of largest correlation $|x_j\cdot r|$ moves, $r = y - Xw$. Tied coordinates
    move together, each only in the direction of its own correlation. With signs $s_j$ their speeds solve
    $\min_{\rho \ge 0}\|r - \sum_js_jx_j\rho_j\|^2$ over the tied set. Coordinates that move stay tied, the others fall
    behind, so the path is straight until one more coordinate joins. The path ends in a solution of least squares. If no
    weight of the lasso's path ever turns back, the two paths are the same.

    Args:
        X: samples, shape `(n, d)`.
        y: targets, shape `(n,)`.

    Example:
        ```python
        import numpy as np
        from secant.theory.bias import interpolants

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
        # The largest correlation falls as (1 - t) height; another coordinate ties when c - t change = +-(1 - t) height.
        with np.errstate(divide="ignore", invalid="ignore"):
            meets = np.concatenate([(height - s * correlation) / (height - s * change) for s in (1, -1)])
        others = np.concatenate([~tied | (correlation * s < 0) for s in (1, -1)]) & (meets > 1e-12)
        share = min(1.0, meets[others].min(initial=1.0))
        w, left = w + share * speed, left - share * (X @ speed)
        corners.append(w)
        heights.append(height * (1 - share))
        lengths.append(lengths[-1] + share * np.abs(speed).sum())
    raise ValueError(f"stagewise_path: the path has more than {MOST_CORNERS} corners. Scale the columns of `X` alike.")
