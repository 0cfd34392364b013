"""The largest margin by liblinear, libsvm and cvxpy, each at the loosest tolerance that is accurate; one thread."""

from __future__ import annotations

import os

os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}  # before NumPy is imported

import numpy as np
from exchange import Exchange, timed

CONSTANTS = (1e2, 1e4, 1e6)
"""Of the penalty: the larger, the harder the margin."""

TOLERANCES = (1e-4, 1e-6, 1e-8, 1e-10)


def main() -> None:
    exchange = Exchange(("numpy", "scipy", "scikit-learn", "cvxpy", "clarabel"))
    Z, goal, close = exchange.arrays["Z"], float(exchange.options["margin"]), float(exchange.options["close"])
    y = exchange.arrays["y"]
    x = Z * y[:, None]

    def off(w: np.ndarray) -> float:
        return 1 - (Z @ w).min() / np.linalg.norm(w) / goal

    def liblinear(C: float, tol: float) -> np.ndarray:
        from sklearn.svm import LinearSVC

        machine = LinearSVC(C=C, loss="hinge", tol=tol, fit_intercept=False, max_iter=10**6)
        return machine.fit(x, y).coef_[0]

    def libsvm(C: float, tol: float) -> np.ndarray:
        from sklearn.svm import SVC

        # libsvm has a bias: mirrored samples make it zero.
        machine = SVC(C=C, kernel="linear", tol=tol, cache_size=1_000)
        return machine.fit(np.vstack([x, -x]), np.concatenate([y, -y])).coef_[0]

    def cvxpy(C: float, tol: float) -> np.ndarray:
        import cvxpy as cp

        w = cp.Variable(Z.shape[1])
        problem = cp.Problem(cp.Minimize(cp.sum_squares(w)), [Z @ w >= 1])
        problem.solve(solver=cp.CLARABEL, tol_gap_abs=tol, tol_gap_rel=tol, tol_feas=tol)
        return w.value

    for solver in (liblinear, libsvm, cvxpy):
        for tol in TOLERANCES:
            for C in CONSTANTS if solver is not cvxpy else (1.0,):
                name = f"{solver.__name__}, tolerance {tol:g}" + ("" if solver is cvxpy else f", C {C:g}")
                try:
                    error = off(solver(C, tol))
                    accurate = bool(error < close)
                    # What is not accurate is not worth nine runs.
                    repeats = 5 if accurate and solver is not cvxpy else 1
                    seconds, _ = timed(lambda _, s=solver, c=C, t=tol: s(c, t), repeats, warm=False)
                    exchange.method(name, seconds, error=float(error), accurate=accurate)
                except Exception as why:
                    exchange.fail(name, why)
    exchange.close()


if __name__ == "__main__":
    main()
