r"""Newton's method for the $\nu$ that solves $X\,\nabla R^*(z_0 + X^\top\nu) = y$, a minimum of a convex function."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import numpy as np

from secant.theory.bias.potentials import Potential

MOST_STEPS = 100
"""The largest number of Newton steps; 20 are usual, 50 are many."""


def newton(
    X: np.ndarray,
    y: np.ndarray,
    potential: Potential,
    dual: np.ndarray,
    guess: np.ndarray | None = None,
    close: float = 1e-16,
    reach: float = math.inf,
) -> tuple[Any, Any, int, Any]:
    r"""Weights, multipliers $\nu$, number of steps, and the relative misfit of $Xw = y$.

    Args:
        X: orthonormal rows, shape `(n, ...)`, where the last axes are those of one $w$.
        y: shape `(..., n)`.
        potential: $R$.
        dual: $z_0$.
        guess: the first $\nu$; zero by default.
        close: the relative misfit at which the iteration stops.
        reach: how far $\nu$ may move in one step along each eigenvector of the curvature.
    """
    axes = potential.axes
    flat, entries = X.reshape(len(X), -1), math.prod(X.shape[1:])
    # The potential's numbers may have leading axes of their own: the shape of its output shows them.
    lead = np.broadcast_shapes(potential.inverse(dual).shape[: -axes or None], y.shape[:-1])
    y = np.broadcast_to(y, (*lead, len(X)))
    nu = np.zeros((*lead, len(X))) + (0.0 if guess is None else guess)
    z, _, off, short, size = _at(nu, X, y, potential, dual)
    steps, stalled, done, best = 0, np.zeros(lead), short < close, (nu, short)
    while steps < MOST_STEPS and not np.all(done):
        steep = potential.slope(z, X.reshape(len(X), *(1,) * len(lead), *X.shape[1:]))
        steep = steep.reshape(*steep.shape[: steep.ndim - axes], entries)
        steep = np.moveaxis(np.broadcast_to(steep, (len(X), *lead, entries)), 0, -2)
        step, clear = _solve(steep, flat, -off, potential.separable)
        if not clear and reach < math.inf:
            step = _within(steep @ flat.T, -off, reach)
        step = np.nan_to_num(step, posinf=0.0, neginf=0.0)
        trials = [nu + _line_search(step, off, y, flat, z, potential)[..., None] * step]
        if np.any(near := short < 1e-7):
            # Here the slope along a step may be only rounding, and so may the misfit in directions of little curvature.
            trials.append(nu + step)
            if not clear:
                trials.append(nu + _filtered(steep @ flat.T, -off, 1e-15 * size))
        misses = np.array([_at(trial, X, y, potential, dual)[3] for trial in trials])
        which = np.where(near & (misses.min(0) < short / 2), misses.argmin(0), 0)
        nu = np.where(done[..., None], nu, np.choose(which[..., None], trials))
        z, _, off, short, size = _at(nu, X, y, potential, dual)
        stalled = np.where(short < best[1] / 2, 0, stalled + 1)
        better = short < best[1]
        best = (np.where(better[..., None], nu, best[0]), np.where(better, short, best[1]))
        done |= (short < close) | (stalled >= np.where(best[1] < 1e-13, 1, np.where(best[1] < 1e-9, 5, MOST_STEPS)))
        steps += 1
    return _at(best[0], X, y, potential, dual)[1], best[0], steps, best[1]


def _at(nu: np.ndarray, X: np.ndarray, y: np.ndarray, potential: Potential, dual: np.ndarray) -> tuple[Any, ...]:
    """Duals, weights, misfit, relative misfit, and the size that the misfit is divided by."""
    flat, lead = X.reshape(len(X), -1), y.shape[:-1]
    z = dual + (nu @ flat).reshape(*lead, *X.shape[1:])
    w = potential.inverse(z)
    vector = w.reshape(*w.shape[: w.ndim - potential.axes], flat.shape[1])
    off, size = vector @ flat.T - y, np.linalg.norm(y, axis=-1) + np.linalg.norm(vector, axis=-1)
    short = np.linalg.norm(off, axis=-1) / np.where(size > 0, size, 1.0)
    return z, w, off, np.where(np.isfinite(short), short, np.inf), size


def _within(curvature: np.ndarray, right: np.ndarray, reach: float) -> np.ndarray:
    """Newton's direction, limited along each eigenvector separately.

    Where weights must grow or fall by powers of ten, the curvature at the present weights makes some components far
    too long. One common factor for the whole step would then leave nothing of the other components.
    """
    curvature = np.nan_to_num((curvature + np.swapaxes(curvature, -1, -2)) / 2, posinf=1e300, neginf=-1e300)
    values, vectors = np.linalg.eigh(curvature)
    inner = (np.swapaxes(vectors, -1, -2) @ right[..., None])[..., 0]
    least = np.maximum(np.abs(inner) / reach, 1e-300)
    return (vectors @ (inner / np.maximum(values, least))[..., None])[..., 0]


def _filtered(curvature: np.ndarray, right: np.ndarray, rounding: Any) -> np.ndarray:
    """Newton's direction without the eigenvectors along which the right-hand side is only rounding."""
    values, vectors = np.linalg.eigh((curvature + np.swapaxes(curvature, -1, -2)) / 2)
    inner = (np.swapaxes(vectors, -1, -2) @ right[..., None])[..., 0]
    seen = (np.abs(inner) > rounding[..., None]) & (values > 0)
    inner = np.where(seen, inner / np.where(values > 0, values, 1.0), 0.0)
    return (vectors @ inner[..., None])[..., 0]


