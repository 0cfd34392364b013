"""The largest margin by liblinear, libsvm and cvxpy, each at the loosest tolerance that is accurate; one thread."""

from __future__ import annotations

import os

os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}  # before NumPy is imported

import numpy as np
from exchange import Exchange, timed

PENALTY = 1e4
"""Of a violated margin: so large that none is."""

TOLERANCES = (1e-7, 1e-8)


def main() -> None:
    exchange = Exchange(("numpy", "scipy", "scikit-learn", "cvxpy", "clarabel"))
    Z, goal, close = exchange.arrays["Z"], float(exchange.options["margin"]), float(exchange.options["close"])
    y = exchange.arrays["y"]
    x = Z * y[:, None]

    def off(w: np.ndarray) -> float:
        return 1 - (Z @ w).min() / np.linalg.norm(w) / goal

    def liblinear(tol: float) -> np.ndarray:
        from sklearn.svm import LinearSVC

        machine = LinearSVC(C=PENALTY, loss="hinge", tol=tol, fit_intercept=False, max_iter=10**6)
        return machine.fit(x, y).coef_[0]

    def libsvm(tol: float) -> np.ndarray:
        from sklearn.svm import SVC

        # libsvm has a bias: mirrored samples make it zero.
        machine = SVC(C=PENALTY, kernel="linear", tol=tol, cache_size=1_000)
        return machine.fit(np.vstack([x, -x]), np.concatenate([y, -y])).coef_[0]

    def cvxpy(tol: float) -> np.ndarray:
        import cvxpy as cp

        w = cp.Variable(Z.shape[1])
        problem = cp.Problem(cp.Minimize(cp.sum_squares(w)), [Z @ w >= 1])
        problem.solve(solver=cp.CLARABEL, tol_gap_abs=tol, tol_gap_rel=tol, tol_feas=tol)
        return w.value

    for solver in (liblinear, libsvm, cvxpy):
        for tol in TOLERANCES:
            name = f"{solver.__name__}, tolerance {tol:g}"
            try:
                error = off(solver(tol))
                accurate = bool(error < close)
                repeats = 5 if accurate and solver is not cvxpy else 1  # what is not accurate is not worth five runs
                seconds, _ = timed(lambda _, s=solver, t=tol: s(t), repeats, warm=False)
                exchange.method(name, seconds, error=float(error), accurate=accurate)
            except Exception as why:
                exchange.fail(name, why)
    exchange.close()


if __name__ == "__main__":
    main()
