"""Problem 12.2.4: the equation of stochastic gradients on three parabolas, compared with exact descent."""

import math
from typing import Any

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Seeded, claim, option, options, sheet, study
from secant.studies.shared.parabolas import agree, chains, normal, three
from secant.theory.noise.weak_error import order


class Config(Seeded):
    lrs: tuple[float, ...] = options.lrs(
        (0.1, 0.05, 0.025, 0.0125), above=1e-3, at_most=0.2, shortest=3, longest=6, distinct=True
    )
    start: float = option(3.0, at_least=0.5, at_most=10, help="where all runs begin")
    draws: int = options.draws(20_000, 200_000, at_least=1_000, at_most=10**6)

    def check(self) -> None:
        """All runs end at the time 1."""
        if any(abs(round(1 / lr) * lr - 1) > 1e-9 for lr in self.lrs):
            raise ValueError(f"lrs: every step size must divide 1, got {self.lrs}.")


@study("book/prob-12.2.4", section="12.2", title="Three parabolas: the precise equation")
def run(config: Config) -> xr.Dataset:
    r"""On $f = x^2 + 9$ with samples $(x - 3)^2$, $(x + 3)^2$ and $x^2 + 9$ the gradients are $2x + \{-6, 6, 0\}$, with
    covariance 24. The equation is $dX = -2X\,dt + \sqrt{24\eta}\,dW$: mean $x_0e^{-2t}$, variance $6\eta(1 -
    e^{-4t})$. Descent itself has mean $x_0(1 - 2\eta)^k$ and variance $\frac{6\eta}{1 - \eta}(1 - (1 -
    2\eta)^{2k})$. With the noise held fixed, both laws differ by a multiple of $\eta$ at the time 1. In the mean
    this difference is $2e^{-2}x_0\eta$.
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
        yield claim(name, f"{name.replace('_', ': ')}, recursion of moments less the formula").zero(
            np.abs(data[name] - values).max(), 1e-11, "rounding of matrix powers and exponentials"
        )
    top = int(np.argmax(lr))
    runs = rf"runs at $\eta = {lr[top]:g}$"
    yield from agree("runs", runs, data.x, exact["mean"][top], exact["variance"][top])
    apart = (data.equation_mean - data["mean"]).values / lr
    (small, smaller) = np.argsort(lr)[:2][::-1]
    # Two step sizes give the limit up to the next order but one.
    ended = (apart[smaller] * lr[small] - apart[small] * lr[smaller]) / (lr[small] - lr[smaller])
    next_order = 8 * float(lr[small] * lr[smaller])
    yield claim("limit", r"error of the mean over $\eta$, in the limit, over $2e^{-2}x_0$").equal(
        1, ended / limit, next_order, r"the next orders of $(1 - 2\eta)^{1/\eta}$: $2\eta^2$, twice"
    )
    noisy = 6 * (1 - math.exp(-4))
    for name, errors in (("mean", apart * lr), ("variance", data.fixed_variance.values - noisy)):
        yield claim(f"order-{name}", f"noise held fixed: order of the error of the {name}").equal(
            1, order(lr, errors).value, 2 * float(lr.max()), r"the next order: the curvature 2 times $\eta$"
        )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10.5, 4.2), 2)
    one, spread = data.sel(lr=data.lr.max()), 4 * math.sqrt(float(data.variance.max()))
    middle = float(one["mean"])
    bins, places = (np.linspace(middle - spread, middle + spread, n) for n in (70, 300))
    left.hist(data.x, bins, density=True, color="C0", alpha=0.4, label=rf"descent, $\eta = {float(one.lr):g}$")
    own: dict[str, Any] = {"label": "its own moments", "color": "C0"}
    other: dict[str, Any] = {"label": "the equation", "color": "C1", "ls": "-"}
    sheet.guide(left, places, normal(places, middle, float(one.variance)), **own)
    sheet.guide(left, places, normal(places, float(one.equation_mean), float(one.equation_variance)), **other)
    sheet.label(left, "Where runs are at the time 1", "$x$", "density", "upper right")
    rows = data.sortby("lr")
    right.loglog(rows.lr, rows.equation_mean - rows["mean"], "o-", label="mean")
    right.loglog(rows.lr, rows.fixed_variance - 6 * (1 - math.exp(-4)), "s-", label="variance")
    sheet.guide(right, rows.lr, 2 * math.exp(-2) * config.start * rows.lr, r"$2e^{-2}x_0\eta$")
    sheet.label(right, "Error of the equation, noise held fixed", r"$\eta$", "difference", "upper left")
