"""Section 2.2: stochastic gradient descent follows gradient descent as its steps get small."""

import numpy as np
import xarray as xr
from scipy import integrate

from secant import lab
from secant.lab import Figure, Findings, Seeded, bootstrap, claim, estimate, option, options, scaled, sheet, study
from secant.studies.shared.numerics.exponents import rate as exponent_of
from secant.studies.shared.numerics.orbits import orbit

FINE = (500, 1_000)
"""Steps at which only the exact spread is computed."""

LEAST = 0.36
"""The least eigenvalue, where the largest is 1. With it a long run settles."""


class Config(Seeded):
    features: int = options.features(4, at_least=2, at_most=6)
    samples: int = options.samples(20, at_least=8, at_most=1_000)
    steps: tuple[int, ...] = options.steps(
        (30, 60, 120, 240), at_least=5, at_most=2_000, ascending=True, shortest=2, longest=8
    )
    batches: tuple[int, ...] = options.batches((1, 4), at_most=64, ascending=True, shortest=2, longest=5)
    time: float = option(2.0, at_least=0.5, at_most=5, help="step size times steps times the largest eigenvalue")
    late: int = scaled(smoke=300, laptop=4_000, at_least=50, at_most=20_000, help="steps of a run at one step size")
    eta_lambda: float = options.eta_lambda(0.06, at_least=0.02, at_most=0.1)
    draws: int = options.draws(400, 10_000, at_least=100, at_most=10**5)

    def check(self) -> None:
        """Steps whose spread stays finite, and runs that fit into memory."""
        if self.samples < 4 * self.features:
            raise ValueError(f"samples: {self.features} features need {4 * self.features}, got {self.samples}.")
        if self.time > 0.1 * self.steps[0]:
            needed = int(np.ceil(10 * self.time))
            raise ValueError(f"steps: a time of {self.time:g} needs {needed} or more, got {self.steps[0]}.")
        lab.fits_memory(100.0 * self.draws * max(self.batches) * self.features, "draws or batches")


class Problem:
    r"""Linear regression, $f_i = \frac12(x_i\cdot w - y_i)^2$, in units in which the largest eigenvalue of $A$ is 1."""

    def __init__(self, config: Config, rng: np.random.Generator) -> None:
        x = rng.normal(size=(config.samples, config.features))
        x, _ = np.linalg.qr(x)
        x = x * np.linspace(1, LEAST**0.5, config.features)
        self.x = x * np.sqrt(config.samples)
        self.y = self.x @ rng.normal(size=config.features) + rng.normal(size=config.samples)
        self.A = self.x.T @ self.x / config.samples
        self.least = np.linalg.solve(self.A, self.x.T @ self.y / config.samples)
        self.start = np.zeros(config.features)

    def sgd(self, rng: np.random.Generator, rate: float, batch: int, steps: int, draws: int, bent: bool) -> np.ndarray:
        """The ends of many runs; a bent output gives the gradients of a logistic loss."""
        w = np.tile(self.start, (draws, 1))
        for _ in range(steps):
            seen = rng.integers(len(self.x), size=(draws, batch))
            w = w - rate * self.slopes(w[:, None], self.x[seen], self.y[seen], bent).mean(1)
        return w

    def gd(self, rate: float, steps: int, bent: bool) -> np.ndarray:
        """The path of gradient descent."""
        step = lambda w: w - rate * self.slopes(w[None], self.x, self.y, bent).mean(0)  # noqa: E731
        return np.stack(orbit(step, self.start, steps))

    @staticmethod
    def slopes(w: np.ndarray, x: np.ndarray, y: np.ndarray, bent: bool) -> np.ndarray:
        """The gradient of every sample."""
        out = (w * x).sum(-1)
        residual = 1 / (1 + np.exp(-out)) - (y > 0) if bent else out - y
        return residual[..., None] * x

    def noise(self, w: np.ndarray) -> np.ndarray:
        """The covariance of the gradient of one sample."""
        g = self.slopes(w[None], self.x, self.y, False)
        return np.cov(g.T, bias=True)

    def covariance(self, rate: float, batch: int, steps: int) -> np.ndarray:
        r"""The exact covariance of the weights after so many steps.

        $C_{t+1} = (1 - \eta A)C_t(1 - \eta A) + \frac{\eta^2}B\big(\Sigma(\bar w_t) + \overline{x_ix_i^\top C_t
        x_ix_i^\top} - AC_tA\big)$, with $\Sigma$ the covariance of a sample's gradient and $\bar w_t$ gradient descent.
        """
        C, keep = np.zeros_like(self.A), np.eye(len(self.A)) - rate * self.A
        for w in self.gd(rate, steps, False)[:-1]:
            spread = np.einsum("ni,nj,n->ij", self.x, self.x, np.einsum("ni,ij,nj->n", self.x, C, self.x)) / len(self.x)
            C = keep @ C @ keep + rate**2 / batch * (self.noise(w) + spread - self.A @ C @ self.A)
        return C

    def limit(self, time: float) -> float:
        r"""Trace of $\lim_{\eta\to0}BC/\eta$: $\dot C = \Sigma(\bar w) - AC - CA$ along gradient flow."""
        values, basis = np.linalg.eigh(self.A)

        def field(t: float, flat: np.ndarray) -> np.ndarray:
            C = flat.reshape(self.A.shape)
            w = self.least + basis @ (np.exp(-values * t) * (basis.T @ (self.start - self.least)))
            return (self.noise(w) - self.A @ C - C @ self.A).ravel()

        found = integrate.solve_ivp(field, (0, time), np.zeros(self.A.size), rtol=1e-8, atol=1e-10, method="DOP853")
        return float(np.trace(found.y[:, -1].reshape(self.A.shape)))


