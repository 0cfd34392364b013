"""The row of Newton's method in the dual: what a step costs, and how many there are."""

from __future__ import annotations

import statistics
import time

import numpy as np
from scipy.optimize import nnls
from threadpoolctl import threadpool_limits

from bench.row import Row, row
from secant.theory.bias import interpolants, potentials

SIZES = ((50, 1_000), (100, 1_000), (200, 1_000), (50, 4_000), (100, 4_000), (200, 400))
"""Samples and weights from which the law is fitted."""

LARGEST = (400, 4_000)
"""Where it is held against the clock."""

ALPHAS = (1.0, 1e-2, 1e-4, 1e-6, 1e-8)
MOST = 50


def _problem(n: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, X[:, :5] @ rng.normal(size=5) + 0.1 * rng.normal(size=n)


def _second_per_step(n: int, d: int, alpha: float = 0.01) -> float:
    X, y = _problem(n, d)
    potential = potentials.hypentropy(alpha)
    steps = interpolants.bregman_projection(X, y, potential).steps
    taken = []
    for _ in range(7):
        began = time.process_time()  # of this process: a law of work, not of a busy machine
        interpolants.bregman_projection(X, y, potential)
        taken.append(time.process_time() - began)
    return statistics.median(taken) / steps


@row
def dual_newton_cost() -> Row:
    """With the constants of smaller problems the law foretells the time of a larger one, on one thread."""
    most = 0
    for n, d, seed in ((5, 20, 0), (20, 100, 1), (50, 60, 2), (100, 1_000, 3)):
        X, y = _problem(n, d, seed)
        most = max(most, *(interpolants.bregman_projection(X, y, potentials.hypentropy(a)).steps for a in ALPHAS))
    assert most <= MOST, f"{most} steps of Newton's method"
    with threadpool_limits(1):
        sizes, taken = np.array(SIZES, float), np.array([_second_per_step(*size) for size in SIZES])
        largest = _second_per_step(*LARGEST)

    def law(n: np.ndarray, d: np.ndarray) -> np.ndarray:  # the last is what the line search looks at
        return np.stack([n**2 * d, n**3, n * d], axis=-1)

    # By relative errors; constants of a cost are positive.
    constants, _ = nnls(law(*sizes.T) / taken[:, None], np.ones(len(taken)))
    foretold = float(law(*np.array(LARGEST, float)) @ constants)
    work = (
        f"a step of Newton's method in the dual, {LARGEST[0]} samples, {LARGEST[1]:,} weights; at most {most} steps "
        f"from alpha = 1 to 1e-8"
    )
    terms = " + ".join(f"{c:.1e} {name}" for c, name in zip(constants, ("n^2 d", "n^3", "n d"), strict=True) if c)
    peer = f"{terms}, fitted to {len(SIZES)} smaller problems"
    return Row("dual_newton_cost", work, peer, foretold, largest, 1.5)
