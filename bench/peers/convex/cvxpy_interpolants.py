"""Solutions of linear equations of least divergence by cvxpy.

Options: `potential` (hypentropy, entropy, quadratic or lp), `alpha`, `p`, `repetitions`. Arrays: `X`, `y`, `start`, for
the quadratic `D`, and `exact`, against which the accuracy is judged, to `within`.
"""

from __future__ import annotations

import cvxpy as cp
import numpy as np
from exchange import Exchange, say, timed

SOLVERS = {
    "Clarabel": {"solver": cp.CLARABEL},
    "Clarabel, tight": {"solver": cp.CLARABEL, "tol_gap_abs": 1e-12, "tol_gap_rel": 1e-12, "tol_feas": 1e-12},
}


def problem(exchange: Exchange) -> tuple[cp.Problem, cp.Variable]:
    X, y = exchange.arrays["X"], exchange.arrays["y"]
    start, name = exchange.arrays.get("start"), exchange.options["potential"]
    w = cp.Variable(X.shape[1])
    fits = [X @ w == y]
    if name == "hypentropy":
        # R = min over a - b = w of (KL(a, alpha^2) + KL(b, alpha^2)) / 4: there a b = alpha^4.
        square = float(exchange.options["alpha"]) ** 2
        a, b = cp.Variable(X.shape[1], nonneg=True), cp.Variable(X.shape[1], nonneg=True)
        value = cp.sum(cp.kl_div(a, square) + cp.kl_div(b, square)) / 4
        fits.append(w == a - b)
    elif name == "entropy":
        value = cp.sum(cp.kl_div(w, start))
    elif name == "quadratic":
        value = cp.quad_form(w - start, cp.psd_wrap(exchange.arrays["D"])) / 2
    else:
        value = cp.pnorm(w, float(exchange.options["p"]))
    return cp.Problem(cp.Minimize(value), fits), w


def main() -> None:
    exchange = Exchange(("cvxpy", "clarabel", "numpy"))
    exact, within = exchange.arrays.get("exact"), float(exchange.options.get("within", 1e-4))
    for name, options in SOLVERS.items():

        def work(_: int, options: dict = options) -> np.ndarray:
            task, w = problem(exchange)
            task.solve(**options)
            return w.value

        try:
            seconds, results = timed(work, int(exchange.options.get("repetitions", 3)), warm=False)
        except Exception as error:
            exchange.fail(name, error)
            continue
        exchange.results[name] = results[-1]
        error = float("nan") if exact is None else float(np.abs(results[-1] - exact).max())
        exchange.method(name, seconds, error=error, accurate=bool(exact is None or error < within))
    say(exchange.options["potential"])
    exchange.close()


if __name__ == "__main__":
    main()
