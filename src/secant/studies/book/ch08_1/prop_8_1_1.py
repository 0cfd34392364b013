"""Proposition 8.1.1: gradient descent ends in the solution nearest to where it began."""

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, claim, option, options, scaled, sheet, study
from secant.studies.shared import real

RUNS = ("constant steps", "falling steps", "random steps", "one sample at a time", "log cosh loss")


class Config(real.Chosen):
    data: str = scaled(smoke="random", laptop="usps", help="random, or a data set that secant.data knows")
    classes: tuple[int, int] = option((3, 5), at_least=0, distinct=True, help="two classes of it, +1 and -1")
    samples: int = options.samples(5, 10, at_most=20)
    features: int = options.features(12, at_least=2, at_most=100)
    steps: int = options.steps(1_500, 20_000, at_least=300, at_most=10**5)

    def check(self) -> None:
        """There are solutions to choose from, and every run reaches one, also with one sample at a time."""
        super().check()
        if self.samples >= self.features:
            raise ValueError(f"samples: fewer than the {self.features} features, got {self.samples}.")
        if self.steps < 300 * self.samples:
            raise ValueError(f"steps: at least 300 a sample, {300 * self.samples}, got {self.steps}.")


def descend(kind: str, X: np.ndarray, y: np.ndarray, w: np.ndarray, kept: np.ndarray, rng: np.random.Generator) -> dict:
    r"""One run on $\sum_i r_i^2$, whose gradient is $2X^\top r$, or on $2\sum_i\log\cosh r_i$, with a proof's sums.

    The path holds the weights after the steps in `kept`. The last of these ends the run.
    """
    steps, places = int(kept[-1]), set(kept.tolist())
    top = np.linalg.norm(X, 2) ** 2
    path, gradients, iterates = [], np.zeros_like(w), np.zeros_like(w)
    for t in range(steps):
        rate, r = 0.5 / top, X @ w - y
        if kind == "falling steps":
            rate = 0.9 / top / (1 + t / steps) ** 0.5
        elif kind == "random steps":
            rate = rng.uniform(0, 1) / top
        elif kind == "one sample at a time":
            chosen = np.arange(len(y)) == rng.integers(len(y))
            r, rate = r * chosen, 0.5 / (X[chosen] ** 2).sum()
        gradient = 2 * X.T @ (np.tanh(r) if kind == "log cosh loss" else r)
        gradients, iterates = gradients + rate * gradient, iterates + rate * w
        w = w - rate * gradient
        if t + 1 in places:
            path.append(w)
    return {"path": np.stack(path), "gradients": gradients, "iterates": iterates}


@study("book/prop-8.1.1", section="8.1", title="Gradient descent ends in the nearest solution")
def run(config: Config) -> xr.Dataset:
    r"""With fewer samples than weights $L(w) = \sum_i(w\cdot x_i - y_i)^2$ has many minima, all $w$ with $Xw = y$.
    Gradient descent from $w_0$, with any schedule of step sizes that brings $L$ to zero, ends in
    $\operatorname{argmin}_{Xw = y}\|w - w_0\|_2 = w_0 + X^\dagger(y - Xw_0)$, because it never leaves $w_0 +
    \operatorname{span}(x_1, \dots, x_n)$. Gradient descent on one sample at a time ends there too, and so does gradient
    descent on any loss of $w\cdot x_i$ with one finite root.
    """
    rng = np.random.default_rng(config.seed)
    if config.data == real.RANDOM:
        left, _, right = np.linalg.svd(rng.normal(size=(config.samples, config.features)), full_matrices=False)
        X = left * np.linspace(1, 2, config.samples) @ right  # singular values from 1 to 2: all runs converge in time
        y, start, other = rng.normal(size=config.samples), *rng.normal(size=(2, config.features))
    else:
        X, y = real.few(config.data, config.classes, config.samples, rng)
        start, other = rng.normal(size=(2, X.shape[1]))
    every = np.unique(np.geomspace(1, config.steps, 60).astype(int))
    runs = [descend(kind, X, y, start, every, rng) for kind in RUNS]
    second = descend(RUNS[0], X, y, other, every[-1:], rng)
    here, early = X @ start - y, config.steps // 100
    short = descend(RUNS[0], X, y, start, np.array([early]), rng)
    along = runs[0]["gradients"] / np.linalg.norm(runs[0]["gradients"])
    moved = [((X @ (start + s * along) - y) ** 2).sum() for s in (0.5, -0.5)]
    return xr.Dataset(
        {
            "X": (("sample", "feature"), X),
            "y": ("sample", y),
            "start": ("feature", start),
            "other": ("feature", other),
            "path": (("run", "step", "feature"), np.stack([r["path"] for r in runs])),
            "end": (("run", "feature"), np.stack([r["path"][-1] for r in runs])),
            "second": ("feature", second["path"][-1]),
            "moved": np.linalg.norm(short["path"][-1] - start),
            "of_gradients": np.linalg.norm(short["gradients"]),
            "of_iterates": np.linalg.norm(short["iterates"]),
            "slope": moved[0] - moved[1],
            "half_slope": here @ X @ along,
        },
        coords={"run": list(RUNS), "step": every},
    )


