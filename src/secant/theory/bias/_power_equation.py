r"""Weights $w$ with $Xw = y$ whose signed powers $\operatorname{sign}(w_j)|w_j|^\varepsilon$ lie in an affine space.

The weights of least $\ell_p$ norm solve such equations, with $\varepsilon = p - 1$ below $p = 2$ and
$\varepsilon = 1/(p - 1)$ above it. As $\varepsilon \to 0$ the problem becomes a linear program. The powers, called the
dual, tend to $\pm1$ for the weights that matter, and their last digits decide which weights matter. The code therefore
keeps the dual as $s_j(1 + \varepsilon v_j)$, and Newton's method moves $v$. The weights are $s_je^{u_j}$ with
$u = \log(1 + \varepsilon v)/\varepsilon$, which tends to $v$. Stages lead to small $\varepsilon$, each from the last.
Among several solutions of the linear program they choose the one of largest entropy.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from secant.theory.bias._dual_newton import newton
from secant.theory.bias.potentials import Potential

FIRST = 0.1
"""At this exponent Newton's method converges from any start."""

LEAST = 1e-12
"""Smaller exponents are replaced by this one. Norms differ by no more than this, and duals have few digits more."""

FACTOR = 4.0
"""The ratio between the exponents of two stages."""

REACH = 10.0
"""How far the logarithms of weights may move in one step of Newton's method, along each eigenvector."""


class Powers(NamedTuple):
    """The solution.

    Attributes:
        weights: shape `(d,)`. If all targets are 0 the scale is free, and the largest weight is 1.
        dual: their signed powers, shape `(d,)`.
        missed: relative misfit of the equations.
        steps: Newton steps, in all stages together.
    """

    weights: np.ndarray
    dual: np.ndarray
    missed: float
    steps: int


def powers(X: np.ndarray, y: np.ndarray, begin: np.ndarray, exponent: float) -> Powers:
    r"""Solves $Xw = y$ with $\operatorname{sign}(w)|w|^\varepsilon - z_0$ in the span of the rows of `X`.

    Args:
        X: orthonormal rows, shape `(n, d)`.
        y: targets, shape `(n,)`, of size 1 or all 0.
        begin: $z_0$, of size 1.
        exponent: $\varepsilon$, above 0 and at most 1.
    """
    exponent = max(exponent, LEAST)
    count = max(math.ceil(math.log(FIRST / exponent) / math.log(FACTOR)), 0)
    stages = FIRST * (exponent / FIRST) ** (np.arange(count + 1) / count) if count else np.array([exponent])
    free = not np.any(y)  # to choose the scale
    signs, scale, steps, now = np.where(begin < 0, -1.0, 1.0), 1.0, 0, float(stages[0])
    v, w, missed = (np.abs(begin) - 1) / now, np.zeros(len(begin)), math.inf
    with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
        for stage in map(float, stages):
            if stage != now:
                v, now = _ahead(X * signs, v, w, now, stage), stage
                if free:
                    v, scale = _unit(v, now, scale)
            last = stage == stages[-1]
            found, move, taken, off = newton(X * signs, y, _power(now), v, None, 1e-16 if last else 1e-8, REACH)
            v, steps, missed = v + move @ (X * signs), steps + taken, float(off)
            turned = now * v < -1
            signs, v = np.where(turned, -signs, signs), np.where(turned, -2 / now - v, v)
            w = np.abs(found)
            if free:
                v, scale = _unit(v, now, scale)
                w = w / w.max()
    return Powers(signs * w, scale * signs * (1 + now * v), missed, steps)


def _unit(v: np.ndarray, exponent: float, scale: float) -> tuple[np.ndarray, float]:
    """Duals divided by the largest, and the product of all divisors so far."""
    top = exponent * v.max()
    return (v - v.max()) / (1 + top), scale * (1 + top)


def _log(v: np.ndarray, exponent: float) -> np.ndarray:
    """The logarithm of a weight."""
    x = exponent * v
    return np.where(x > -0.5, np.log1p(np.maximum(x, -0.5)), np.log(np.abs(1 + x))) / exponent


def _power(exponent: float) -> Potential:
    return Potential(
        f"power {exponent:g}",
        value=lambda w: (w ** (1 + exponent)).sum(-1) / (1 + exponent),
        gradient=lambda w: np.expm1(exponent * np.log(w)) / exponent,
        inverse=lambda v: np.sign(1 + exponent * v) * np.exp(_log(v, exponent)),
        slope=lambda v, by: np.exp(_log(v, exponent) * (1 - exponent)) * by,
    )


def _ahead(X: np.ndarray, v: np.ndarray, w: np.ndarray, before: float, after: float) -> np.ndarray:
    """Duals at another exponent that keep the weights as nearly as the span allows; large weights count most."""
    counted = w > 1e-30
    root = np.sqrt(np.where(counted, w, 0.0))
    wanted = np.where(counted, np.expm1(after * _log(v, before)) - before * v, 0.0)
    move = np.linalg.lstsq((root * X).T, root * wanted, rcond=1e-10)[0] @ X
    large = w > 1e-3 * w.max()
    for part in (1.0, 0.5, 0.25, 0.1, 0.0):
        guess = (before * v + part * move) / after
        sizes = _log(guess, after)
        if sizes.max() < np.abs(sizes[large]).max() + 20:  # no small weight overtakes the large ones
            break
    return guess
