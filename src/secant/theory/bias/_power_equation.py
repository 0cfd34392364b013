r"""Weights that are powers of a dual: $Xw = y$ with $\operatorname{sign}(w_j)|w_j|^\varepsilon$ in an affine space.

The conditions of a least $\ell_p$ norm are of this kind, with $\varepsilon = p - 1$ below $p = 2$ and
$\varepsilon = 1/(p - 1)$ above it. As $\varepsilon \to 0$ the norm becomes that of a linear program, duals of weights
that matter tend to $\pm1$, and which weights those are is decided in their last digits. So the dual is kept as
$s_j(1 + \varepsilon v_j)$, of which Newton's method moves $v$: weights are $s_je^{u_j}$ with
$u = \log(1 + \varepsilon v)/\varepsilon$, which is $v$ in the limit. It is reached in stages, each from the last, and
among several solutions of the linear program leads to that of largest entropy.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from secant.theory.bias._dual_newton import newton
from secant.theory.bias.potentials import Potential

FIRST = 0.1
"""The exponent that Newton's method reaches from anywhere."""

LEAST = 1e-12
"""Below it exponents are taken for this one: norms differ by no more than that, and duals have few digits more."""

FACTOR = 4.0
"""Between the exponents of stages."""

REACH = 10.0
"""By how much logarithms of weights may move in one step of Newton's method, in each direction."""


class Powers(NamedTuple):
    """The solution.

    Attributes:
        weights: shape `(d,)`; where all targets are 0 they have no scale, and the largest is 1.
        dual: their powers, shape `(d,)`.
        missed: of the equations, relatively.
        steps: of Newton's method, in all stages.
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
    free = not np.any(y)  # of scale
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
    """Duals divided by the largest, and the product of what they were divided by."""
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
    """Duals at another exponent that leave weights as they are, as near as the span allows, by their weights."""
    counted = w > 1e-30
    root = np.sqrt(np.where(counted, w, 0.0))
    wanted = np.where(counted, np.expm1(after * _log(v, before)) - before * v, 0.0)
    move = np.linalg.lstsq((root * X).T, root * wanted, rcond=1e-10)[0] @ X
    large = w > 1e-3 * w.max()
    for part in (1.0, 0.5, 0.25, 0.1, 0.0):
        guess = (before * v + part * move) / after
        sizes = _log(guess, after)
        if sizes.max() < np.abs(sizes[large]).max() + 20:  # no weight comes from nowhere
            break
    return guess
