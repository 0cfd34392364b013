"""Rows of largest margins: hard and easy pairs of digits, against the solvers of support vector machines."""

from __future__ import annotations

import numpy as np
from threadpoolctl import threadpool_limits

import secant as sc
from bench import environments
from bench.row import Row, row, seconds
from secant.theory.bias import margins

SAMPLES = 2_000
CLOSE = 1e-8
"""How near, relatively, a margin must be to the largest to count."""


def _rows(first: int, second: int) -> np.ndarray:
    task = sc.data.load("mnist", classes=(first, second), samples=SAMPLES, scaling="none", dtype=np.float64)
    return np.asarray(task.train.x) * np.asarray(task.train.y).reshape(-1, 1)


def _row(name: str, pair: tuple[int, int], target: float, sense: str) -> Row:
    Z = _rows(*pair)
    found = margins.max_margin(Z)
    assert found.residual < CLOSE, f"found to {found.residual:.1e} only"
    report = environments.run(
        "convex", "convex/convex_margin", {"Z": Z, "y": np.sign(Z.sum(1))}, margin=found.margin, close=CLOSE
    )
    peer, theirs = report.best()
    with threadpool_limits(1):
        mine = seconds(lambda: margins.max_margin(Z), 9)
    work = f"largest margin of MNIST {pair[0]}/{pair[1]}, {SAMPLES:,} images, to 1e-8"
    return Row(name, work, peer, theirs.median, mine, target, sense)


@row
def max_margin() -> Row:
    """Threes and fives, which are hardly separable."""
    return _row("max_margin", (3, 5), 2.0, "at least")


@row
def max_margin_easy() -> Row:
    """Zeros and ones, which are far apart."""
    return _row("max_margin_easy", (0, 1), 1.25, "at most")
