r"""The largest margin in a smooth norm, by an interior-point method.

The task is the least $\frac1p\sum_j|w_j|^p$ with $z_i\cdot w + y_ib - s_i = 1$, $s \ge 0$. At the solution there are
multipliers $a \ge 0$ with $\operatorname{sign}(w_j)|w_j|^{p-1} = (Z^\top a)_j$ and $a_is_i = 0$. Newton's method
follows $a_is_i = \mu$ to $\mu \to 0$. Below $p = 2$ the unknowns are $a$, because $w$ is a smooth function of
$Z^\top a$. Above $p = 2$ they are $w$, because $Z^\top a$ is a smooth function of $w$. Norms far from 2 are reached in
stages, and each stage starts where the last ended.
"""

from __future__ import annotations

import math

import numpy as np
import scipy  # its parts are loaded when they are used

CLOSE = 1e-12
"""The relative distance from its own bound at which an answer counts as found."""

State = tuple[np.ndarray, np.ndarray, np.ndarray, float]


def interior_point(Z: np.ndarray, labels: np.ndarray | None, p: float) -> tuple[np.ndarray, float, np.ndarray]:
    """Weights, bias and multipliers (up to a factor), as near to the optimum as rounding allows.

    Args:
        Z: rows of separable data.
        labels: labels of the samples if there is a bias, else `None`.
        p: exponent of the norm, above 1 and finite.
    """
    signs, unit = (0.0 if labels is None else labels), 1.0
    a, s, b = np.full(len(Z), 1 / len(Z)), np.ones(len(Z)), 0.0
    w = Z.T @ a
    for stage in _stages(p):
        last = stage == p
        w, a, s, b = _newton(Z, labels, stage, (w, a, s, b), CLOSE if last else 1e-3)
        if not last:  # margin 1 and largest weight 1, so that powers of weights stay finite
            least = float((Z @ w + signs * b).min())
            w, b = w / least, b / least
            top = float(np.abs(w).max())
            Z, w, unit = Z * top, w / top, unit * top
            s = np.maximum(Z @ w + signs * b - 1, 1e-2)
            a = np.maximum(a / a.sum(), 1e-3 / len(a))
            a *= np.sum(np.abs(w) ** stage) / a.sum()
    return w * unit, b, a


def _stages(p: float) -> np.ndarray:
    """Norms from 2 to the wanted one, doubling or halving the distance from 1."""
    count = max(math.ceil(abs(math.log2(p - 1))), 0)
    return 1 + (p - 1) ** (np.arange(count + 1) / count) if count else np.array([p])


def _power(x: np.ndarray, exponent: float) -> np.ndarray:
    return np.sign(x) * np.abs(x) ** exponent


def _size(v: np.ndarray, p: float) -> float:
    top = float(np.abs(v).max())
    return top * float(np.sum((np.abs(v) / top) ** p) ** (1 / p)) if top > 0 else 0.0


def _newton(Z: np.ndarray, labels: np.ndarray | None, p: float, start: State, close: float) -> State:
    """Newton's method at one norm; gives the iterate that is nearest to its own bound."""
    (w, a, s, b), q, in_dual = start, p / (p - 1), p < 2
    signs = 0.0 if labels is None else labels
    best, lowest, since = start, math.inf, 0
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for _ in range(200):
            if in_dual:
                w = _power(Z.T @ a, q - 1)
            reached = Z @ w + signs * b
            tilt = 0.0 if labels is None else float(labels @ a)
            least, total = float(reached.min()), float(a.sum())
            bound = _size(Z.T @ a, q) + abs(b * tilt) / max(_size(w, p), 1e-300)
            gap = bound / total * _size(w, p) / least - 1 if least > 0 else math.inf
            since += 1
            if gap < lowest:
                best, lowest, since = (w, a, s, b), gap, 0
            if gap < close or (since > 30 and lowest < math.inf):
                break
            mu = (0.1 if np.abs(reached - s - 1).max() < 0.1 else 0.5) * float(a @ s) / len(a)
            try:
                step = _direction(Z, labels, p, (w, a, s, b), mu)
            except (scipy.linalg.LinAlgError, ValueError):
                break
            t = _length(Z, labels, p, (w, a, s, b), step, mu)
            w, a, s, b = w + t * step[0], a + t * step[1], s + t * step[2], b + t * step[3]
    return best


def _direction(Z: np.ndarray, labels: np.ndarray | None, p: float, at: State, mu: float) -> State:
    (w, a, s, b), q = at, p / (p - 1)
    signs = 0.0 if labels is None else labels
    tilt = 0.0 if labels is None else float(labels @ a)
    wanted = 1 + s - Z @ w - signs * b + (mu - a * s) / a
    move = 0.0
    if p < 2:
        table = (Z * ((q - 1) * np.abs(Z.T @ a) ** (q - 2))) @ Z.T
        factor = _factor(table, s / a)
        da, dw = scipy.linalg.cho_solve(factor, wanted), np.zeros_like(w)
        if labels is not None:
            turn = scipy.linalg.cho_solve(factor, labels)
            move = float((labels @ da + tilt) / (labels @ turn))
            da = da - move * turn
    else:
        pull = a / s
        factor = _factor((Z.T * pull) @ Z, (p - 1) * np.abs(w) ** (p - 2))
        dw = scipy.linalg.cho_solve(factor, Z.T @ (pull * wanted + a) - _power(w, p - 1))
        if labels is not None:
            turn = scipy.linalg.cho_solve(factor, Z.T @ (pull * labels))
            left, right = labels @ (pull * (wanted - Z @ dw)) + tilt, labels @ (pull * (labels - Z @ turn))
            move = float(left / right)
            dw = dw - move * turn
        da = pull * (wanted - Z @ dw - signs * move)
    return dw, da, (mu - a * s - s * da) / a, move


def _factor(table: np.ndarray, diagonal: np.ndarray) -> tuple[np.ndarray, bool]:
    places = np.diag_indices(len(table))
    table[places] += diagonal + 1e-15 * np.trace(table) / len(table)
    return scipy.linalg.cho_factor(table)


def _length(Z: np.ndarray, labels: np.ndarray | None, p: float, at: State, step: State, mu: float) -> float:
    """The longest step that keeps multipliers and slacks positive and reduces the misfit of the equations."""
    (_, a, s, _), (_, da, ds, _) = at, step
    t = 1.0
    for x, dx in ((a, da), (s, ds)):
        if np.any(dx < 0):
            t = min(t, 0.99 * float((-x[dx < 0] / dx[dx < 0]).min()))
    now = _misses(Z, labels, p, at, step, mu, 0.0)
    for _ in range(30):
        if _misses(Z, labels, p, at, step, mu, t) <= (1 - 0.01 * t) * now:
            break
        t /= 2
    return t


def _misses(Z: np.ndarray, labels: np.ndarray | None, p: float, at: State, step: State, mu: float, t: float) -> float:
    """The misfit of all equations together after the part `t` of a step."""
    (w, a, s, b), (dw, da, ds, db), q = at, step, p / (p - 1)
    A, S = a + t * da, s + t * ds
    W = _power(Z.T @ A, q - 1) if p < 2 else w + t * dw
    off = 0.0 if p < 2 else float(np.abs(_power(W, p - 1) - Z.T @ A).sum())
    if labels is None:
        return off + float(np.abs(Z @ W - S - 1).sum() + np.abs(A * S - mu).sum())
    off += abs(float(labels @ A))
    return off + float(np.abs(Z @ W + labels * (b + t * db) - S - 1).sum() + np.abs(A * S - mu).sum())