def closest(data: xr.Dataset) -> np.ndarray:
    """The solution nearest to the start."""
    X, start = data.X.values, data.start.values
    return start + np.linalg.pinv(X) @ (data.y.values - X @ start)


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    X, y, start, nearest = data.X.values, data.y.values, data.start.values, closest(data)
    size, least = np.linalg.norm(nearest - start), np.linalg.norm(X, -2)
    spare = np.linalg.svd(X)[2][config.samples :]
    rounding = 1e-15 * config.steps * max(float(size), 1.0)
    note = r"on random data an error falls by $1 - 1/4n$ a step on average or faster, with $n$ samples"
    for kind, w in zip(RUNS, data.end.values, strict=True):
        left = np.linalg.norm(X @ w - y)
        why = "what is left of the residual over the least singular value, and rounding"
        yield claim(f"end-{kind}", f"{kind}: distance of the end from the nearest solution").zero(
            np.linalg.norm(w - nearest), left / least + rounding, why
        )
        yield claim(f"residual-{kind}", f"{kind}: residual at the end").at_most(
            1e-9 * np.linalg.norm(y - X @ start), left, "it is a solution", note=note
        )
    yield claim("span", "part of the way that is outside of the span of the data, all runs").zero(
        np.linalg.norm((data.path.values - start) @ spare.T, axis=-1).max(), rounding, "rounding of the steps"
    )
    between = np.linalg.norm(spare @ (start - data.other.values))
    lefts = np.linalg.norm(X @ data.end[0].values - y) + np.linalg.norm(X @ data.second.values - y)
    apart, room = np.linalg.norm(data.second - data.end[0]) / between, 2 * lefts / least / between + rounding
    yield claim("starts", "two starts: distance between their ends over that of the starts off the span").equal(
        1.0, apart, room, "what is left of the residuals, and rounding"
    )
    where, note = "proof of proposition 8.1.1", "the sum is over gradients, which lie in the span of the data"
    printed = r"\|\sum_{t' < t}\eta w_{t'}\|", float(data.of_iterates)
    corrected = r"\|-\sum_{t' < t}\eta\nabla L(w_{t'})\|", float(data.of_gradients)
    yield claim("way", f"length of the way of {config.steps // 100} steps").erratum(
        printed, corrected, float(data.moved), rounding, "rounding", where=where, note=note
    )
    half, note = float(data.half_slope), "the square's factor is lost; nothing in the proof depends on it"
    printed, corrected = (r"\sum_i(w\cdot x_i - y_i)\,x_i", half), (r"2\sum_i(w\cdot x_i - y_i)\,x_i", 2 * half)
    why, near = (
        "rounding: the central difference of a quadratic is its derivative",
        1e-11 * (1 + abs(half)) * len(start),
    )
    yield claim("slope", "slope of the loss at the start, along the way of the run").erratum(
        printed, corrected, float(data.slope), near, why, where=where, note=note
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (11, 4.2), 2)
    start, nearest = data.start.values, closest(data)
    size = np.linalg.norm(nearest - start)
    # One direction of the span, and one that no sample sees.
    plane = np.stack([(nearest - start) / size, np.linalg.svd(data.X.values)[2][-1]])
    for k, kind in enumerate(RUNS):
        error = np.maximum(np.linalg.norm(data.path[k] - nearest, axis=1), 1e-17)
        left.loglog(data.step, error, color=f"C{k}", label=kind)
        right.plot(*plane @ (data.path[k].values - start).T, "o-", lw=0.8, ms=4, color=f"C{k}")
    sheet.label(left, "Distance from the nearest solution", "step", None, "best")
    right.plot(*plane @ (nearest - start)[:, None], "*", ms=15, color=sheet.ink(), label="nearest solution")
    sheet.mark(right, x=[size])
    right.text(size * 0.97, size * 0.3, "other solutions", rotation=90, ha="right", color=sheet.ink())
    right.set_ylim(-0.5 * size, size)
    sheet.label(right, "No step leaves the span of the data", "along the way to it", "off the span", "upper left")
