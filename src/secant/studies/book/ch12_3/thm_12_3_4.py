"""Theorem 12.3.4: the equation is an approximation of stochastic gradients of weak order 1."""

import math

import numpy as np
import xarray as xr

from secant.lab import Estimate, Figure, Findings, Seeded, claim, option, options, scaled, sheet, study
from secant.studies.shared.parabolas import three
from secant.theory.noise.linear_noise import NoisyQuadratic
from secant.theory.noise.weak_error import bank, coupled, order, weak_errors

TIMES = (0.25, 0.5, 0.75, 1.0)
"""Times at which errors on the plane are computed."""

START = 3.0
"""Where runs on the parabolas begin."""

PARTS = 8
"""Steps of the fine reference in the smallest step size of a simulation."""

NAMES = {"x": "$x$", "x^2": "$x^2$", "cos": r"$\cos x$", "loss": "the loss", "xy": "$xy$", "|x|^2": "$|x|^2$"}
NAMES |= {"sum of x": r"$\sum_ix_i$"}
"""Test function -> its name in a sentence."""

PANELS = (
    ("parabolas", "test", "lr", "Three parabolas, exact"),
    ("plane", "other", "lr", r"Least squares, $\Sigma(x)$, exact"),
    ("logistic", "third", "coarse", "Logistic regression, simulated"),
)


class Config(Seeded):
    lrs: tuple[float, ...] = options.lrs(
        (0.01, 0.005, 0.0025), at_least=1e-3, at_most=0.02, shortest=2, longest=6, distinct=True
    )
    coarse: tuple[float, ...] = option(
        (0.4, 0.2, 0.1),
        at_least=0.05,
        at_most=0.5,
        shortest=2,
        longest=4,
        distinct=True,
        help="step sizes of the simulation: multiples of the smallest that divide the time 2",
    )
    samples: int = options.samples(12, at_least=6, at_most=40)
    chains: int = scaled(
        smoke=4_000, laptop=20_000, at_least=1_000, at_most=10**5, help="runs on common random numbers, an even number"
    )

    def check(self) -> None:
        """Whole numbers of steps, and pairs of runs."""
        off = lambda number: abs(number - round(number)) > 1e-9  # noqa: E731
        if any(off(0.25 / lr) for lr in self.lrs):
            raise ValueError(f"lrs: every step size must divide 1/4, got {self.lrs}.")
        if any(off(lr / min(self.coarse)) or off(2 / lr) for lr in self.coarse):
            raise ValueError(f"coarse: must be multiples of the smallest that divide 2, got {self.coarse}.")
        if self.chains % 2:
            raise ValueError(f"chains: must be even, got {self.chains}.")


def parabolas(lr: float, steps: int) -> dict[str, float]:
    r"""Errors of test functions on three parabolas in closed form, with noise of scale $1/\sqrt\eta$."""
    model = three()
    walk, mean = model.sgd(lr, lr**-0.5), START * math.exp(-2 * lr * steps)
    variance = 6 * (1 - math.exp(-4 * lr * steps))
    found = walk.moments([START], steps)
    second = found.covariance.item() + found.mean.item() ** 2
    cosine = walk.characteristic([1.0], [START], steps).real
    return {
        "x": found.mean.item() - mean,
        "x^2": second - variance - mean**2,
        "cos": cosine - math.cos(mean) * math.exp(-variance / 2),
        "loss": second - variance - mean**2,
    }


def regression(random: np.random.Generator, samples: int) -> NoisyQuadratic:
    """Least squares in the plane, where the noise depends on the weights."""
    a, b = random.normal(size=(samples, 2)), random.normal(size=samples)
    return NoisyQuadratic(a[:, :, None] * a[:, None] + 0.2 * np.eye(2), b[:, None] * a)


def plane(model: NoisyQuadratic, lr: float, steps: int) -> dict[str, float]:
    """Errors of test functions on the plane, from moments of SGD and of the equation."""
    start = np.array([1.0, -1.0])
    one = model.sgd(lr, (0.05 / lr) ** 0.5).moments(start, steps)
    other = model.diffusion(0.05).moments(start, lr * steps)
    S, T = (m.covariance + np.outer(m.mean, m.mean) for m in (one, other))
    H, h = model.mean_hessian, model.mean_offset
    loss = np.sum(H * (S - T)) / 2 - h @ (one.mean - other.mean)
    return {"x": (one.mean - other.mean)[0], "xy": (S - T)[0, 1], "|x|^2": np.trace(S - T), "loss": loss}


