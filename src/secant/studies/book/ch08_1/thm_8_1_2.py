"""Theorem 8.1.2: mirror descent ends in the solution of least divergence from where it began."""

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, claim, option, options, scaled, sheet, study
from secant.studies.shared import real
from secant.theory.bias import interpolants, potentials
from secant.theory.bias.potentials import Potential

NAMES = ("entropy", "quadratic", "l3/2", "hypentropy")


class Config(real.Chosen):
    data: str = scaled(smoke="random", laptop="breast-cancer", help="random, or a data set that secant.data knows")
    samples: int = options.samples(4, at_most=8)
    features: int = options.features(9, 30, at_least=3, at_most=40)
    alpha: float = option(1.0, at_least=0.05, at_most=100, help="scale of the hypentropy")
    steps: int = options.steps(400, 3_000, at_least=100, at_most=10**5)

    def check(self) -> None:
        """There are solutions to choose from."""
        super().check()
        if self.samples > self.features // 2:
            raise ValueError(f"samples: at most half of the {self.features} features, got {self.samples}.")


def made(config: Config) -> dict[str, Potential]:
    rng = np.random.default_rng([config.seed, 1])
    root = rng.normal(size=(config.features, config.features)) / np.sqrt(config.features)
    return {
        "entropy": potentials.entropy(),
        "quadratic": potentials.quadratic(root @ root.T + 0.5 * np.eye(config.features)),
        "l3/2": potentials.lp(1.5),
        "hypentropy": potentials.hypentropy(config.alpha),
    }


