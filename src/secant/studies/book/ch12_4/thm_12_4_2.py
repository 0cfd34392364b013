r"""Theorem 12.4.2: with amplified noise descent tends to its equation like $1/\ell$, at a fixed step size."""

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Seeded, claim, option, options, sheet, study
from secant.optim import amplifiers
from secant.studies.shared.parabolas import agree, skewed, three
from secant.theory.noise.weak_error import order


class Config(Seeded):
    lr: float = options.lr(0.2, at_least=0.05, at_most=0.25)
    start: float = option(3.0, at_least=0.5, at_most=10, help="where all runs begin")
    amplify: tuple[int, ...] = option(
        (1, 2, 4, 8, 16, 32),
        at_least=1,
        at_most=512,
        shortest=3,
        longest=10,
        ascending=True,
        help="amplifications, up to 16 at least",
    )
    draws: int = options.draws(20_000, 100_000, at_least=1_000, at_most=10**5)

    def check(self) -> None:
        """Whole numbers of steps, and three large amplifications for the exponent."""
        if abs(round(1 / self.lr) * self.lr - 1) > 1e-9:
            raise ValueError(f"lr: must divide 1, got {self.lr}.")
        if self.amplify[-3] < 4 or self.amplify[-1] < 16:
            raise ValueError(f"amplify: the last three must run from at least 4 to at least 16, got {self.amplify}.")


@study("book/thm-12.4.2", section="12.4", title="Amplified noise tends to the equation")
def run(config: Config) -> xr.Dataset:
    r"""SVAG with amplification $\ell$ is a weak approximation of SGD's equation, $|\mathbb Eg(x_k) - \mathbb
    Eg(X_{k\eta/\ell})| \le C_g\eta/\ell$, without a condition on the skewness of the noise. On three parabolas at $\eta
    = 0.2$ the mean at the time 1 goes from 0.23328 at $\ell = 1$ to 0.40092 at 32, while the equation has 0.40601. The
    stationary variance is $6\eta/(1 - \eta/\ell)$.
    """
    model, lean, random = three(), skewed(2.0, 0.1), np.random.default_rng(config.seed)
    steps = round(1 / config.lr)
    rows, third = [], []
    for ell in config.amplify:
        found = model.svag(config.lr, ell).moments([config.start], steps * ell)
        law = model.svag(config.lr, ell).stationary()
        rows.append([found.mean.item(), found.covariance.item(), law.covariance.item()])
        third.append(lean.svag(config.lr, ell).moments([config.start], steps * ell, 3).third.item())
    equation = model.diffusion(config.lr).moments([config.start], 1.0)
    ell = 4
    a, b = amplifiers(ell)
    x, offsets = np.full(config.draws, config.start), np.array([-6.0, 6.0, 0.0])
    for _ in range(steps * ell):
        noise = a * random.choice(offsets, config.draws) + b * random.choice(offsets, config.draws)
        x = x - config.lr / ell * (2 * x + noise)
    table = np.array(rows)
    return xr.Dataset(
        {
            "mean": ("amplify", table[:, 0]),
            "variance": ("amplify", table[:, 1]),
            "stationary": ("amplify", table[:, 2]),
            "third": ("amplify", third),
            "x": ("draw", x),
            "equation_mean": equation.mean.item(),
            "equation_variance": equation.covariance.item(),
        },
        coords={"amplify": list(config.amplify)},
    )


def distances(data: xr.Dataset) -> list[tuple[str, str, xr.DataArray]]:
    """Short name, name and size of each distance to the equation."""
    return [
        ("mean", "mean", data["mean"] - data.equation_mean),
        ("variance", "variance", data.variance - data.equation_variance),
        ("third", "third cumulant, skewed noise", data.third),
    ]


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    ell, lr, start = data.amplify.values, config.lr, config.start
    rho, k = 1 - 2 * lr / ell, np.round(1 / lr) * ell
    yield claim("mean", r"mean less $x_0(1 - 2\eta/\ell)^k$, over $x_0$").zero(
        np.abs(data["mean"] - start * rho**k).max() / start, 1e-11, "rounding"
    )
    exact = 6 * lr / (1 - lr / ell)
    yield claim("variance", "variance less its formula, over the formula").zero(
        np.abs(data.variance / (exact * (1 - rho ** (2 * k))) - 1).max(), 1e-10, "rounding"
    )
    yield claim("stationary", r"stationary variance less $6\eta/(1 - \eta/\ell)$, over it").zero(
        np.abs(data.stationary / exact - 1).max(), 1e-10, "rounding"
    )
    late, wide = slice(-3, None), 4 * lr / float(ell[-3]) + 1 / float(ell[-3])
    why = r"the next order: four times the step size at the third largest $\ell$, and $1/\ell$"
    for key, name, errors in distances(data):
        found = order(ell[late], errors[late]).value
        yield claim(f"order-{key}", rf"order of the error in $\ell$: {name}").equal(-1, found, wide, why)
    four = 1 - 2 * lr / 4
    mean = start * four ** (4 * round(1 / lr))
    spread = 6 * lr / (1 - lr / 4) * (1 - four ** (8 * round(1 / lr)))
    yield from agree("runs", r"runs at $\ell = 4$", data.x, mean, spread)


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10.5, 4.2), 2)
    ell = data.amplify.values
    left.semilogx(ell, data["mean"], "o-", color="C0", label="mean")
    left.semilogx(ell, data.variance, "s-", color="C1", label="variance")
    sheet.mark(left, y=float(data.equation_mean), color="C0", label="the equation's")
    sheet.mark(left, y=float(data.equation_variance), color="C1")
    sheet.label(left, rf"At the time 1, $\eta = {config.lr:g}$", r"$\ell$", None, "best")
    for i, (_, name, values) in enumerate(distances(data)):
        right.loglog(ell, np.abs(values), "os^"[i] + "-", color=f"C{i}", label=name)
    sheet.guide(right, ell, 0.4 * config.lr / ell, r"$\propto 1/\ell$")
    sheet.label(right, "Distance to the equation", r"$\ell$", None, "best")
