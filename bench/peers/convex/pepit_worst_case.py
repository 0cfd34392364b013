"""The worst case of a method of fixed steps by PEPit, of gradient descent for the row and of any matrix by option.

Inputs: `steps`, the lower triangular matrix. Options: `smooth`, `convex` (the smallest curvature), `measure`, `start`,
`exact` and `accuracy` of what is to be found, and `repetitions`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from exchange import Exchange, timed
from PEPit import PEP
from PEPit.functions import SmoothConvexFunction, SmoothFunction, SmoothStronglyConvexFunction


def worst_case(steps: np.ndarray, smooth: float, convex: float, measure: str, start: str, solver: str) -> float:
    problem = PEP()
    if convex < 0:
        function = problem.declare_function(SmoothFunction, L=smooth)
    elif convex > 0:
        function = problem.declare_function(SmoothStronglyConvexFunction, L=smooth, mu=convex)
    else:
        function = problem.declare_function(SmoothConvexFunction, L=smooth)
    lowest = function.stationary_point()
    x = first = problem.set_initial_point()
    points: list[Any] = []
    gradients: list[Any] = []
    for row in steps:
        points.append(x)
        gradients.append(function.gradient(x))
        for size, gradient in zip(row, gradients, strict=False):
            if size:
                x = x - float(size) * gradient
    known = {
        "distance": (first - lowest) ** 2,
        "value": function(first) - function(lowest),
        "drop": function(first) - function(x),
        "gradient": gradients[0] ** 2,
    }
    problem.set_initial_condition(known[start] <= 1)
    if convex < 0:  # a stationary point need not be the lowest
        for point in [*points, x]:
            problem.add_constraint(function(point) - function(lowest) >= function.gradient(point) ** 2 / (2 * smooth))
    if measure in ("least_gradient", "seen_gradient"):
        for gradient in gradients + ([function.gradient(x)] if measure == "least_gradient" else []):
            problem.set_performance_metric(gradient**2)
    elif measure == "gradient":
        problem.set_performance_metric(function.gradient(x) ** 2)
    elif measure == "distance":
        problem.set_performance_metric((x - lowest) ** 2)
    else:
        problem.set_performance_metric(function(x) - function(lowest))
    return float(problem.solve(wrapper="cvxpy", verbose=0, solver=solver))


def main() -> None:
    exchange = Exchange(("PEPit", "cvxpy", "clarabel"))
    options, steps = exchange.options, exchange.arrays["steps"]
    settings = [options[name] for name in ("smooth", "convex", "measure", "start")]
    for solver in ("CLARABEL", "SCS"):
        try:
            seconds, found = timed(lambda _, s=solver: worst_case(steps, *settings, s), int(options["repetitions"]))
        except Exception as error:
            exchange.fail(solver, error)
            continue
        error = abs(found[-1] / options["exact"] - 1) if "exact" in options else 0.0
        exchange.method(solver, seconds, value=found[-1], accurate=bool(error <= options.get("accuracy", 1.0)))
    exchange.close()


if __name__ == "__main__":
    main()
