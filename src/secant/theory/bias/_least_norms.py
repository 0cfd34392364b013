r"""The weights of least $p$-norm that fit the data, for orthonormal samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy  # its parts are loaded when they are used

from secant.theory.bias._power_equation import powers
from secant.theory.bias.margins import norm_of


def linear_program(X: np.ndarray, y: np.ndarray, p: float) -> tuple[np.ndarray, np.ndarray]:
    """Weights and multipliers for $p = 1$ or infinity."""
    n, d = X.shape
    close = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    if p == 1:  # w = w+ - w-
        found = scipy.optimize.linprog(np.ones(2 * d), A_eq=np.hstack([X, -X]), b_eq=y, method="highs", options=close)
        return found.x[:d] - found.x[d:], np.asarray(found.eqlin.marginals)
    found = scipy.optimize.linprog(  # -t <= w <= t
        np.append(np.zeros(d), 1.0),
        A_ub=np.vstack([np.hstack([s * np.eye(d), -np.ones((d, 1))]) for s in (1, -1)]),
        b_ub=np.zeros(2 * d),
        A_eq=np.hstack([X, np.zeros((n, 1))]),
        b_eq=y,
        bounds=[(None, None)] * d + [(0, None)],
        method="highs",
        options=close,
    )
    return found.x[:d], np.asarray(found.eqlin.marginals)


def power_norm(X: np.ndarray, y: np.ndarray, least: np.ndarray, p: float) -> tuple[np.ndarray, np.ndarray]:
    r"""Weights and multipliers for $p$ other than 1, 2 and infinity.

    Below 2, signed powers of the weights lie in the span of the samples. Above 2, the matrix $N$ with $NX^\top = 0$
    maps these powers to 0.
    """
    size = float(np.abs(least).max())
    if p < 2:
        found = powers(X, y / size, least / size, p - 1)
        return size * found.weights, X @ found.dual
    if len(X) == len(least):
        return least, X @ (np.sign(least) * (np.abs(least) / size) ** (p - 1))
    away = np.linalg.svd(X)[2][len(X) :]
    found = powers(away, np.zeros(len(away)), least / size, 1 / (p - 1))
    return size * found.dual, X @ found.weights


def near_one(X: np.ndarray, y: np.ndarray, p: float, begin: np.ndarray) -> tuple[Any, Any, int, Any]:
    """Weights of least norm for $p$ near 1, as from `newton`: the norm's gradient is in the span of the samples."""
    lead = np.broadcast_shapes(begin.shape[:-1], y.shape[:-1])
    weights, nu, off, steps = np.zeros((*lead, X.shape[1])), np.zeros((*lead, len(X))), np.zeros(lead), 0
    y = np.broadcast_to(y, nu.shape)
    for place in np.ndindex(lead):
        size = float(np.abs(y[place] @ X).max())
        if size > 0:
            found = powers(X, y[place] / size, y[place] @ X / size, p - 1)
            weights[place], off[place], steps = size * found.weights, found.missed, max(steps, found.steps)
            nu[place] = norm_of(weights[place], p) ** (2 - p) * size ** (p - 1) * (X @ found.dual)
    return weights, nu, steps, off


def onto(X: np.ndarray, y: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Weights that fit, from weights that nearly fit: each moves in proportion to its size, so zeros stay."""
    root = np.sqrt(np.abs(w))
    moved = w.copy()
    for place in np.ndindex(w.shape[:-1]):
        left = np.broadcast_to(y, (*w.shape[:-1], len(X)))[place] - X @ w[place]
        moved[place] += root[place] * np.linalg.lstsq(X * root[place], left)[0]
    return moved
