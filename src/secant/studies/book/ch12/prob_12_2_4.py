"""Problem 12.2.4: the equation of stochastic gradients on three parabolas, against the exact descent."""

import math

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Seeded, claim, estimate, option, options, sheet, study
from secant.studies.shared.parabolas import chains, three
from secant.theory.noise.weak_error import order


class Config(Seeded):
    lrs: tuple[float, ...] = options.lrs(
        (0.1, 0.05, 0.025, 0.0125), above=1e-3, at_most=0.2, shortest=3, longest=6, distinct=True
    )
    start: float = option(3.0, at_least=0.5, at_most=10, help="where all runs begin")
    draws: int = options.draws(20_000, 200_000, at_least=1_000, at_most=10**6)

    def check(self) -> None:
        """All end at the time 1."""
        if any(abs(round(1 / lr) * lr - 1) > 1e-9 for lr in self.lrs):
            raise ValueError(f"lrs: every step size must divide 1, got {self.lrs}.")


@study("book/prob-12.2.4", section="12.2", title="Three parabolas: the precise equation")
def run(config: Config) -> xr.Dataset:
    r"""On $f = x^2 + 9$ with samples $(x - 3)^2$, $(x + 3)^2$ and $x^2 + 9$ the gradients are $2x + \{-6, 6, 0\}$, of
    covariance 24. The equation is $dX = -2X\,dt + \sqrt{24\eta}\,dW$: mean $x_0e^{-2t}$, variance $6\eta(1 -
    e^{-4t})$. Descent itself has mean $x_0(1 - 2\eta)^k$ and variance $\frac{6\eta}{1 - \eta}(1 - (1 -
    2\eta)^{2k})$. With the noise held fixed the two differ by a multiple of $\eta$ at the time 1: $2e^{-2}x_0\eta$
    in the mean.
    """
    model, random = three(), np.random.default_rng(config.seed)
    rows = []
    for lr in config.lrs:
        k = round(1 / lr)
        steps, equation = model.sgd(lr).moments([config.start], k), model.diffusion(lr).moments([config.start], 1.0)
        fixed = model.sgd(lr, lr**-0.5).moments([config.start], k)
        rows.append([steps.mean, steps.covariance, equation.mean, equation.covariance, fixed.covariance])
    table = np.array([[value.item() for value in row] for row in rows])
    lr = max(config.lrs)
    names = ("mean", "variance", "equation_mean", "equation_variance", "fixed_variance")
    return xr.Dataset(
        {name: ("lr", table[:, i]) for i, name in enumerate(names)}
        | {"x": ("draw", chains(random, (config.draws,), model, lr, round(1 / lr), config.start))},
        coords={"lr": list(config.lrs)},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    lr, start, limit = data.lr.values, config.start, 2 * math.exp(-2) * config.start
    k = np.round(1 / lr)
    exact = {
        "mean": start * (1 - 2 * lr) ** k,
        "variance": 6 * lr / (1 - lr) * (1 - (1 - 2 * lr) ** (2 * k)),
        "equation_mean": start * math.exp(-2) + 0 * lr,
        "equation_variance": 6 * lr * (1 - math.exp(-4)),
    }
    for name, values in exact.items():
        yield claim(
            f"{name.replace('_', ': ')}-recursion-moments-less",
            f"{name.replace('_', ': ')}, recursion of moments less the formula",
        ).zero(np.abs(data[name] - values).max(), 1e-11, "rounding of matrix powers and exponentials")
    top, x = int(np.argmax(lr)), data.x
    yield claim(f"runs-eta-{lr[top]:g}-mean", f"runs at eta = {lr[top]:g}: mean less the formula").equal(
        0, estimate(x - exact["mean"][top]), 0, "sampling error alone"
    )
    yield claim(f"runs-eta-{lr[top]:g}-variance", f"runs at eta = {lr[top]:g}: variance over the formula").equal(
        1, estimate((x - exact["mean"][top]) ** 2 / exact["variance"][top]), 0, "sampling error alone"
    )
    apart = (data.equation_mean - data["mean"]).values / lr
    (small, smaller) = np.argsort(lr)[:2][::-1]
    # Two step sizes give the limit up to the next order but one.
    ended = (apart[smaller] * lr[small] - apart[small] * lr[smaller]) / (lr[small] - lr[smaller])
    yield claim("error-mean-eta", "error of the mean over eta, in the limit, over 2 exp(-2) x_0").equal(
        1,
        ended / limit,
        8 * float(lr[small] * lr[smaller]),
        "the next orders of (1 - 2 eta)^(1/eta): 2 eta squared, twice",
    )
    noisy = 6 * (1 - math.exp(-4))
    for name, errors in (("mean", apart * lr), ("variance", data.fixed_variance.values - noisy)):
        found = order(lr, errors)
        yield claim(f"noise-held-fixed-{name}", f"noise held fixed: order of the error of the {name}").equal(
            1, found.value, 2 * float(lr.max()), "the next order in the curvature 2 times eta"
        )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10.5, 4.2), 2)
    lr, spread = float(data.lr.max()), 4 * math.sqrt(float(data.variance.max()))
    middle = float(data["mean"].sel(lr=lr))
    left.hist(
        data.x,
        np.linspace(middle - spread, middle + spread, 70),
        density=True,
        color="C0",
        alpha=0.4,
        label=f"descent, eta = {lr:g}".replace("eta", r"$\eta$"),
    )
    places = np.linspace(middle - spread, middle + spread, 300)
    for name, (mean, variance) in {
        "its own moments": (middle, float(data.variance.sel(lr=lr))),
        "the equation": (float(data.equation_mean.sel(lr=lr)), float(data.equation_variance.sel(lr=lr))),
    }.items():
        law = np.exp(-((places - mean) ** 2) / (2 * variance)) / math.sqrt(2 * math.pi * variance)
        sheet.guide(left, places, law, name, ls="--" if "own" in name else "-", color="C0" if "own" in name else "C1")
    sheet.label(left, "Where runs are at the time 1", "$x$", "density", "upper right")
    order_ = np.sort(data.lr.values)
    sorted_ = data.sel(lr=order_)
    right.loglog(order_, sorted_.equation_mean - sorted_["mean"], "o-", label="mean")
    right.loglog(order_, sorted_.fixed_variance - 6 * (1 - math.exp(-4)), "s-", label="variance")
    sheet.guide(right, order_, 2 * math.exp(-2) * config.start * order_, r"$2e^{-2}x_0\eta$")
    sheet.label(right, "Error of the equation, noise held fixed", r"$\eta$", "difference", "upper left")
