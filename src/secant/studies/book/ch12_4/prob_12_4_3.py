r"""Problem 12.4.3: amplified noise is a noisy oracle of scale $\sqrt\ell\sigma$."""

import math
from typing import Any

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Seeded, claim, estimate, option, options, sheet, study
from secant.optim import amplifiers
from secant.studies.shared.parabolas import normal, skewed, skewness
from secant.theory.noise.weak_error import order


class Config(Seeded):
    lr: float = options.lr(0.2, at_least=0.02, at_most=1)
    chance: float = option(0.1, at_least=0.02, at_most=0.4, help="chance of the rarer value of the noise")
    amplify: tuple[int, ...] = option(
        (1, 2, 4, 8, 16, 32),
        at_least=1,
        at_most=512,
        shortest=3,
        longest=10,
        ascending=True,
        help="amplifications, the last three at least 8",
    )
    draws: int = options.draws(20_000, 400_000, at_least=1_000, at_most=10**6)

    def check(self) -> None:
        """Three large amplifications give the exponent."""
        if self.amplify[-3] < 8:
            raise ValueError(f"amplify: the last three must be at least 8, got {self.amplify}.")


def noise(ell: int, chance: float) -> tuple[np.ndarray, np.ndarray]:
    """All values of the noise of two batches with their factors, and the chances of these values."""
    a, b = amplifiers(ell)
    model = skewed(1.0, chance)
    z, p = -model.offsets[:, 0], np.array([chance, 1 - chance])
    return (a * z[:, None] + b * z).ravel(), np.outer(p, p).ravel()


