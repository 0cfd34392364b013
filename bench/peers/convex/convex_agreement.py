"""What cvxpy and scikit-learn find on problems that ours solves too: largest margins, least divergences, lasso paths.

Arrays: `margin/K/Z` and `margin/K/y` of problem K; `least/K/X`, `least/K/y` and, where they are needed, `least/K/start`
and `least/K/D`; `path/K/X` and `path/K/y`. Options: `norms`, and `potentials` with name and number of each K.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import cvxpy as cp
import numpy as np
from exchange import Exchange, say
from sklearn.linear_model import lars_path

TIGHT = {"solver": cp.CLARABEL, "tol_gap_abs": 1e-12, "tol_gap_rel": 1e-12, "tol_feas": 1e-12}
LOOSER = {"solver": cp.CLARABEL, "tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10}


def solved(problem: cp.Problem) -> float:
    """As exactly as the solver can."""
    for options in (TIGHT, LOOSER, {"solver": cp.CLARABEL}):
        try:
            problem.solve(**options)
            if problem.status in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE):
                break
        except cp.SolverError:
            continue
    return float(problem.value)


def margin(Z: np.ndarray, y: np.ndarray, norm: float, biased: bool) -> float:
    w, b = cp.Variable(Z.shape[1]), cp.Variable()
    reached = Z @ w + cp.multiply(y, b) if biased else Z @ w
    return 1 / solved(cp.Problem(cp.Minimize(cp.pnorm(w, norm)), [reached >= 1]))


def least(name: str, number: float, X: np.ndarray, y: np.ndarray, start: Any, D: Any) -> np.ndarray:
    """The solution of least divergence, of one of the potentials."""
    w = cp.Variable(X.shape[1:], symmetric=True) if X.ndim == 3 else cp.Variable(X.shape[1])
    fits = [cp.trace(A @ w) == target for A, target in zip(X, y)] if X.ndim == 3 else [X @ w == y]  # noqa: B905
    if name == "hypentropy":
        # R = min over a - b = w of (KL(a, alpha^2) + KL(b, alpha^2)) / 4: there a b = alpha^4.
        a, b = cp.Variable(X.shape[1], nonneg=True), cp.Variable(X.shape[1], nonneg=True)
        value = -cp.sum(cp.entr(a) + cp.entr(b)) - (1 + 2 * math.log(number)) * cp.sum(a + b)
        fits.append(w == a - b)
    elif name == "entropy":
        value = cp.sum(cp.kl_div(w, start))
    elif name == "spectral_entropy":
        value = -cp.von_neumann_entr(w) - cp.trace(w)
    elif name == "quadratic":
        value = cp.quad_form(w - start, cp.psd_wrap(D)) / 2
    else:
        p, size = number, np.linalg.norm(start, number)
        dual = np.zeros(len(start)) if size == 0 else size ** (2 - p) * np.sign(start) * np.abs(start) ** (p - 1)
        value = cp.square(cp.pnorm(w, p)) / 2 - dual @ w
    solved(cp.Problem(cp.Minimize(value), fits))
    return w.value


def main() -> None:
    warnings.simplefilter("ignore")
    exchange = Exchange(("cvxpy", "clarabel", "scikit-learn", "numpy"))
    arrays, found = exchange.arrays, exchange.results
    problems: dict[str, set[str]] = {}
    for key in arrays:
        kind, number, _ = key.split("/")
        problems.setdefault(kind, set()).add(number)
    norms = [math.inf if norm is None else float(norm) for norm in exchange.options["norms"]]
    for k in sorted(problems.get("margin", ()), key=int):
        Z, y = arrays[f"margin/{k}/Z"], arrays[f"margin/{k}/y"]
        found[f"margin/{k}"] = np.array([[margin(Z, y, norm, biased) for biased in (False, True)] for norm in norms])
    say("margins")
    for k, (name, number) in exchange.options["potentials"].items():
        given = [arrays.get(f"least/{k}/{part}") for part in ("X", "y", "start", "D")]
        found[f"least/{k}"] = least(name, number, *given)
    say("divergences")
    for k in problems.get("path", ()):
        found[f"path/{k}"] = lars_path(arrays[f"path/{k}/X"], arrays[f"path/{k}/y"], method="lasso")[2].T
    exchange.close()


if __name__ == "__main__":
    main()
