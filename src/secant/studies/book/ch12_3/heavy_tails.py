"""Theorem 12.3.4 needs bounded moments: noise with heavy tails has fourth moments that the equation lacks."""

import math

import numpy as np
import scipy  # its parts are loaded when they are used
import xarray as xr

from secant.lab import Figure, Findings, Seeded, claim, estimate, option, options, scaled, sheet, study
from secant.theory.noise.weak_error import order


class Config(Seeded):
    lr: float = options.lr(0.1, at_least=0.02, at_most=0.25)
    time: float = option(1.0, at_least=0.5, at_most=2, help="length of a run, steps times step size")
    chains: int = scaled(smoke=100_000, laptop=1_000_000, at_least=20_000, at_most=10**6, help="independent runs")


CONSTANT = 4 / (3 * math.pi)
r"""$C$ with $P(|z| > u) \approx C/u^3$ for Student's law over $\sqrt3$, with the density $\frac2{\pi(1 + u^2)^2}$."""

SIZES = np.array([1e-2, 5e-3, 2.5e-3])
"""Step sizes of the closed form of the variance."""


def scales(config: Config) -> np.ndarray:
    """Sizes of all steps' noises in the last iterate."""
    steps = round(config.time / config.lr)
    return math.sqrt(config.lr) * (1 - 2 * config.lr) ** np.arange(steps)


def density(u: float, parts: np.ndarray) -> float:
    r"""Density of a sum of such noises: inverts the characteristic function $\prod(1 + a_j\omega)e^{-a_j\omega}$."""
    phi = lambda w: math.exp(np.log1p(parts * w).sum() - (parts * w).sum())  # noqa: E731
    return scipy.integrate.quad(phi, 0, np.inf, weight="cos", wvar=u, epsabs=1e-13, limlst=200)[0] / math.pi


def beyond(u: float, parts: np.ndarray) -> float:
    r"""Chance beyond $u$ on either side, $1 - \frac2\pi\int\frac{\sin u\omega}\omega\phi(\omega)d\omega$."""
    w = np.linspace(0, 60 / parts.sum(), 40_001)[1:]
    phi = np.exp(np.log1p(np.outer(w, parts)).sum(1) - w * parts.sum())
    values = np.concatenate([[u], np.sin(u * w) / w * phi])
    return 1 - 2 / math.pi * float(scipy.integrate.simpson(values, dx=w[0]))


@study("book/heavy-tails", section="12.3", title="Heavy tails: a moment that the equation does not see")
def run(config: Config) -> xr.Dataset:
    r"""Theorem 12.3.4 asks for bounded moments of the noise. Student's law with 3 degrees of freedom has a finite
    variance, and for $g = x^2$ SGD on $f = x^2$ and its equation agree at order 1. But $\mathbb Ex^4 = \infty$ from the
    first step on, while the normal law of the equation has $3\operatorname{Var}^2$. The density falls like $u^{-4}$
    with the constant of a sum of heavy tails, $\frac{3C}2\sum_{j<k}(\sqrt\eta\rho^j)^3$, $\rho = 1 - 2\eta$. Therefore
    the fourth moment within $|x| < M$ grows like $M$.
    """
    random, parts = np.random.default_rng(config.seed), scales(config)
    found = np.zeros((2, config.chains))
    for part in parts:
        found[0] += part / math.sqrt(3) * random.standard_t(3, config.chains)
        found[1] += part * random.standard_normal(config.chains)
    spread = math.sqrt((parts**2).sum())
    far = np.array([50.0, 100.0, 200.0])
    return xr.Dataset(
        {
            "x": (("law", "chain"), found / spread),
            "falls": ("far", [density(u * spread, parts) for u in far]),
            "beyond": beyond(4 * spread, parts),
            "spread": spread,
        },
        coords={"law": ["Student", "normal"], "far": far},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    parts, spread, far = scales(config), float(data.spread), data.far.values
    limit = 1.5 * CONSTANT * (parts**3).sum()
    why = "the next order is $1/u^2$: its constant is below 20 in standard deviations"
    yield claim("far-order", "order of the density far out").equal(
        -4, order(far, data.falls).value, 20 / far[0] ** 2 * 4, why
    )
    tail, next_order = data.falls[-1] * (far[-1] * spread) ** 4 / limit, 20 / far[-1] ** 2
    yield claim("far-density", "density at 200 standard deviations over its tail").equal(
        1, tail, next_order + 1e-3, "the next order, and the accuracy of the inversion"
    )
    student, normal = data.x.sel(law="Student"), data.x.sel(law="normal")
    beyond = estimate((np.abs(student) > 4) / float(data.beyond))
    yield claim("beyond-4", "runs: share beyond 4 standard deviations, over the share by inversion").equal(
        1, beyond, 1e-6, "sampling error alone"
    )
    yield claim("normal-variance", "runs with normal noise: variance over its formula").equal(
        1, estimate(normal**2), 0, "sampling error alone"
    )
    yield claim("normal-fourth", r"runs with normal noise: fourth moment over $3\operatorname{Var}^2$").equal(
        1, estimate(normal**4 / 3), 0, "sampling error alone"
    )
    rho = 1 - 2 * SIZES
    gaps = SIZES * (1 - rho ** (2 * np.round(1 / SIZES))) / (1 - rho**2) - (1 - math.exp(-4)) / 4
    yield claim("variance-order", "either noise: order of the error of the variance").equal(
        1, order(SIZES, gaps).value, 5 * float(SIZES.max()), "five times the largest step size"
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10.5, 4.2), 2)
    for i, law in enumerate(("Student", "normal")):
        x = data.x.sel(law=law).values
        down, n = np.sort(np.abs(x))[::-1], len(x)
        places = np.unique(np.geomspace(1, n, 200).astype(int)) - 1
        left.loglog(down[places], (places + 1) / n, color=f"C{i}", label=f"{law} noise")
        right.loglog(places + 1, (np.cumsum(x**4) / np.arange(1, n + 1))[places], color=f"C{i}", label=f"{law} noise")
    far = np.geomspace(2, float(np.abs(data.x).max()), 50)
    total = CONSTANT * (scales(config) ** 3).sum() / float(data.spread) ** 3
    sheet.guide(left, far, total / far**3, r"$\propto u^{-3}$")
    sheet.mark(right, y=3, label="the equation")
    left.set(ylim=(0.5 / data.sizes["chain"], 1.5), xlim=(0.1, None))
    sheet.label(left, "Tails at the end", "$u$ in standard deviations", r"$P(|x| > u)$", "best")
    sheet.label(right, "Mean of $x^4$ over so many runs, variance 1", "runs", None, "best")