@study("book/prob-12.4.3", section="12.4", title="Amplified noise has the skewness that is asked for")
def run(config: Config) -> xr.Dataset:
    r"""$\hat z = \frac1{\sqrt\ell}(az_1 + bz_2)$ has $\operatorname{Cov}\hat z = \Sigma$, and $\hat g = \nabla f +
    \sqrt\ell\sigma\hat z$ in law: SVAG is an oracle of scale $\sqrt\ell\sigma$. The third moment of $\hat z$,
    $\frac{3\ell - 1}{2\ell^{3/2}}\mathbb Ez^3 = O(\ell^{-1/2})$, falls like one over this scale, as theorem 12.3.4
    asks. On $\frac12x^2$ with two-point noise the stationary third cumulant halves as $\ell$ doubles: $-0.04372$ at
    $\ell = 1$, $-0.00166$ at 32. The equation has 0.
    """
    model, random = skewed(1.0, config.chance), np.random.default_rng(config.seed)
    laws = [model.svag(config.lr, ell).stationary(order=3) for ell in config.amplify]
    values = [noise(ell, config.chance) for ell in config.amplify]
    ell = config.amplify[2]
    z, p = values[2]
    x = np.zeros(config.draws)
    for _ in range(round(8 * ell / config.lr)):
        x = x - config.lr / ell * (x + z[random.choice(len(z), config.draws, p=p)])
    return xr.Dataset(
        {
            "variance": ("amplify", [law.covariance.item() for law in laws]),
            "third": ("amplify", [law.third.item() for law in laws]),
            "x": ("draw", x),
            "noise": (("amplify", "power"), [[p @ z**power for power in (1, 2, 3)] for z, p in values]),
        },
        coords={"amplify": list(config.amplify), "power": [1, 2, 3]},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    ell, lr, m3 = data.amplify.values, config.lr, skewness(config.chance)
    scale = np.sqrt(data.noise.sel(power=2).values)
    third = data.noise.sel(power=3).values / scale**3
    yield claim("noise-mean", "mean of the noise").zero(np.abs(data.noise.sel(power=1)).max(), 1e-12, "rounding")
    off = np.abs(third - (3 * ell - 1) / (2 * ell**1.5) * m3).max()
    yield claim("noise-third", r"third moment of $\hat z$ less $\frac{3\ell - 1}{2\ell^{3/2}}\mathbb Ez^3$").zero(
        off, 1e-11, "a sum over all pairs: rounding"
    )
    largest = (third * np.sqrt(ell) / (1.5 * m3)).max()
    yield claim(
        "condition", r"third moment of $\hat z$ times its scale $\sqrt\ell$, over $\frac32\mathbb Ez^3$"
    ).at_most(1, largest, r"$(3\ell - 1)/2\ell$ is below $3/2$: condition 3 of theorem 12.3.4", slack=1e-12)
    rho, step = 1 - lr / ell, lr / ell
    formula = -(step**3) * (3 * ell - 1) / 2 * m3 / (1 - rho**3)
    why = r"a linear system of condition $\ell/\eta$: rounding"
    yield claim("third", "stationary third cumulant less its formula, over the formula").zero(
        np.abs(data.third / formula - 1).max(), 1e-9, why
    )
    yield claim("variance", r"stationary variance less $\eta/(2 - \eta/\ell)$, over it").zero(
        np.abs(data.variance * (2 - step) / lr - 1).max(), 1e-9, why
    )
    found, wide = order(ell[-3:], data.third[-3:]).value, (1 + lr) / float(ell[-3])
    yield claim("order", r"order of the third cumulant in $\ell$").equal(
        -1, found, wide, r"the next order: $1/3\ell$ and $\eta/\ell$ at the third largest $\ell$"
    )
    i = 2
    law, name = float(data.variance[i]), rf"runs at $\ell = {ell[i]}$"
    yield claim("runs-variance", f"{name}: variance over its formula").equal(
        1, estimate(data.x**2 / law), 1e-5, "sampling error; the start is forgotten to $e^{-16}$"
    )
    apart = estimate((data.x**3 - float(data.third[i])) / law**1.5)
    yield claim("runs-third", rf"{name}: third moment less its formula, over variance$^{{3/2}}$").equal(
        0, apart, 1e-4, "sampling error; the start is forgotten to $e^{-8}$"
    )
    top, at = float(ell[-1]), rf"$\ell = {ell[-1]}$"
    exact: dict[str, Any] = {"within": 0, "why": "a sum over all pairs: rounding", "relative": 1e-11}
    yield claim("factor", rf"factor of $az_1 + bz_2$ that leaves the covariance $\Sigma$, {at}").erratum(
        (r"\hat z = \frac1\ell(az_1 + bz_2)", 1 / top),
        (r"\hat z = \frac1{\sqrt\ell}(az_1 + bz_2)", top**-0.5),
        1 / scale[-1],
        **exact,
        note=r"With the printed factor the covariance is that of $z$ over $\ell$, against definition 12.1.2.",
        where="problem 12.4.3",
    )
    yield claim("scale", rf"scale over $\sigma$ of the oracle whose noise has covariance $\Sigma$, {at}").erratum(
        (r"\nabla f + \ell\sigma\hat z,\ \hat{\mathcal Z}_{\ell\sigma}", top),
        (r"\nabla f + \sqrt\ell\sigma\hat z,\ \hat{\mathcal Z}_{\sqrt\ell\sigma}", math.sqrt(top)),
        scale[-1],
        **exact,
        note="The same factor is wrong twice more: in the oracle, and in the name of its law.",
        where="problem 12.4.3",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10.5, 4.2), 2)
    spread = math.sqrt(float(data.variance[2]))
    bins = spread * np.linspace(-4, 4, 81)
    left.hist(data.x, bins, density=True, color="C0", alpha=0.4, label=rf"runs, $\ell = {config.amplify[2]}$")
    sheet.guide(left, bins, normal(bins, 0, config.lr / 2), "the equation")
    sheet.label(left, "Stationary law", "$x$", "density", "best")
    ell = data.amplify.values
    right.loglog(ell, -data.third, "o-", color="C1", label="third cumulant, minus")
    right.loglog(ell, data.variance - config.lr / 2, "s-", color="C0", label=r"variance less $\eta/2$")
    sheet.guide(right, ell, -float(data.third[-1]) * ell[-1] / ell, r"$\propto 1/\ell$")
    sheet.label(right, "Distance to the equation", r"$\ell$", None, "best")
