"""Definition 12.4.1: the two factors of amplified noise, and their effect on moments of a gradient."""

import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.dynamics import simulate
from secant.lab import Figure, Findings, Seeded, claim, estimate, option, options, sheet, study
from secant.losses import half_mean
from secant.optim import Batches, Problem, amplifiers, svag


class Config(Seeded):
    amplify: tuple[float, ...] = option(
        (1.0, 1.5, 2.0, 4.0, 8.0, 16.0, 32.0),
        at_least=1,
        at_most=1e4,
        longest=12,
        ascending=True,
        help="amplifications",
    )
    samples: int = options.samples(5, at_least=2, at_most=8)
    drawn: float = option(4.0, at_least=1, at_most=100, help="amplification of the library's steps")
    draws: int = options.draws(8_000, 100_000, at_least=1_000, at_most=10**5)


@study("book/def-12.4.1", section="12.4", title="Amplified noise: two batches and their factors")
def run(config: Config) -> xr.Dataset:
    r"""SVAG takes $\hat g = a\,g_{\gamma_1} + b\,g_{\gamma_2}$ of two independent batches with $a, b = \frac{1 \pm
    \sqrt{2\ell - 1}}2$ and the step size $\eta/\ell$. Because $a + b = 1$, the mean is the gradient. Because $a^2 + b^2
    = \ell$, the noise has $\ell$ times the covariance: $\sqrt{\eta/\ell}\sqrt\ell\sigma$, and with it the equation, are
    those of SGD. Because $a^3 + b^3 = \frac{3\ell - 1}2$, third moments grow only like $\ell$. With $\ell = 1$ SVAG is
    SGD.
    """
    random = np.random.default_rng(config.seed)
    a, b = np.array([amplifiers(ell) for ell in config.amplify]).T
    x, y, w = random.normal(size=config.samples), random.normal(size=config.samples), 0.7
    g = x * (x * w - y)
    pairs = a[:, None, None] * g[:, None] + b[:, None, None] * g
    central = pairs - g.mean()
    problem = Problem(lambda w, x: w * x, jnp.asarray(x), jnp.asarray(y), half_mean)
    rule = lambda seed: svag(problem, Batches(1, seed=seed, replace=True), 1.0, config.drawn)  # noqa: E731
    moved = simulate(rule, w, 1, over={"seed": config.seed % 2**20 + np.arange(config.draws)}).state
    return xr.Dataset(
        {
            "a": ("amplify", a),
            "b": ("amplify", b),
            "gradient": ("sample", g),
            "mean": ("amplify", pairs.mean((1, 2))),
            "variance": ("amplify", (central**2).mean((1, 2))),
            "third": ("amplify", (central**3).mean((1, 2))),
            "step": ("draw", (w - np.asarray(moved, float)) * config.drawn),
        },
        coords={"amplify": list(config.amplify)},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    a, b, ell, g = data.a, data.b, data.amplify, data.gradient.values
    why = r"algebra: rounding of terms of size $\ell^{3/2}$"
    sums = ("a + b", "1", 1 + 0 * ell), ("a^2 + b^2", r"\ell", ell), ("a^3 + b^3", r"(3\ell - 1)/2", (3 * ell - 1) / 2)
    for power, (left, right, wanted) in enumerate(sums, 1):
        off = np.abs((a**power + b**power - wanted) / ell**1.5).max()
        yield claim(f"power-{power}", rf"${left}$ less ${right}$, over $\ell^{{3/2}}$").zero(off, 1e-12, why)
    n, v, s = len(g), g.var(), ((g - g.mean()) ** 3).mean()
    moments = {"mean": g.mean(), "variance": ell * v, "third": (3 * ell - 1) / 2 * s}
    for power, (name, wanted) in enumerate(moments.items(), 1):
        off = np.abs((data[name] - wanted) / (np.abs(g).max() ** power * ell**1.5)).max()
        words = "third moment" if name == "third" else name
        yield claim(f"pairs-{name}", f"{words} over all {n * n} pairs of samples, less its formula").zero(
            off, 1e-12, r"algebra: rounding, relative to $\ell$"
        )
    first = data.sel(amplify=ell.values[0])
    known, otherwise = float(ell[0]) == 1, r"$\ell = 1$ is not among the amplifications"
    yield claim("sgd", r"second factor at $\ell = 1$", given=known, otherwise=otherwise).zero(first.b, 1e-15, "SGD")
    centred, why = data.step - g.mean(), "sampling error, and the precision of a step"
    yield claim("steps-mean", "steps of the library: mean over the standard deviation").equal(
        0, estimate(centred / (config.drawn * v) ** 0.5), 1e-4, why
    )
    yield claim("steps-variance", r"steps of the library: variance over $\ell\Sigma$").equal(
        1, estimate(centred**2 / (config.drawn * v)), 1e-4, why
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10.5, 4.2), 2)
    ell = np.linspace(1, float(data.amplify.max()), 400)
    a, b = (1 + np.sqrt(2 * ell - 1)) / 2, (1 - np.sqrt(2 * ell - 1)) / 2
    left.plot(ell, a, label="$a$")
    left.plot(ell, b, label="$b$")
    sheet.mark(left, y=(0, 1), ls=":")
    sheet.label(left, "Factors of the two batches", r"$\ell$", None, "best")
    v = data.gradient.values.var()
    right.loglog(data.amplify, data.variance / v, "o-", label="variance")
    spread = np.abs(data.third / data.third[0])
    right.loglog(data.amplify, spread, "s-", label="third moment")
    right.loglog(data.amplify, spread / (data.variance / v) ** 1.5, "^-", label="skewness")
    sheet.guide(right, ell, ell, r"$\ell$")
    sheet.guide(right, ell, (3 * ell - 1) / 2, r"$(3\ell - 1)/2$", ls="-.")
    sheet.label(right, r"Moments of $\hat g$ over those of $g$", r"$\ell$", None, "best")
