"""Theorem 12.3.4 needs skewness that shrinks: without this condition the order is 1/2."""

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Options, claim, option, options, sheet, study
from secant.studies.shared.parabolas import skewed, skewness
from secant.theory.noise.linear_noise import Moments
from secant.theory.noise.weak_error import order

ORDERS = {"mean": 1, "variance": 1, "third cumulant": 0.5}
"""Moment -> the order of its error."""


class Config(Options):
    chance: float = option(0.1, at_least=0.01, at_most=0.3, help="chance of the rarer value of the noise")
    lrs: tuple[float, ...] = options.lrs(
        (0.004, 0.002, 0.001, 0.0005), at_least=1e-4, at_most=0.01, shortest=2, longest=6, distinct=True
    )
    amplify: tuple[int, ...] = option(
        (16, 64, 256),
        at_least=8,
        at_most=1_024,
        shortest=2,
        longest=6,
        ascending=True,
        help="amplification of the noise at the largest step size",
    )


@study("book/skewed-noise", section="12.3", title="Skewness that does not shrink costs half an order")
def run(config: Config) -> xr.Dataset:
    r"""Theorem 12.3.4 asks for $|\mathbb Ez^{\otimes3}| \le K/\sigma$. Take $f = x^2$ with two-point noise whose third
    moment $m_3$ does not depend on $\sigma$, and $\sigma\sqrt\eta = 1$. The stationary third cumulant of SGD is
    $-\frac{(\eta\sigma)^3m_3}{1 - (1 - 2\eta)^3} \approx -\frac{\sqrt\eta m_3}6$, while the equation has 0. For $g =
    x^3$ the order is therefore $\frac12$. Mean and variance do not see the skewness and keep order 1. Amplified noise
    (SVAG) restores order 1 in $1/\ell$.
    """
    model = skewed(2.0, config.chance)
    laws = [model.sgd(lr, lr**-0.5).stationary(order=3) for lr in config.lrs]
    equation = model.diffusion(1.0).stationary(order=3)
    early = [model.sgd(lr, lr**-0.5).moments([1.0], round(0.5 / lr), order=3) for lr in config.lrs]
    flow = model.diffusion(1.0).moments([1.0], 0.5, order=3)
    lr = max(config.lrs)
    more = [model.svag(lr, l, lr**-0.5).stationary(order=3) for l in config.amplify]  # noqa: E741
    return xr.Dataset(
        {
            "third": ("lr", [law.third.item() for law in laws]),
            "variance": ("lr", [law.covariance.item() for law in laws]),
            "early": (("lr", "moment"), [np.subtract(cumulants(law), cumulants(flow)) for law in early]),
            "amplified": ("amplify", [law.third.item() for law in more]),
            "equation_third": equation.third.item(),
            "equation_variance": equation.covariance.item(),
        },
        coords={"lr": list(config.lrs), "amplify": list(config.amplify), "moment": list(ORDERS)},
    )


def cumulants(law: Moments) -> list[float]:
    """Mean, variance and third cumulant of a law in one dimension."""
    return [law.mean.item(), law.covariance.item(), law.third.item()]


def formula(lr: np.ndarray, m3: float) -> np.ndarray:
    """Stationary third cumulant of SGD."""
    return -(lr**1.5) * m3 / (1 - (1 - 2 * lr) ** 3)


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    lr, m3 = data.lr.values, skewness(config.chance)
    wide, why = 10 * float(lr.max()), "the next order: ten times the largest step size"
    yield claim("third", "third cumulant of SGD less its formula, over the formula").zero(
        np.abs(data.third / formula(lr, m3) - 1).max(), 1e-9, r"a linear system of condition $1/\eta$: rounding"
    )
    leading = -6 * data.third[lr.argmin()] / (m3 * lr.min() ** 0.5)
    yield claim("third-leading", r"third cumulant over $-m_3\sqrt\eta/6$").equal(
        1, leading, 4 * float(lr.min()), r"the next order in $2\eta$, twice"
    )
    yield claim("third-equation", "third cumulant of the equation").zero(
        data.equation_third, 1e-12, "a normal law: rounding"
    )
    stationary = {"third cumulant": data.third, "variance": data.variance - data.equation_variance}
    for moment, errors in stationary.items():
        yield claim(f"stationary-{moment}", f"stationary law: order of the error of the {moment}").equal(
            ORDERS[moment], order(lr, errors).value, wide, why
        )
    for moment, wanted in ORDERS.items():
        found = order(lr, data.early.sel(moment=moment)).value
        yield claim(f"early-{moment}", f"at the time 1/2: order of the error of the {moment}").equal(
            wanted, found, wide, why
        )
    found, next_order = order(1 / data.amplify.values, data.amplified).value, 1 / min(config.amplify)
    yield claim("amplified", r"amplified noise: order of the third cumulant in $1/\ell$").equal(
        1, found, next_order, r"the next order: $1/\ell$ at the smallest $\ell$"
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10.5, 4.2), 2)
    rows = data.sortby("lr")
    left.loglog(rows.lr, -rows.third, "o-", color="C1", label="third cumulant")
    left.loglog(rows.lr, rows.variance - rows.equation_variance, "s-", color="C0", label="variance")
    sheet.guide(left, rows.lr, skewness(config.chance) / 6 * np.sqrt(rows.lr), r"$m_3\sqrt{\eta}/6$")
    sheet.guide(left, rows.lr, rows.lr / 4, r"$\eta/4$", ls=":")
    sheet.label(left, "SGD less its equation, stationary", r"$\eta$", "difference", "best")
    right.loglog(data.amplify, -data.amplified, "o-", color="C1", label="third cumulant")
    first = float(-data.amplified[0] * data.amplify[0])
    sheet.guide(right, data.amplify, first / data.amplify, r"$\propto 1/\ell$")
    sheet.label(right, "Amplified noise", r"$\ell$", None, "best")
