"""Lecture of 12/7: limits that do not commute, of sample covariances and of deep linear networks."""

import math

import numpy as np
import xarray as xr

from secant.lab import Estimate, Figure, Findings, Seeded, claim, estimate, fits_memory, option, options, sheet, study
from secant.theory.bayes import linear_norms as ln
from secant.theory.bayes import marchenko_pastur as mp

EXACT = "exact at every size"

WIDTHS = (16, 64, 256)
"""Widths of networks at one ratio of depth to width."""


class Config(Seeded):
    samples: int = options.samples(80, at_least=10, at_most=2_000)
    dim: int = options.dim(200, at_least=20, at_most=10_000)
    width: int = options.width(16, at_least=4, at_most=500)
    layers: int = options.layers(8, at_most=200)
    aspect: float = option(0.5, at_least=0.1, at_most=2, help="ratio of depth to width as both grow")
    draws: int = options.draws(4_000, 40_000, at_least=1_000, at_most=10**6)

    def check(self) -> None:
        """Fewer vectors than entries, and networks that a machine holds."""
        if self.samples > 0.9 * self.dim:
            most = f"must be at most nine tenths of dim, {int(0.9 * self.dim)}"
            raise ValueError(f"samples: {most}, so that inverses have a mean and a spread; got {self.samples}.")
        fits_memory(16.0 * self.draws * max(self.width**2, 2 * WIDTHS[-1]), "draws or width")


