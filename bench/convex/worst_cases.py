"""The row of exact worst cases: ours against PEPit, on the same method, to the same accuracy."""

from __future__ import annotations

import numpy as np

from bench import environments
from bench.row import Row, row, seconds
from secant.theory.descent import rates
from secant.theory.descent.certificates import worst_case

STEPS = 10
ACCURACY = 1e-6


@row
def certificate() -> Row:
    """Both call Clarabel; the difference is what stands between a method and the solver."""
    steps = np.eye(STEPS)
    exact = float(rates.convex_descent(1.0, 1.0, STEPS))
    error = abs(worst_case(steps).value / exact - 1)
    assert error < ACCURACY, f"the worst case is off by {error:.1e}"
    report = environments.run(
        "convex",
        "convex/pepit_worst_case",
        {"steps": steps},
        smooth=1.0,
        convex=0.0,
        measure="value",
        start="distance",
        exact=exact,
        accuracy=ACCURACY,
        repetitions=7,
    )
    solver, theirs = report.best()
    work = f"worst case of gradient descent on convex functions, {STEPS} steps, to {ACCURACY:g}"
    peer = f"PEPit {report.versions['PEPit']}, {solver.capitalize()}"
    return Row("certificate", work, peer, theirs.median, seconds(lambda: worst_case(steps)), 8.0, "at least")