def logistic(random: np.random.Generator, config: Config) -> tuple[np.ndarray, np.ndarray, list[str]]:
    r"""Errors of logistic regression in 5 dimensions with normal noise of covariance $\Sigma(x)$, and their noise."""
    z = random.normal(size=(config.samples, 5)) * random.choice([-1.0, 1.0], (config.samples, 1))
    n = config.samples

    def moved(x: np.ndarray, xi: np.ndarray, lr: float) -> np.ndarray:
        slopes = -1 / (1 + np.exp(x @ z.T))
        weights = (xi - xi.mean(1, keepdims=True)) / math.sqrt(n)  # has the covariance Sigma, without a matrix root
        return x - lr * (slopes @ z / n + 0.2 * x) - 0.5 * math.sqrt(lr) * (slopes * weights) @ z

    every = bank(5, lambda x: np.logaddexp(0, -x @ z.T).mean(-1) + 0.1 * (x**2).sum(-1))
    # All coordinates together: the error of one coordinate may be near zero, and then it has no order.
    tests = {"sum of x": lambda x: x.sum(-1)} | {name: every[name] for name in ("|x|^2", "cos", "loss")}
    # A run and its twin on the opposite noise count as one.
    paired = {name: lambda x, test=test: test(x).reshape(2, -1).mean(0) for name, test in tests.items()}
    smallest = min(config.coarse)
    together = math.lcm(*(round(lr / smallest) for lr in config.coarse))
    blocks = round(2 / smallest)
    at = {lr: np.full((config.chains, 5), 2.0) for lr in config.coarse}
    held = {lr: np.zeros((config.chains, n)) for lr in config.coarse}
    fine = np.full((config.chains, 5), 2.0)
    found = []
    for block in range(1, blocks + 1):
        coarse, parts = (np.concatenate([xi, -xi], -2) for xi in coupled(random, (config.chains // 2, n), PARTS))
        for part in parts:
            fine = moved(fine, part, smallest / PARTS)
        for lr in config.coarse:
            ratio = round(lr / smallest)
            held[lr] += coarse / math.sqrt(ratio)
            if block % ratio == 0:
                at[lr] = moved(at[lr], held[lr], lr)
                held[lr][:] = 0
        if block % together == 0:
            found.append([weak_errors(paired, at[lr], fine) for lr in config.coarse])
    table = np.array([[[tuple(row[name]) for name in tests] for row in rows] for rows in found])
    return *largest(table, int(np.argmax(config.coarse))), list(tests)


def largest(table: np.ndarray, biggest: int) -> tuple[np.ndarray, np.ndarray]:
    """Errors and their noise, each test at the time when its error is largest at the largest step size."""
    when = np.abs(table[:, biggest, :, 0]).argmax(0)
    picked = table[when, :, np.arange(table.shape[2])]
    return picked[..., 0].T, picked[..., 1].T


@study("book/thm-12.3.4", section="12.3", title="The equation is a weak approximation of order 1")
def run(config: Config) -> xr.Dataset:
    r"""For smooth losses and noise of bounded moments and small skewness, SGD with step $\eta$ and $dX = -\nabla f\,dt
    + \sqrt\eta\sigma\Sigma(X)^{1/2}dW$ are weak approximations of order 1. For every test function of polynomial growth
    $\max_k|\mathbb Eg(x_k) - \mathbb Eg(X_{k\eta})| \le C_g\eta$, at fixed $\sqrt\eta\sigma$. A single step is off by
    $O(\eta^2)$, and there are $T/\eta$ of them.
    """
    random = np.random.default_rng(config.seed)
    model = regression(random, config.samples)
    ended = [parabolas(lr, round(1 / lr)) for lr in config.lrs]
    steps = [parabolas(lr, 1) for lr in config.lrs]
    rows = [[plane(model, lr, round(t / lr)) for lr in config.lrs] for t in TIMES]
    exact = np.array([[[(e, 0.0) for e in row.values()] for row in line] for line in rows])
    flat = largest(exact, int(np.argmax(config.lrs)))[0]
    errors, noise, tests = logistic(random, config)
    table = lambda rows: np.array([list(row.values()) for row in rows])  # noqa: E731
    return xr.Dataset(
        {
            "parabolas": (("lr", "test"), table(ended)),
            "single": (("lr", "test"), table(steps)),
            "plane": (("lr", "other"), flat),
            "logistic": (("coarse", "third"), errors),
            "noise": (("coarse", "third"), noise),
        },
        coords={"lr": list(config.lrs), "coarse": list(config.coarse)}
        | {"test": list(ended[0]), "other": list(rows[0][0]), "third": tests},
    )


def short(test: str) -> str:
    """A test function's name in a key."""
    return test.replace("|", "")


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    lr, top = data.lr.values, float(max(config.lrs))
    why = "the next order: five times the largest step size"
    for name, along in (("parabolas", "test"), ("plane", "other")):
        for test in data[along].values:
            found = order(lr, data[name].sel({along: test}).values)
            words = f"{name}: order of the error of {NAMES[test]}"
            yield claim(f"{name}-{short(test)}", words).equal(1, found.value, 5 * top, why)
    why = r"the next order: half of $24\eta$, the variance of a step"
    for test in ("x", "x^2", "cos"):
        found = order(lr, data.single.sel(test=test))
        words = f"one step on parabolas: order of the error of {NAMES[test]}"
        yield claim(f"one-step-{test}", words).equal(2, found.value, 12 * top, why)
    # The reference has the error of its own step size, which is known up to the constant.
    sizes = np.array(config.coarse) - min(config.coarse) / PARTS
    why = "the next order: the largest step size, and the sampling error"
    for test in data.third.values:
        one = data.sel(third=test)
        found = order(sizes, one.logistic, one.noise)
        yield claim(
            f"logistic-{short(test)}",
            f"logistic regression: order of the error of {NAMES[test]}",
            given=np.isfinite(found.value),
            otherwise="fewer than two errors stand out of their noise",
        ).equal(1, Estimate(found.value, found.error), float(max(config.coarse)), why)


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    panels = sheet.panels(figure, (13, 4.2), 3)
    for axes, (name, along, size, title) in zip(panels, PANELS, strict=True):
        rows = data[name].sortby(size)
        for i, test in enumerate(data[along].values):
            if name == "parabolas" and test == "loss":
                continue  # equal to the error of the square
            error = 2 * data.noise.sortby(size).sel(third=test) if name == "logistic" else None
            values = np.abs(rows.sel({along: test}))
            axes.errorbar(rows[size], values, error, fmt="o-", ms=4, color=f"C{i}", label=NAMES[test])
        middle = float(np.abs(rows).max())
        sheet.guide(axes, rows[size], 1.6 * middle * rows[size] / float(rows[size].max()), r"$\propto\eta$")
        sheet.label(axes, title, r"$\eta$", None, "lower right", xscale="log", yscale="log")
    sheet.label(panels[0], y="weak error")
