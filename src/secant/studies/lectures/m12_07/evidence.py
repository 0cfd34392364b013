"""Lecture of 12/7: evidence and posterior of deep linear networks, at every size and in the limit."""

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Seeded, Tolerance, claim, estimate, option, options, sheet, study
from secant.lab import ratio_of_means as ratio
from secant.theory.bayes import linear_norms as ln
from secant.theory.bayes import linear_posterior as lp

TINY = (5, 6, 8)
"""Inputs and widths of networks that are drawn weight by weight."""

DATA = 2
"""Samples that they fit."""

EXACT = "exact at every size"


class Config(Seeded):
    norm2: float = option(2.0, above=0.6, at_most=20, help="squared norm of the interpolant")
    data: int = option(200, at_least=50, at_most=1_000, help="samples, half of the entries of an input")
    effective: float = option(4.0, at_least=0.5, at_most=50, help="effective depth, samples times depth over width")
    draws: int = options.draws(20_000, 200_000, at_least=2_000, at_most=10**6)


@study("lectures/12-07-evidence", section="12-07", title="Bayesian interpolation with deep linear networks")
def run(config: Config) -> xr.Dataset:
    r"""Deep linear networks with independent Gaussian weights that fit $P < N_0$ data exactly have an evidence and a
    posterior that are known at every size. Under the posterior $\theta = \theta_* + u\,|\theta_\perp|$ with the
    interpolant $\theta_*$ of least norm and a uniform direction $u$ off the span of the data, independent of
    $|\theta_\perp|$, which sets the scale of predictions. With $P/N_0 \to \alpha$ the best prior has
    $\sigma_*^{2(L+1)} = |\theta_*|^2/\alpha$ and leaves $|\theta_\perp|^2 = \frac{1-\alpha}\alpha|\theta_*|^2$,
    whatever the architecture. With $\sigma = 1$ the effective depth $\lambda = P\sum_l 1/N_l$ decides, and
    $\lambda \to \infty$ finds what the best prior finds. Deeper networks have the greater evidence.
    """
    random = np.random.default_rng(config.seed)
    X, Y = random.standard_normal((TINY[0], DATA)), random.standard_normal(DATA)
    new = random.standard_normal(TINY[0])
    Y /= np.linalg.norm(lp.interpolant(X, Y).theta)  # as long as the prior, so that no few draws have all the weight
    star, _ = lp.interpolant(X, Y)
    # Hidden layers are drawn, and the first one given them: what it is off the span of the data does not matter to it.
    hidden = np.sum(ln.linear_draws(random, TINY[1:], config.draws) ** 2, 1) / TINY[0]
    first = np.sqrt(hidden)[:, None] * random.standard_normal((config.draws, TINY[0]))
    q, _ = np.linalg.qr(X)
    theta = star + first - first @ q @ q.T
    P, N = config.data, 2 * config.data
    wide = np.array([4, 8, 16, 32]) * P
    depths = np.round(config.effective * wide / P).astype(int)
    sizes = np.array([1, 2, 4]) * P
    optimal = [lp.best_variance(config.norm2, n, (2 * n, 3 * n, 3 * n)) for n in sizes]
    posterior = [lp.off_span(config.norm2, P, (N, *[n] * d)) for n, d in zip(wide, depths, strict=True)]
    found = [lp.off_span(config.norm2, n, (2 * n, 3 * n, 3 * n), v) for n, v in zip(sizes, optimal, strict=True)]
    deep = np.array([1, 2, 5, 10, 50, 200])
    return xr.Dataset(
        {
            "weight": ("draw", lp.log_weight(float(star @ star), DATA, hidden)),
            "off": ("draw", np.sum((theta - star) ** 2, 1)),
            "prediction": ("draw", theta @ new),
            "fit": np.abs(theta @ X - Y).max(),
            "star": ("input", star),
            "new": ("input", new),
            "beyond": np.sum((new - q @ (q.T @ new)) ** 2),
            "direction": ("draw", (theta - star) @ _beyond(new, q)),
            "posterior": ("width", posterior),
            "optimal": ("size", optimal),
            "found": ("size", found),
            "evidence": ("depth", [lp.log_evidence(config.norm2, P, (N, *[5 * P] * int(d))) for d in deep]),
            "deepening": ("depth", [lp.off_span(config.norm2, P, (N, *[5 * P] * int(d))) for d in deep]),
        },
        coords={"width": wide, "layers": ("width", depths), "size": sizes, "depth": deep},
    )