def descend(
    R: Potential, X: np.ndarray, y: np.ndarray, w: np.ndarray, steps: int, pick: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""Weights after all steps and along them, and $\lambda_i = -\sum_t 2\eta_tr_i$; with `pick`, one sample a step.

    A step is a quarter of the largest step that lowers a parabola with the present curvature $2X\,\nabla^2R^*X^\top$.
    """
    path, multipliers = [w], np.zeros(len(y))
    for t in range(steps):
        dual = R.gradient(w)
        r, rows = X @ w - y, slice(None) if pick is None else slice(pick[t], pick[t] + 1)
        curvature = 2 * R.slope(dual, X[rows]) @ X[rows].T
        rate = 0.5 / (np.linalg.norm(curvature, 2) if pick is None else abs(curvature.item()))
        change = np.zeros_like(r)
        change[rows] = 2 * rate * r[rows]
        multipliers = multipliers - change
        w = R.inverse(dual - change @ X)
        path.append(w)
    return w, np.stack(path), multipliers


@study("book/thm-8.1.2", section="8.1", title="Mirror descent ends in the solution of least divergence")
def run(config: Config) -> xr.Dataset:
    r"""Mirror descent with a strongly convex potential, $\nabla R(w_{t+1}) = \nabla R(w_t) - \eta_t\nabla L(w_t)$, on
    $L(w) = \sum_i(w\cdot x_i - y_i)^2$: if it converges to a solution of $Xw = y$, then with any step sizes to
    $\operatorname{argmin}_{Xw = y}D_R(w, w_0)$, where
    $D_R(w, w_0) = R(w) - R(w_0) - \langle\nabla R(w_0), w - w_0\rangle$. From a start with $\nabla R(w_0) = 0$ this is
    $\operatorname{argmin}_{Xw = y}R(w)$. Gradients of one sample at a time lead to the same end. Here $R$ is the
    entropy $\sum_iw_i\log w_i - w_i$, $\frac12w\cdot Dw$, $\frac12\|w\|_{3/2}^2$ and the hypentropy. Runs with one
    sample a step take three times as many steps.
    """
    rng = np.random.default_rng(config.seed)
    if config.data == real.RANDOM:
        left, _, right = np.linalg.svd(rng.normal(size=(config.samples, config.features)), full_matrices=False)
        X = left * np.linspace(1, 1.5, config.samples) @ right
    else:
        X = real.few(config.data, config.classes, config.samples, rng, config.features)[0]
    y = X @ np.exp(rng.normal(size=config.features) / 2)  # the entropy needs positive weights
    start = np.exp(rng.normal(size=config.features) / 2)
    pick = rng.integers(config.samples, size=3 * config.steps)
    every, zero = np.unique(np.geomspace(1, config.steps, 50).astype(int)), np.zeros(config.features)
    made_of = made(config).values()
    ends, paths, sums = zip(*(descend(R, X, y, start, config.steps) for R in made_of), strict=True)
    singles = [descend(R, X, y, start, len(pick), pick)[0] for R in made_of]
    plain = [descend(R, X, y, R.inverse(zero), config.steps)[0] for R in made_of]
    each = ("potential", "feature")
    return xr.Dataset(
        {
            "X": (("sample", "feature"), X),
            "y": ("sample", y),
            "start": ("feature", start),
            "end": (each, np.stack(ends)),
            "single": (each, np.stack(singles)),
            "plain": (each, np.stack(plain)),
            "multipliers": (("potential", "sample"), np.stack(sums)),
            "path": (("potential", "step", "feature"), np.stack(paths)[:, every]),
        },
        coords={"potential": list(NAMES), "step": every},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    X, y, start = data.X.values, data.y.values, data.start.values
    rng = np.random.default_rng([config.seed, 2])
    spare = np.linalg.svd(X)[2][config.samples :]
    steps, unfinished = "rounding of the steps", "the run has not converged"
    for name, R in made(config).items():
        at = data.sel(potential=name)
        nearest = interpolants.bregman_projection(X, y, R, start).weights
        least = interpolants.bregman_projection(X, y, R).weights
        size = np.abs(nearest).max()
        for key, kind, w, exact in (
            ("end", "", at.end.values, nearest),
            ("single", ", one sample at a time", at.single.values, nearest),
            ("plain", ", from where its gradient is 0", at.plain.values, least),
        ):
            done = np.linalg.norm(X @ w - y) / np.linalg.norm(y) < 1e-11
            words = f"{name}{kind}: distance of the end from the solution of least divergence"
            yield claim(f"{key}-{name}", words, given=done, otherwise=unfinished).zero(
                np.abs(w - exact).max() / size, 1e-10, steps
            )
        moves = 0.1 * size * rng.uniform(0, 1, (200, 1)) * rng.normal(size=(200, len(spare))) @ spare
        others = at.end.values + moves
        others = others[[R.inside(w) for w in others]]
        words, outside = "least divergence of other solutions over that of the end", "all other solutions are outside"
        found = R.divergence(others, start).min(initial=np.inf) / R.divergence(at.end.values, start)
        yield claim(f"others-{name}", f"{name}: {words}", given=len(others), otherwise=outside).at_least(
            1.0, found, "the end has the least", slack=1e-9, note=f"{len(others)} solutions near by"
        )
        left = R.gradient(at.end.values) - R.gradient(start) - at.multipliers.values @ X
        room = 1e-14 * config.steps * (1 + np.abs(R.gradient(start)).max())
        yield claim(f"dual-{name}", f"{name}: motion of the dual less the samples times their multipliers").zero(
            np.abs(left).max(), room, steps
        )
    back = made(config)["quadratic"].inverse(X).T
    exact = start + back @ np.linalg.solve(X @ back, y - X @ start)
    done = np.linalg.norm(X @ data.end[1].values - y) < 1e-11 * np.linalg.norm(y)
    words = "quadratic: distance of the end from its closed form"
    yield claim("closed-form", words, given=done, otherwise=unfinished).zero(
        np.abs(data.end.sel(potential="quadratic") - exact).max(), 1e-10, steps
    )
    R, at = made(config)["entropy"], data.multipliers[0].values @ X
    right = float(np.linalg.norm(R.inverse(R.gradient(start) + at) - start))
    found, where = float(np.linalg.norm(data.end[0].values - start)), "proof of theorem 8.1.2"
    printed = r"D_R(w, w_0) - \sum_i\lambda_ix_i", 0.0
    corrected = r"D_R(w, w_0) - \sum_i\lambda_i\langle w, x_i\rangle", right
    note = "the printed sum does not depend on $w$, and the minimum is the start; the multipliers are the run's"
    yield claim("lagrangian", "entropy: from the start to the minimum of the proof's function of $w$").erratum(
        printed, corrected, found, 1e-10, steps, where=where, note=note
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (11, 4.2), 2)
    X, y, start = data.X.values, data.y.values, data.start.values
    shown = min(12, config.features)
    for k, (name, R) in enumerate(made(config).items()):
        nearest = interpolants.bregman_projection(X, y, R, start).weights
        error = np.maximum(np.abs(data.path[k].values - nearest).max(1), 1e-17)
        left.loglog(data.step, error, color=f"C{k}", label=name)
        place, least = np.arange(shown) + 0.18 * (k - 1.5), "least divergence" if k == 3 else None
        right.plot(place, data.end[k][:shown], "o", ms=6, color=f"C{k}", label=name)
        right.plot(place, nearest[:shown], "_", ms=11, mew=2, color=sheet.ink(), label=least)
    right.plot(np.arange(shown), start[:shown], "x", color=sheet.ink(), ms=6, label="start")
    right.set_xticks(np.arange(0, shown, max(1, shown // 9)))
    sheet.label(left, "Distance from the solution of least divergence", "step", None, "lower left")
    legend = {"loc": "best", "ncols": 2, "fontsize": 8}
    sheet.label(right, "One problem, one start, four ends", "weight", None, legend)
