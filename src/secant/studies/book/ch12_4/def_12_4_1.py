"""Definition 12.4.1: the two factors of amplified noise, and what they do to moments of a gradient."""

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
        help="amplification, l",
    )
    samples: int = option(5, at_least=2, at_most=8, help="of a least-squares problem")
    drawn: float = option(4.0, at_least=1, at_most=100, help="amplification of the steps that the library takes")
    draws: int = options.draws(8_000, 100_000, at_least=1_000, at_most=10**5)


@study("book/def-12.4.1", section="12.4", title="Amplified noise: two batches and their factors")
def run(config: Config) -> xr.Dataset:
    r"""SVAG takes $\hat g = a\,g_{\gamma_1} + b\,g_{\gamma_2}$ of two independent batches with $a, b = \frac{1 \pm
    \sqrt{2\ell - 1}}2$ and the step size $\eta/\ell$. $a + b = 1$: the mean is the gradient. $a^2 + b^2 = \ell$: the
    noise has $\ell$ times the covariance, so that $\sqrt{\eta/\ell}\sqrt\ell\sigma$, and the equation with it, is
    that of SGD. $a^3 + b^3 = \frac{3\ell - 1}2$: third moments grow only like $\ell$. With $\ell = 1$ it is SGD.
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
    why = "algebra: rounding, relative to l"
    for power, wanted, words in ((1, 1 + 0 * ell, "1"), (2, ell, "l"), (3, (3 * ell - 1) / 2, "(3l - 1)/2")):
        yield claim(f"{power}-b-{power}-less-{words}-l", f"a^{power} + b^{power} less {words}, over l^(3/2)").zero(
            np.abs((a**power + b**power - wanted) / ell**1.5).max(), 1e-12, "algebra: rounding of terms of size l^(3/2)"
        )
    n, v, s = len(g), g.var(), ((g - g.mean()) ** 3).mean()
    for name, wanted in (("mean", g.mean()), ("variance", ell * v), ("third", (3 * ell - 1) / 2 * s)):
        scale = np.abs(g).max() ** {"mean": 1, "variance": 2, "third": 3}[name] * ell**1.5
        yield claim(
            f"{name}-{n * n}-pairs-samples-less", f"{name} over all {n * n} pairs of samples, less its formula"
        ).zero(np.abs((data[name] - wanted) / scale).max(), 1e-12, why)
    first = data.sel(amplify=ell.values[0])
    yield claim(
        "l-1-second", "l = 1: the second factor", given=float(ell[0]) == 1, otherwise="l = 1 is not among them"
    ).zero(first.b, 1e-15, "SGD")
    centred = data.step - g.mean()
    yield claim("steps-library-mean", "steps of the library: mean over the standard deviation").equal(
        0, estimate(centred / (config.drawn * v) ** 0.5), 1e-4, "sampling error, and the precision of a step"
    )
    yield claim("steps-library-variance", "steps of the library: variance over l Sigma").equal(
        1, estimate(centred**2 / (config.drawn * v)), 1e-4, "sampling error, and the precision of a step"
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