def _beyond(new: np.ndarray, q: np.ndarray) -> np.ndarray:
    """The unit vector along what of an input is off the span of the data."""
    rest = new - q @ (q.T @ new)
    return rest / np.linalg.norm(rest)


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    norm2 = float((data.star**2).sum())
    log_evidence, off = lp.log_evidence(norm2, DATA, TINY), lp.off_span(norm2, DATA, TINY)
    weight = np.exp(data.weight - log_evidence)
    yield claim("networks-posterior-fit", "networks of the posterior fit the data").zero(data.fit, 1e-10, "rounding")
    yield claim("evidence-drawn-networks", "evidence of drawn networks, over the contour integral").equal(
        1.0, estimate(weight), 0, EXACT
    )
    square = ratio(weight * data.off, weight)
    yield claim("mean-squared-part", "mean of the squared part off the span").equal(off, square, 0, EXACT)
    free = TINY[0] - DATA
    mean = float(data.star @ data.new)
    yield claim("variance-prediction", "variance of a prediction").equal(
        float(data.beyond) / free * off, ratio(weight * (data.prediction - mean) ** 2, weight), 0, EXACT
    )
    yield claim("mean-fourth-power", "mean fourth power of the part off the span").equal(
        lp.off_span(norm2, DATA, TINY, power=2), ratio(weight * data.off**2, weight), 0, EXACT
    )
    long = data.off > float(data.off.median())
    for name, kept in (("long", long), ("short", ~long)):
        yield claim(f"share-one-direction-{name}", f"share of one direction in the square, {name} parts").equal(
            1 / free,
            estimate((data.direction**2 / data.off).values[kept.values]),
            0,
            "uniform, and independent of the length",
        )
    # Limits: all by the contour integral, at sizes that double.
    r, P = config.norm2, config.data
    limit = lp.off_span_limit(r, 0.5, config.effective)
    gaps = (data.posterior - limit).values
    yield claim(
        f"posterior-effective-depth-{config.effective:g}-{P}-{int(data.width[-1]):,}",
        f"posterior at effective depth {config.effective:g}, {P} samples, width {int(data.width[-1]):,}",
    ).equal(limit, data.posterior[-1], 0, "corrections of order 1/P, and of P/N, which is smaller here", relative=4 / P)
    moves = np.diff(gaps)
    yield claim("move-width-twice", "its move with a width twice as large, over the next").equal(
        2.0, moves[-2] / moves[-1], 2 * P / int(data.width[-2]), "of order P/N, with corrections of the same order"
    )
    yield claim("posterior-vanishing-effective", "posterior at a vanishing effective depth").equal(
        0.5, lp.off_span(r, P, (2 * P, 10**6 * P)), 1e-4, "of the order of the effective depth, whatever the data"
    )
    yield claim("posterior-infinite-effective", "posterior at an infinite effective depth").equal(
        r, lp.off_span_limit(r, 0.5, 1e8), 0, "log r over the effective depth", relative=1e-6
    )
    last = int(data["size"][-1])
    order = Tolerance(relative=4 / last, why="corrections of order 1/P, in which all sizes are counted")
    for name, predicted, found in (
        ("sigma^2 to the power L + 1", 2 * r, data.optimal**3),
        ("the squared part off the span", r, data.found),
    ):
        yield claim(f"best-prior-{last}-samples-{name}", f"best prior, {last} samples: {name}").equal(
            predicted, found[-1], order
        )
        gap = (found - predicted).values
        yield claim(
            f"best-prior-{name}-distance", f"best prior: {name}, distance from the limit at half the size over that"
        ).equal(2.0, gap[-2] / gap[-1], 8 / last, "of order 1/P, with corrections of the same order")
    yield claim("best-prior-squared", "best prior: the squared part off the span").erratum(
        (r"|\theta_*|^2/\alpha", 2 * r),
        (r"\tfrac{1-\alpha}\alpha|\theta_*|^2", r),
        data.found[-1],
        order,
        where="lecture of 12/7, the theorem",
        note="The limit as printed is that of the whole square; on the span of the data it is given.",
        by="derivation",
    )
    growth = float(np.diff(data.evidence).min())
    yield claim("smallest-growth-log", "smallest growth of the log evidence with depth").at_least(
        0.0, growth, "deeper is likelier"
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10, 4.2), 2)
    left.semilogx(data.depth, data.evidence, "o-", color="C0")
    sheet.label(left, f"Evidence, width {5 * config.data:,}", "hidden layers", r"log evidence, $\sigma^2 = 1$")
    depths = np.geomspace(0.02, 200, 60)
    limit = [lp.off_span_limit(config.norm2, 0.5, depth) for depth in depths]
    for i, times in enumerate((1, 4, 16)):
        width = times * config.data
        layers = np.unique(np.round(depths * times).astype(int).clip(1))
        values = [lp.off_span(config.norm2, config.data, (2 * config.data, *[width] * int(n))) for n in layers]
        right.semilogx(layers / times, values, ".-", color=f"C{i}", label=f"width {width:,}")
    sheet.guide(right, depths, limit, "$P/N \\to 0$")
    sheet.mark(right, y=config.norm2, ls=":", label="best prior")
    sheet.label(right, "Posterior by effective depth", r"$\lambda = PL/N$", r"mean $|\theta_\perp|^2$", "lower right")
