"""Whether margins, interpolants, paths and worst cases are those of cvxpy, scikit-learn and PEPit.

`python -m bench.convex.agreement` writes what cvxpy finds for margins to the tests again.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from bench import environments
from bench.row import Row, row
from secant.theory.bias import interpolants, potentials
from secant.theory.bias.margins import max_margin
from secant.theory.descent import rates, step_matrices
from secant.theory.descent.certificates import worst_case
from secant.theory.edge import stability

NORMS = (1, 1.3, 2, 4, math.inf)
PROBLEMS = 50
GOLDEN = Path(__file__).parents[2] / "tests" / "theory" / "bias" / "golden_margins.csv"
CLOSE = 1e-6


def separable(seed: int, n: int = 14, d: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Rows and labels of the problem that the tests draw from this seed."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    y = np.sign(x @ rng.normal(size=d) + 1e-9)
    return x * y[:, None], y


def _least() -> dict[str, tuple[str, float, potentials.Potential, dict[str, np.ndarray]]]:
    """Problems of least divergence: four draws of each potential, by number."""
    found: dict[str, tuple[str, float, potentials.Potential, dict[str, np.ndarray]]] = {}
    for draw in range(4):
        rng = np.random.default_rng(draw)
        X, w, start, A = rng.normal(size=(3, 8)), rng.normal(size=8), rng.normal(size=8), rng.normal(size=(8, 8))
        D = A @ A.T + np.eye(8)
        signed = {"X": X, "y": X @ w, "start": start}
        positive = {"X": X, "y": X @ np.exp(w), "start": np.exp(start)}
        S, B = rng.normal(size=(2, 3, 3)), rng.normal(size=(3, 3))
        S += S.transpose(0, 2, 1)
        matrices = {"X": S, "y": np.einsum("nij,ij->n", S, B @ B.T)}
        from_zero = {**signed, "start": np.zeros(8)}
        cases: list[tuple[str, float, potentials.Potential, dict[str, np.ndarray]]] = [
            ("entropy", 0.0, potentials.entropy(), positive),
            ("quadratic", 0.0, potentials.quadratic(D), {**signed, "D": D}),
            ("spectral_entropy", 0.0, potentials.spectral_entropy(), matrices),
            *(("lp", p, potentials.lp(p), data) for p in (1.25, 1.5) for data in (signed, from_zero)),
            *(("hypentropy", alpha, potentials.hypentropy(alpha), {"X": X, "y": X @ w}) for alpha in (0.1, 1.0)),
        ]
        found |= {str(len(found) + i): case for i, case in enumerate(cases)}
    return found


def _methods() -> list[tuple[str, np.ndarray, float, str, str]]:
    tuned = rates.heavy_ball(0.1, 1.0)
    return [
        ("gradient descent", step_matrices.gradient([1.5] * 6), 0.0, "value", "distance"),
        ("heavy ball", step_matrices.of(stability.heavy_ball(tuned.lr, tuned.beta), 6), 0.1, "distance", "distance"),
        ("Nesterov's momentum", step_matrices.of(stability.nesterov(0.5, 0.6), 6), 0.05, "value", "value"),
        ("accelerated", step_matrices.accelerated(6), 0.0, "value", "distance"),
        ("optimised", step_matrices.optimised(5), 0.0, "value", "distance"),
        ("silver steps", step_matrices.silver(7), 0.0, "gradient", "distance"),
        ("four steps", step_matrices.gradient([1.0, 1.5, 0.5, 1.2]), -1.0, "least_gradient", "value"),
    ]


def _peer(paths: dict[str, np.ndarray] | None = None) -> tuple[environments.Report, dict[str, Any]]:
    least, arrays = _least(), dict(paths or {})
    for seed in range(PROBLEMS):
        arrays[f"margin/{seed}/Z"], arrays[f"margin/{seed}/y"] = separable(seed)
    for k, (*_, data) in least.items():
        arrays |= {f"least/{k}/{part}": array for part, array in data.items()}
    report = environments.run(
        "convex",
        "convex/convex_agreement",
        arrays,
        norms=[None if math.isinf(norm) else norm for norm in NORMS],
        potentials={k: case[:2] for k, case in least.items()},
    )
    return report, least


@row
def convex_agreement() -> Row:
    """The largest difference of all; also from PEPit, and of stagewise paths from the lasso's where these agree."""
    drawn = {}
    for seed in range(60):
        rng = np.random.default_rng(seed)
        X, w = rng.normal(size=(5, 7)), rng.normal(size=7)
        drawn[seed] = (X, X @ w)
    paths = {f"path/{k}/{name}": array for k, pair in drawn.items() for name, array in zip("Xy", pair, strict=True)}
    report, least = _peer(paths)
    off: dict[str, float] = {}

    def compare(name: str, ours: Any, theirs: Any) -> None:
        theirs = np.asarray(theirs)
        error = float(np.abs(np.asarray(ours) - theirs).max() / np.abs(theirs).max())
        off[name] = max(off.get(name, 0.0), error)

    for seed in range(PROBLEMS):
        Z, y = separable(seed)
        for norm, theirs in zip(NORMS, report.arrays[f"margin/{seed}"], strict=True):
            for labels, margin in zip((None, y), theirs, strict=True):
                compare(f"margin in l{norm:g}", max_margin(Z, norm, labels=labels).margin, margin)
    for k, (name, _, potential, data) in least.items():
        found = interpolants.bregman_projection(data["X"], data["y"], potential, data.get("start"))
        compare(f"least {name}", found.weights, report.arrays[f"least/{k}"])
    monotone = 0
    for k, pair in drawn.items():
        lasso = report.arrays[f"path/{k}"]
        if np.all(lasso[1:] * lasso[:-1] >= 0) and np.all(np.diff(np.abs(lasso), axis=0) > -1e-12):
            monotone += 1
            compare("stagewise path", interpolants.stagewise_path(*pair).weights, lasso)
    for name, steps, convex, measure, start in _methods():
        pepit = environments.run(
            "convex", "convex/pepit_worst_case", {"steps": steps}, smooth=1.0, convex=convex, measure=measure,
            start=start, repetitions=1,
        )  # fmt: skip
        theirs = pepit.methods["CLARABEL"].values["value"]
        compare(f"worst case of {name}", worst_case(steps, convex=convex, measure=measure, start=start).value, theirs)
    where = max(off, key=lambda name: off[name])
    work = (
        f"largest relative difference ({where}): {PROBLEMS} margins a norm with and without a bias, {len(least)} least "
        f"divergences, {monotone} monotone paths, {len(_methods())} worst cases"
    )
    peer = f"cvxpy {report.versions['cvxpy']}, scikit-learn {report.versions['scikit-learn']}, PEPit"
    return Row("convex_agreement", work, peer, 1.0, off[where], CLOSE, unit="")


def main() -> None:
    """Writes the margins that cvxpy finds, a line a problem: of each norm without and with a bias."""
    report, _ = _peer()
    lines = [",".join(f"{margin:.9f}" for margin in report.arrays[f"margin/{k}"].ravel()) for k in range(PROBLEMS)]
    GOLDEN.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
