"""Section 3.1: gradient descent on least squares with more weights than data ends in the pseudo-inverse."""

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Seeded, claim, options, sheet, study
from secant.studies.shared.numerics.differences import largest
from secant.studies.shared.numerics.orbits import orbit
from secant.theory.descent.linear_descent import predictions_after, weights_after


class Config(Seeded):
    samples: int = options.samples(5, at_least=2, at_most=60)
    features: int = options.features(12, at_least=3, at_most=200)
    ratio: float = options.ratio(0.45, at_least=1e-3, at_most=0.99)
    steps: int = options.steps(300, at_least=10, at_most=20_000)

    def check(self) -> None:
        """At least twice as many weights as samples, so that the samples are not nearly dependent."""
        most = self.features // 2
        if self.samples > most:
            raise ValueError(f"samples: at most half as many as features, which is {most}; got {self.samples}.")


@study("book/sec-3.1", section="3.1", title="Least squares with more weights than data")
def run(config: Config) -> xr.Dataset:
    r"""Gradient descent from zero on $\frac12|Xw - y|^2$, with fewer samples than weights, is
    $w_{t+1} = \sum_{j\le t}(1 - \eta X^\top X)^j\,\eta X^\top y$. With $X = \sum_i\sigma_iu_iv_i^\top$ the weights are
    $w_t = \sum_i\frac{1 - (1 - \eta\sigma_i^2)^t}{\sigma_i}\,v_i\,u_i\cdot y$, and the outputs on the data are
    $\sum_i(1 - (1 - \eta\sigma_i^2)^t)\,u_i\,u_i\cdot y$. For $\eta < 1/\lambda_{\max}(X^\top X)$ the weights end in
    $(X^\top X)^\dagger X^\top y = X^\top(XX^\top)^{-1}y$, the shortest solution of $Xw = y$.
    """
    rng = np.random.default_rng(config.seed)
    X, y = rng.normal(size=(config.samples, config.features)), rng.normal(size=config.samples)
    new = rng.normal(size=(4, config.features))
    rate = 2 * config.ratio / np.linalg.norm(X, 2) ** 2
    path = orbit(lambda w: w - rate * X.T @ (X @ w - y), np.zeros(config.features), config.steps)
    # The sums of the first powers: the left side of footnote 2.
    identity = np.eye(config.features)
    series, power, step = 0 * identity, identity, identity - rate * X.T @ X
    traces = []
    for _ in range(config.steps):
        series, power = series + power, power @ step
        traces.append(np.trace(series))
    return xr.Dataset(
        {
            "X": (("sample", "feature"), X),
            "y": ("sample", y),
            "new": (("test", "feature"), new),
            "rate": rate,
            "path": (("step", "feature"), np.stack(path)),
            "series": (("feature", "other"), series),
            "trace": ("power", np.array(traces)),
            "blind": (("feature",), np.linalg.svd(X)[2][-1]),
        }
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    X, y, new, rate, path = data.X.values, data.y.values, data.new.values, float(data.rate), data.path.values
    values = np.linalg.eigvalsh(X @ X.T)
    condition, last = values[-1] / values[0], config.steps
    least = np.linalg.pinv(X) @ y
    size, steps = np.linalg.norm(least), np.arange(last + 1)
    rounding = 1e-15 * config.features * condition
    u, sigma, _ = np.linalg.svd(X)
    fit = ((1 - (1 - rate * sigma**2) ** steps[:, None]) * (u.T @ y)) @ u.T
    weights, away = weights_after(X, y, rate, steps), predictions_after(X, y, new, rate, steps)
    series = data.series.values @ (rate * X.T @ y)
    misses = {
        "weights": ("weights less the closed path, all steps, over the last", largest(path, weights) / size),
        "powers": ("sum of powers (3.3) less the last weights", largest(series, path[-1]) / size),
        "outputs": ("outputs on the data less their closed path, all steps", largest(path @ X.T, fit) / largest(y)),
        "elsewhere": ("outputs on new inputs less their path", largest(path @ new.T, away) / largest(new @ least)),
    }
    for key, (sentence, miss) in misses.items():
        within, of = (config.features, "powers") if key == "powers" else (1, "steps")
        yield claim(key, sentence).zero(miss, rounding + 1e-15 * within * last, f"rounding of the {of}")
    slowest, why = np.abs(1 - rate * values).max(), "every direction is at least as fast as the slowest"
    yield claim("distance", "distance of the last weights from the pseudo-inverse's, over its length").at_most(
        slowest**last, np.linalg.norm(path[-1] - least) / size, why, slack=rounding
    )
    limit = weights_after(X, y, rate, np.inf)
    for key, name, other in (
        ("inner", r"$(X^\top X)^\dagger X^\top y$, (3.4)", np.linalg.pinv(X.T @ X, hermitian=True) @ X.T @ y),
        ("outer", r"$X^\top(XX^\top)^{-1}y$, (3.5)", X.T @ np.linalg.solve(X @ X.T, y)),
    ):
        yield claim(f"limit-{key}", f"limit less {name}, over its length").zero(
            np.linalg.norm(limit - other) / size, 1e-12 + rounding, "rounding"
        )
    other, why = least + data.blind.values, "a unit vector is added that no sample sees"
    note = "another solution, with the same outputs on the data"
    yield claim("shortest", "shortest solution: squared length of another over its own plus one").equal(
        1.0, other @ other / (size**2 + 1), 1e-12 + rounding, why, note=note
    )
    yield from errata(data, config)


def errata(data: xr.Dataset, config: Config) -> Findings:
    """Footnote 2, and a word."""
    X, rate, last, free = data.X.values, float(data.rate), config.steps, config.features - config.samples
    sigma = np.linalg.svd(X, compute_uv=False)
    inverse = 1 / (rate * sigma**2)
    seen = (inverse * (1 - (1 - rate * sigma**2) ** last)).sum()
    right = r"\sum_{i<t}A^i = \sum_i\frac{1 - (1 - \eta\sigma_i^2)^t}{\eta\sigma_i^2}v_iv_i^\top + t\,P_{\ker X}"
    yield claim("series", rf"trace of the sum of the first {last:,} powers of $A = 1 - \eta X^\top X$").erratum(
        (r"\sum_{i\ge0}A^i = (I - A)^\dagger", inverse.sum()),
        (right, seen + last * free),
        data.trace[-1],
        1e-12 * (seen + last * free),
        "rounding",
        where="section 3.1, footnote 2",
        note="$A$ has the eigenvalue 1 on what $X$ does not see, and there the series grows by 1 a term. The limit is "
        r"right because it is applied to $X^\top y$ alone, which has no part there",
    )
    rank = np.linalg.matrix_rank(np.linalg.svd(X)[2][len(X) :])
    yield claim("choice", "dimensions of the solutions of $Xw = y$ that the pseudo-inverse chooses from").erratum(
        (r"\text{overdetermined: }0", 0),
        (r"\text{underdetermined: }d - n", free),
        rank,
        0.0,
        "a count",
        where="section 3.1, after (3.5)",
        note="a system with more equations than unknowns has no choice to make",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, middle, right = sheet.panels(figure, (13, 4.2), 3)
    X, y, rate, path = data.X.values, data.y.values, float(data.rate), data.path.values
    steps = np.unique(np.geomspace(1, config.steps, 40).astype(int))
    v = np.linalg.svd(X, full_matrices=False)[2]
    goal = v @ (np.linalg.pinv(X) @ y)
    exact = weights_after(X, y, rate, steps) @ v.T / goal
    for i in dict.fromkeys((0, len(v) // 2, len(v) - 1)):
        left.plot(steps, (path[steps] @ v[i]) / goal[i], "o", ms=4, color=f"C{i % 10}", label=f"direction {i + 1}")
        sheet.guide(left, steps, exact[:, i], "closed path" if i == 0 else None)
    sheet.label(left, "One direction after the other", "step", "weight over its limit", "best", xscale="log")
    least = np.linalg.pinv(X) @ y
    for name, away in (("in the weights", path - least), ("on the data", path @ X.T - y)):
        size = np.linalg.norm(away, axis=1)
        middle.plot(np.arange(len(size)), np.maximum(size / size[0], 1e-17), label=name)
    slow = np.abs(1 - rate * np.linalg.svd(X, compute_uv=False) ** 2).max()
    sheet.guide(middle, [0, config.steps], [1, max(slow**config.steps, 1e-17)], "slowest direction")
    sheet.label(middle, "To the shortest solution", "step", "distance over the first", "best", yscale="log")
    count = np.arange(1, config.steps + 1)
    right.plot(count, data.trace, label=r"$\mathrm{tr}\,\sum_{i<t}A^i$")
    inverse = (1 / (rate * np.linalg.svd(X, compute_uv=False) ** 2)).sum()
    sheet.mark(right, y=inverse, label=r"printed: $\mathrm{tr}\,(1 - A)^\dagger$")
    sheet.guide(right, count, count * (config.features - config.samples), r"$t\,(d - n)$", ls=":")
    sheet.label(right, "The series does not converge", r"terms $t$", "trace", "best", xscale="log", yscale="log")
