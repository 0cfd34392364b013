"""Where training ends: ours in the dual against convex optimisation in the weights."""

from __future__ import annotations

import numpy as np

from bench import environments
from bench.row import Row, row, seconds
from secant.theory.bias import interpolants, potentials

ALPHA = 0.01


@row
def flow_limit() -> Row:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 1_000))
    y = X[:, :5] @ rng.normal(size=5) + 0.1 * rng.normal(size=100)
    found = interpolants.bregman_projection(X, y, potentials.hypentropy(ALPHA))
    # In the dual to rounding: the weights are those of their own multipliers, and fit.
    assert found.residual < 1e-10 * np.linalg.norm(y)
    report = environments.run(
        "convex",
        "convex/cvxpy_interpolants",
        {"X": X, "y": y, "exact": found.weights},
        potential="hypentropy",
        alpha=ALPHA,
        within=1e-4,
    )
    best, method = report.best()
    ours = seconds(lambda: interpolants.bregman_projection(X, y, potentials.hypentropy(ALPHA)))
    work = "end of gradient flow on u^2 - v^2 from 0.01, 100 samples, 1,000 weights, to 1e-4 (ours 1e-10)"
    peer = f"cvxpy {report.versions['cvxpy']}, {best}"
    return Row("flow_limit", work, peer, method.median, ours, 50, "at least")