def _solve(steep: np.ndarray, X: np.ndarray, right: np.ndarray, separable: bool) -> tuple[np.ndarray, bool]:
    r"""Newton's direction, $(X\,\nabla^2R^*X^\top)^{-1}$ times the right side, and if the matrix is far from singular.

    Weights of very different sizes make this matrix singular to rounding. The function then factors the root of the
    matrix, which has half the range of exponents. If no root is at hand, the eigenvalues are held above rounding.
    """
    curvature = steep @ X.T
    curvature = np.nan_to_num((curvature + np.swapaxes(curvature, -1, -2)) / 2, posinf=1e300, neginf=-1e300)
    with contextlib.suppress(np.linalg.LinAlgError):
        pivots = np.diagonal(np.linalg.cholesky(curvature), axis1=-2, axis2=-1)
        if np.all(pivots.min(-1) > 1e-4 * pivots.max(-1)):
            return np.linalg.solve(curvature, right[..., None])[..., 0], True
    with contextlib.suppress(np.linalg.LinAlgError):
        if separable:
            root = np.sqrt(np.abs(steep * X)) * np.sign(X)  # X times the root of the slope
            root = np.linalg.qr(np.swapaxes(root, -1, -2), mode="r")
            step = np.linalg.solve(root, np.linalg.solve(np.swapaxes(root, -1, -2), right[..., None]))[..., 0]
            if np.all(np.isfinite(step)):
                return step, False
    values, vectors = np.linalg.eigh(curvature)
    values = np.maximum(values, 1e-15 * np.maximum(values[..., -1:], 1e-300))
    return (vectors @ (np.swapaxes(vectors, -1, -2) @ right[..., None] / values[..., None]))[..., 0], False


def _line_search(
    step: np.ndarray, off: np.ndarray, y: np.ndarray, X: np.ndarray, z: np.ndarray, potential: Potential
) -> np.ndarray:
    r"""The part of a step after which the slope $\phi'$ along it is at most a third as large, with either sign.

    The slope rises along the line. Where the weights overflow, the slope is above zero.
    """
    lead, shape = step.shape[:-1], z.shape[-potential.axes :]
    along = step @ X
    first = -(off * step).sum(-1)
    aim = (y * step).sum(-1)
    part, low, high = np.ones(lead), np.zeros(lead), np.full(lead, np.inf)
    found = ~(first > 0)
    for _ in range(80):
        moved = z + (part[..., None] * along).reshape(*lead, *shape)
        w = np.asarray(potential.inverse(moved) if np.all(np.isfinite(moved)) else np.full(moved.shape, np.inf))
        slope = ((w.reshape(*lead, -1) * along).sum(-1) - aim) / np.where(found, 1.0, first)
        slope = np.where(np.isnan(slope), np.inf, slope)
        found |= np.abs(slope) < 1 / 3
        if np.all(found):
            break
        high, low = np.where(slope > 0, part, high), np.where(slope > 0, low, part)
        between = np.where(high > 2 * low, np.sqrt(low * high), (low + high) / 2)
        following = np.where(np.isinf(high), 4 * part, np.where(low == 0, high / 8, between))
        part = np.where(found, part, following)
    return np.where(found, part, np.where(np.isinf(high), part, low))
