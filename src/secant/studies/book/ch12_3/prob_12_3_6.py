"""Problem 12.3.6: an error is a sum over hybrids, and each replaces one more step by the equation."""

import math

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Seeded, claim, estimate, options, scaled, sheet, study
from secant.studies.shared.numerics.orbits import orbit
from secant.studies.shared.parabolas import skewed, three
from secant.theory.noise.linear_noise import NoisyQuadratic
from secant.theory.noise.weak_error import order, telescoped

START = 3.0
TESTS = {"x": (2, (0, 1)), "x^2": (2, (1, 1)), "x^3": (3, (1, 1, 1))}
"""Test function -> the order of moments that it needs, and its place among them."""


class Config(Seeded):
    lr: float = options.lr(0.1, at_least=0.02, at_most=0.2)
    lrs: tuple[float, ...] = options.lrs(
        (0.02, 0.01, 0.005), at_least=1e-3, at_most=0.02, shortest=2, longest=5, distinct=True
    )
    paths: int = scaled(smoke=20_000, laptop=200_000, at_least=1_000, at_most=10**6, help="runs of each hybrid")

    def check(self) -> None:
        """All runs reach the time 1 in whole steps."""
        if any(abs(round(1 / lr) * lr - 1) > 1e-9 for lr in (self.lr, *self.lrs)):
            raise ValueError(f"lr: every step size must divide 1, got {self.lr} and {self.lrs}.")


def terms(model: NoisyQuadratic, lr: float, test: str) -> np.ndarray:
    r"""Terms of the error at the time 1, with noise of scale $1/\sqrt\eta$."""
    degree, place = TESTS[test]
    g = np.zeros((2,) * degree)
    g[place] = 1
    step, reference = model.sgd(lr, lr**-0.5).lifted(degree), model.diffusion(1.0).lifted(lr, degree)
    z: np.ndarray = np.ones(1)
    for _ in range(degree):
        z = np.kron(z, [1.0, START])
    return telescoped(step, reference, z, g.ravel(), round(1 / lr))


@study("book/prob-12.3.6", section="12.3", title="Hybrids between descent and its equation")
def run(config: Config) -> xr.Dataset:
    r"""Let $\tilde X_k(x, j)$ follow the equation from $x$ at step $j$ to step $k$. Then $|\mathbb Eg(x_k) - \mathbb
    Eg(\tilde X_k)| \le \sum_{j<k}\bigl|\mathbb Eg(\tilde X_k(x_{j+1}, j + 1)) - \mathbb Eg(\tilde X_k(x_j, j))\bigr|$.
    Hybrids take $j$ steps of SGD and then follow the equation; neighbours differ in one step (figure 12.2). The signed
    terms sum to the error itself. Each is $O(\eta^2)$, and there are $1/\eta$ of them.
    """
    random, model, steps = np.random.default_rng(config.seed), three(), round(1 / config.lr)
    sides = {"parabolas": model, "skewed": skewed(2.0, 0.1)}
    table = np.array([[terms(side, config.lr, test) for test in TESTS] for side in sides.values()])
    whole = np.array([[_whole(side, config.lr, test) for test in TESTS] for side in sides.values()])
    # Hybrids take steps with the parabolas' noise, then a draw of the equation's law over the rest of the time.
    x, ends = np.full(config.paths, START), []
    for j in range(steps + 1):
        left = 1 - j * config.lr
        spread = math.sqrt(6 * (1 - math.exp(-4 * left)))
        ends.append(x * math.exp(-2 * left) + spread * random.standard_normal(config.paths))
        noise = random.choice([-6.0, 6.0, 0.0], config.paths)
        x = x - config.lr * (2 * x + noise / math.sqrt(config.lr))
    single = [[np.abs(terms(model, lr, test)).max() for test in ("x", "x^2")] for lr in config.lrs]
    return xr.Dataset(
        {
            "terms": (("model", "test", "step"), table),
            "whole": (("model", "test"), whole),
            "hybrid": (("taken", "path"), np.array(ends)),
            "single": (("lr", "smooth"), single),
        },
        coords={
            "model": list(sides),
            "test": list(TESTS),
            "lr": list(config.lrs),
            "smooth": ["x", "x^2"],
            "taken": np.arange(steps + 1),
        },
    )


def _whole(model: NoisyQuadratic, lr: float, test: str) -> float:
    """The error itself, from moments of SGD and of the equation."""
    found = []
    walk, flow = model.sgd(lr, lr**-0.5), model.diffusion(1.0)
    for law in (walk.moments([START], round(1 / lr), 3), flow.moments([START], 1.0, 3)):
        m, v, k = law.mean.item(), law.covariance.item(), law.third.item()
        found.append({"x": m, "x^2": v + m**2, "x^3": k + 3 * m * v + m**3}[test])
    return found[0] - found[1]


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    for model in data.model.values:
        for test in TESTS:
            row, whole = data.terms.sel(model=model, test=test), float(data.whole.sel(model=model, test=test))
            key, name = f"{model}-{test}", f"{model}, ${test}$"
            yield claim(f"{key}-sum", f"{name}: sum of the terms less the error").zero(
                float(row.sum()) - whole, 1e-10, "rounding"
            )
            sizes = float(np.abs(row).sum()) / abs(whole)
            yield claim(f"{key}-sizes", f"{name}: sum of the terms' sizes over the error").at_least(
                1, sizes, "the triangle inequality, rounding", slack=1e-9
            )
    partial = np.cumsum(data.terms.sel(model="parabolas", test="x").values)
    exact = START * math.exp(-2) + np.concatenate([[0], partial])
    for j in (0, data.sizes["taken"] // 2, data.sizes["taken"] - 1):
        yield claim(f"hybrids-{j}", f"hybrids with {j} steps: mean less the partial sum of the terms").equal(
            0, estimate(data.hybrid.sel(taken=j) - exact[j]), 0, "sampling error alone"
        )
    wide, why = 5 * float(max(config.lrs)), "five times the largest step size"
    for test in ("x", "x^2"):
        found = order(data.lr, data.single.sel(smooth=test)).value
        yield claim(f"order-{test}", f"order of the largest term, ${test}$").equal(2, found, wide, why)


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10.5, 4.2), 2)
    random, steps = np.random.default_rng(3), data.sizes["step"]
    x = orbit(lambda x: x - config.lr * (2 * x + random.choice([-6.0, 6.0, 0.0])), START, steps)
    t = np.arange(steps + 1) * config.lr
    left.plot(t, x, "o-", ms=4, color="C0", label="descent", zorder=3)
    for i, j in enumerate((0, steps // 4, steps // 2, 3 * steps // 4)):
        later, name = np.linspace(t[j], 1, 100), "the equation's mean from there" if not i else None
        sheet.guide(left, later, x[j] * np.exp(-2 * (later - t[j])), name, lw=0.9)
    sheet.label(left, "Hybrids", r"$t = k\eta$", "$x$", "best")
    for i, test in enumerate(("x", "x^2")):
        values = np.abs(data.terms.sel(model="parabolas", test=test))
        right.semilogy(t[1:], values, "o-", ms=4, color=f"C{i}", label=f"${test}$")
    sheet.label(right, "Error of each step, carried to the end", r"$t = k\eta$", None, "best")