@study("book/sec-2.2", section="2.2", title="SGD follows gradient descent as steps get small")
def run(config: Config) -> xr.Dataset:
    r"""Stochastic gradient descent is $w_{t+1} = w_t - \eta\,\frac1B\sum_{k\le B}\nabla f_{i_k}(w_t)$ with $i_k$ drawn
    uniformly. For small $\eta$ the method behaves like gradient descent. For larger $\eta$ it is a noisy version of
    gradient descent, and smaller batches are noisier: at the same time $\eta t$ the mean square of their distance is
    proportional to $\eta/B$. At a fixed step size SGD does not arrive at the minimum, but stays around it.
    """
    rng = np.random.default_rng(config.seed)
    problem = Problem(config, rng)
    exact, sides = [], []
    square: list[np.ndarray] = []
    plane: list[np.ndarray] = []
    for batch in config.batches:
        for steps in config.steps:
            rate = config.time / steps
            for bent in (False, True):
                ends = problem.sgd(rng, rate, batch, steps, config.draws, bent) - problem.gd(rate, steps, bent)[-1]
                (plane if bent else square).append((ends**2).sum(1))
                if not bent:
                    sides.append(ends.sum(1))
            exact.append(np.trace(problem.covariance(rate, batch, steps)))
    shape = (len(config.batches), len(config.steps))
    late = problem.sgd(rng, config.eta_lambda, 1, config.late, config.draws, False) - problem.least
    slow = problem.gd(config.eta_lambda, config.late, False)[-1] - problem.least
    fine = [np.trace(problem.covariance(config.time / s, 1, s)) * s / config.time for s in FINE]
    one = []  # two single runs, for the figure
    for steps in (config.steps[0], config.steps[-1]):
        one.append(problem.start)
        for seen in rng.integers(config.samples, size=steps):
            one.append(one[-1] - config.time / steps * problem.slopes(one[-1], problem.x[seen], problem.y[seen], False))
    dims = ("batch", "steps", "draw")
    return xr.Dataset(
        {
            "square": (dims, np.reshape(square, (*shape, -1))),
            "bent": (dims, np.reshape(plane, (*shape, -1))),
            "side": (dims, np.reshape(sides, (*shape, -1))),
            "exact": (dims[:2], np.reshape(exact, shape)),
            "fine": fine,
            "limit": problem.limit(config.time),
            "late": ("draw", (late @ problem.A * late).sum(1) / 2),
            "late_gd": float(slow @ problem.A @ slow / 2),
            "floor": float(np.trace(problem.A @ problem.covariance(config.eta_lambda, 1, config.late)) / 2),
            "first": float(problem.least @ problem.A @ problem.least / 2),
            "path": (("point", "feature"), np.stack(one)),
            "gd": (("tick", "feature"), problem.gd(config.time / 200, 200, False)),
        },
        coords={"batch": list(config.batches), "steps": list(config.steps)},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    rates, sizes = config.time / data.steps.values, data.batch.values
    ratio = (data.square / data.exact).values
    aside = estimate((data.side / data.side.std("draw")).mean(("batch", "steps")))
    sentence = "mean distance of SGD from GD along $(1, ..., 1)$, over its standard deviation, mean of all cells"
    yield claim("mean-distance", sentence).zero(aside, 0, "exact in the mean")
    for b, size in enumerate(sizes):
        sentence = f"batches of {size}: mean square of the distance over its exact value, mean of all step sizes"
        yield claim(f"square-{size}", sentence).equal(1.0, estimate(ratio[b].mean(0)), 0, "exact in the mean")

    def exponent(values: np.ndarray, at: np.ndarray, root: int = 1) -> lab.Estimate:
        return bootstrap(lambda kept: exponent_of(at, values[:, kept].mean(1)) / root, config.draws)[0]

    yield claim("rate-exponent", "exponent of the step size in the mean square of the distance").equal(
        exponent_of(rates, data.exact.values[0]),
        exponent(data.square.values[0], rates),
        0,
        "exact at these step sizes",
        note="1 as the step size goes to 0",
    )
    yield claim("batch-exponent", "exponent of the batch size in the mean square, at the smallest step").equal(
        exponent_of(sizes, data.exact.values[:, -1]),
        exponent(data.square.values[:, -1], sizes),
        0,
        "exact at this step size",
        note="-1 as the step size goes to 0",
    )
    first, second = data.fine.values
    limit, order = float(data.limit), config.time * config.features / FINE[0]
    sentence = "exact mean square over the step size, extrapolated to step size 0, over the limit"
    yield claim("limit", sentence).equal(1.0, (2 * second - first) / limit, order, "less than its first order")
    ratio = abs((first - limit) / (second - limit) - 2)
    yield claim(
        "limit-order", "exact mean square: distance from the limit at 500 steps over that at 1,000, from 2"
    ).at_most(order, ratio, "first order in the step size, up to the next")
    yield claim("logistic-exponent", "logistic loss: exponent of the step size in the root mean square").equal(
        0.5, exponent(data.bent.values[0], rates, root=2), rates.max(), "the next order is linear in the step size"
    )
    sentence = f"loss above the least after {config.late:,} steps at one step size, over its exact value"
    yield claim("floor", sentence).equal(1.0, estimate(data.late / float(data.floor)), 0, "exact in the mean")
    left = (1 - LEAST * config.eta_lambda) ** (2 * config.late)
    yield claim("floor-gd", "gradient descent: loss above the least after as many steps, over the first").at_most(
        left, data.late_gd / data.first, "what the least eigenvalue leaves of it, up to rounding", slack=1e-28
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (11, 4.4), 2)
    few = config.steps[0] + 1
    for i, (part, count) in enumerate(((slice(None, few), config.steps[0]), (slice(few, None), config.steps[-1]))):
        left.plot(data.path[part, 0], data.path[part, 1], ".-", color=f"C{i}", ms=4, lw=1, label=f"SGD, {count} steps")
    sheet.guide(left, data.gd[:, 0], data.gd[:, 1], "gradient descent")
    sheet.label(left, "One sample a step, to the same time", "$w_1$", "$w_2$", "best")
    rates = config.time / data.steps.values
    for i, size in enumerate(data.batch.values):
        right.plot(rates, data.square.sel(batch=size).mean("draw"), "o", color=f"C{i}", label=f"batches of {size}")
        sheet.guide(right, rates, data.exact.sel(batch=size), "exact" if i == 0 else None)
    sheet.label(
        right, "Distance from gradient descent", r"$\eta\lambda_1$", "mean square", "best", xscale="log", yscale="log"
    )
    right.set_xticks(rates, [f"{rate:.2g}" for rate in rates])
    right.set_xticks([], minor=True)