@study("lectures/12-07-lengths", section="12-07", title="Limits that do not commute")
def run(config: Config) -> xr.Dataset:
    r"""Eigenvalues of $XX^\top/n_0$, of $P$ Gaussian vectors with $P/n_0 \to \alpha < 1$, have the density of Marchenko
    and Pastur, $\sqrt{(\lambda_+ - x)(x - \lambda_-)}/(2\pi\alpha x)$ between $\lambda_\pm = (1 \pm \sqrt\alpha)^2$.
    Large $n_0$ alone would make them all 1. A random deep linear network $\theta^\top = W^{(L+1)}\cdots W^{(1)}$ has
    $|\theta|^2 = \prod_{l=0}^L\chi^2_{n_l}/n_l$ in law and a uniform direction. A wide network has length 1, and a deep
    one 0. Between them $\log|\theta|$ is normal with mean $-\frac12\sum_l 1/n_l$ and as much variance: $L/(2n)$, where
    the notes have $L/(4n)$.
    """
    random = np.random.default_rng(config.seed)
    theta = ln.linear_draws(random, (config.width,) * (config.layers + 1), config.draws)
    lengths = np.linalg.norm(theta, axis=1)
    few = max(20, config.draws // 40)
    depths = [max(round(config.aspect * width), 1) for width in WIDTHS]
    logs = [np.log(ln.length_draws(random, (n,) * d, config.draws)) for n, d in zip(WIDTHS, depths, strict=True)]
    return xr.Dataset(
        {
            "eigenvalue": (("matrix", "index"), mp.eigenvalues(random, config.samples, config.dim, few)),
            "log": ("draw", np.log(lengths)),
            "first": ("draw", (theta[:, 0] / lengths) ** 2),
            "ratio": (("draw", "width"), np.stack(logs, 1)),
        },
        coords={"width": list(WIDTHS), "depth": ("width", depths)},
    )


def _spread(values: xr.DataArray) -> Estimate:
    """The variance of repeats."""
    return estimate((values - values.mean()) ** 2 * values.size / (values.size - 1))


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    P, n = config.samples, config.dim
    alpha = P / n
    values = data.eigenvalue
    for name, exact, limit, power, apart in (
        ("square", 1 + (P + 1) / n, mp.moment(2, alpha), values**2, 1 / n),
        ("inverse", n / (n - P - 1), mp.moment(-1, alpha), 1 / values, n / ((n - P) * (n - P - 1))),
    ):
        found = estimate(power.mean("index"))
        yield claim(name, f"eigenvalues: mean {name} at this size").equal(exact, found, 0, EXACT)
        yield claim(f"{name}-limit", f"eigenvalues: mean {name} in the limit").equal(
            limit, found, apart, "the distance of the exact value at this size from the limit"
        )
    low, high = mp.edges(alpha)
    middle = (low + high) / 2
    lower = estimate((values < middle).mean("index"))
    yield claim("lower-half", "share of eigenvalues in the lower half of their range").equal(
        mp.below(middle, alpha), lower, 2 / P, "eigenvalues are counted: one or two of $P$"
    )
    printed = r"\int\frac{\sqrt{(\lambda_+-x)(x-\lambda_-)}}{2\pi\cdot 2x}", alpha / 2
    corrected = r"\int\frac{\sqrt{(\lambda_+-x)(x-\lambda_-)}}{2\pi\alpha x}", 1.0
    inside, where = estimate(((values > low) & (values < high)).mean("index")), "theorem of Marchenko and Pastur"
    note = "The ratio stands in the denominator; as printed the density is normalised for a ratio of 2 only."
    yield claim("density", "share of eigenvalues between both edges").erratum(
        printed, corrected, inside, 2 / P, "one beyond each edge", note=note, where=f"lecture of 12/7, {where}"
    )
    mean, variance = ln.log_length((config.width,) * (config.layers + 1))
    yield claim("log-mean", "linear networks: mean of the log of the length").equal(mean, estimate(data.log), 0, EXACT)
    printed = r"L/(4n)", config.layers / (4 * config.width)
    corrected = r"\tfrac14\sum_{l=0}^L\psi'(n_l/2) \approx (L+1)/(2n)", variance
    note = "A chi-square over its number has the variance $2/n$, not $1/n$, and the inputs are one of its factors."
    yield claim("log-variance", "linear networks: variance of the log of the length").erratum(
        printed, corrected, _spread(data.log), 0, EXACT, note=note, where="lecture of 12/7, second example"
    )
    entry = "linear networks: mean square of one entry of the direction"
    first, long = data["first"], (data.log > data.log.median()).values
    for key, name, kept, why in (
        ("direction", entry, first, "uniform on the sphere"),
        (
            "direction-long",
            f"{entry}, in networks longer than the median",
            first.values[long],
            "independent of the length",
        ),
    ):
        yield claim(key, name).equal(1 / config.width, estimate(kept), 0, why)
    width, depth = WIDTHS[-1], int(data.depth[-1])
    found, name, why = data.ratio.sel(width=width), f"{depth} layers of {width}", "the next order, of $1/n$ of it"
    log, half = f"{name}: mean of the log, $-L/(2n)$", depth / (2 * width)
    yield claim("ratio-mean", log).equal(-half, estimate(found), 0, why, relative=1 / width)
    log = f"{name}: variance of the log, $L/(2n)$"
    yield claim("ratio-variance", log).equal(half, _spread(found), 0, why, relative=2 / width)
    # Geometric means.
    wide, deep = (math.exp(ln.log_length((n,) * depth).mean) for n, depth in ((10**6, 10), (10, 10**3)))
    yield claim("wide-first", "wide first: 1 less the mean length of 10 layers of a million, over $L/(2n)$").equal(
        1.0, (1 - wide) / 5e-6, 1e-3, "the next order is 1e-6 of it, rounding 1e-10"
    )
    yield claim("deep-first", "deep first: mean length of a thousand layers of 10").at_most(
        math.exp(-1_000 / 20), deep, r"$\exp(-L/(2n))$, and less"
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10, 4.2), 2)
    alpha = config.samples / config.dim
    grid = np.linspace(*mp.edges(alpha), 300)
    left.hist(data.eigenvalue.values.ravel(), bins=60, density=True, color="C0", alpha=0.5, label="eigenvalues")
    sheet.guide(left, grid, mp.density(grid, alpha), "Marchenko and Pastur")
    left.plot(grid, mp.density(grid, alpha) * alpha / 2, color="C3", ls=":", label="as printed")
    sheet.label(left, rf"Sample covariances, $\alpha = {alpha:g}$", "eigenvalue", "density", "upper right")
    ratios = np.geomspace(1e-3, 10, 100)
    for i, width in enumerate((3, 30, 300)):
        depths = np.unique(np.round(np.geomspace(1, 10 * width, 8 + 4 * i)).astype(int))
        logs = np.array([ln.log_length((width,) * depth).mean for depth in depths])
        right.semilogx(depths / width, np.exp(logs), "osD"[i], ms=8 - 2 * i, color=f"C{i}", label=f"width {width}")
    sheet.guide(right, ratios, np.exp(-ratios / 2), r"$e^{-L/2n}$")
    sheet.label(right, "Deep linear networks", "depth over width, $L/n$", "geometric mean length", "lower left")
