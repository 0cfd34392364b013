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
"""Samples that the drawn networks fit."""

EXACT = "exact at every size"


class Config(Seeded):
    norm2: float = option(2.0, above=0.6, at_most=20, help="squared norm of the interpolant")
    data: int = option(200, at_least=50, at_most=1_000, help="samples, half of the entries of an input")
    effective: float = option(4.0, at_least=0.5, at_most=50, help="effective depth, samples times depth over width")
    draws: int = options.draws(20_000, 200_000, at_least=2_000, at_most=10**6)


@study("lectures/12-07-evidence", section="12-07", title="Bayesian interpolation with deep linear networks")
def run(config: Config) -> xr.Dataset:
    r"""Take deep linear networks with independent Gaussian weights that fit $P < N_0$ data exactly. Their evidence and
    posterior are known at every size. Under the posterior $\theta = \theta_* + u\,|\theta_\perp|$, with the interpolant
    $\theta_*$ of least norm and a uniform direction $u$ off the span of the data. The direction is independent of
    $|\theta_\perp|$, and $|\theta_\perp|$ sets the scale of predictions. With $P/N_0 \to \alpha$ the best prior has
    $\sigma_*^{2(L+1)} = |\theta_*|^2/\alpha$ and leaves $|\theta_\perp|^2 = \frac{1-\alpha}\alpha|\theta_*|^2$,
    whatever the architecture. With $\sigma = 1$ the effective depth $\lambda = P\sum_l 1/N_l$ decides, and
    $\lambda \to \infty$ finds what the best prior finds. Deeper networks have the greater evidence.
    """
    random = np.random.default_rng(config.seed)
    X, Y = random.standard_normal((TINY[0], DATA)), random.standard_normal(DATA)
    new = random.standard_normal(TINY[0])
    Y /= np.linalg.norm(lp.interpolant(X, Y).theta)  # as long as the prior, so that many draws share the weight
    star, _ = lp.interpolant(X, Y)
    # We draw the hidden layers, then the first layer given them. The data leave its part off their span free.
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
    """The unit vector along the part of an input that is off the span of the data."""
    rest = new - q @ (q.T @ new)
    return rest / np.linalg.norm(rest)


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    norm2 = float((data.star**2).sum())
    log_evidence, off = lp.log_evidence(norm2, DATA, TINY), lp.off_span(norm2, DATA, TINY)
    weight = np.exp(data.weight - log_evidence)
    yield claim("fit", "networks of the posterior fit the data").zero(data.fit, 1e-10, "rounding")
    drawn = estimate(weight)
    yield claim("evidence", "evidence of drawn networks, over the contour integral").equal(1.0, drawn, 0, EXACT)
    yield claim("square", "mean of the squared part off the span").equal(
        off, ratio(weight * data.off, weight), 0, EXACT
    )
    free, mean = TINY[0] - DATA, float(data.star @ data.new)
    spread = ratio(weight * (data.prediction - mean) ** 2, weight)
    yield claim("prediction", "variance of a prediction").equal(float(data.beyond) / free * off, spread, 0, EXACT)
    yield claim("fourth-power", "mean fourth power of the part off the span").equal(
        lp.off_span(norm2, DATA, TINY, power=2), ratio(weight * data.off**2, weight), 0, EXACT
    )
    long, along = data.off > float(data.off.median()), data.direction**2 / data.off
    for name, kept in (("long", long), ("short", ~long)):
        yield claim(f"direction-{name}", f"share of one direction in the square, {name} parts").equal(
            1 / free, estimate(along.values[kept.values]), 0, "uniform, and independent of the length"
        )
    # Limits: all by the contour integral, at sizes that double.
    r, P = config.norm2, config.data
    limit = lp.off_span_limit(r, 0.5, config.effective)
    name = f"posterior at effective depth {config.effective:g}, {P} samples, width {int(data.width[-1]):,}"
    yield claim("posterior", name).equal(
        limit, data.posterior[-1], 0, "corrections of order $1/P$, and of $P/N$, which is smaller here", relative=4 / P
    )
    moves, why = np.diff((data.posterior - limit).values), "of order $P/N$, with corrections of the same order"
    yield claim("posterior-order", "move of this posterior when the width doubles, over the next move").equal(
        2.0, moves[-2] / moves[-1], 2 * P / int(data.width[-2]), why
    )
    yield claim("shallow", "posterior at a vanishing effective depth").equal(
        0.5, lp.off_span(r, P, (2 * P, 10**6 * P)), 1e-4, "of the order of the effective depth, whatever the data"
    )
    yield claim("deep", "posterior at an infinite effective depth").equal(
        r, lp.off_span_limit(r, 0.5, 1e8), 0, r"$\log r$ over the effective depth", relative=1e-6
    )
    last = int(data["size"][-1])
    order = Tolerance(relative=4 / last, why="corrections of order 1/P, in which all sizes are counted")
    for key, name, predicted, found in (
        ("prior", r"$\sigma^2$ to the power $L + 1$", 2 * r, data.optimal**3),
        ("remainder", "the squared part off the span", r, data.found),
    ):
        yield claim(key, f"best prior, {last} samples: {name}").equal(predicted, found[-1], order)
        gap, why = (found - predicted).values, "of order $1/P$, with corrections of the same order"
        yield claim(
            f"{key}-order", f"best prior: {name}, distance from the limit at half the size over that at the size"
        ).equal(2.0, gap[-2] / gap[-1], 8 / last, why)
    printed, corrected = r"|\theta_*|^2/\alpha", r"\tfrac{1-\alpha}\alpha|\theta_*|^2"
    note = "The printed limit is that of the whole square; on the span of the data it is given."
    where = "lecture of 12/7, the theorem"
    yield claim("printed", "best prior: the squared part off the span").erratum(
        (printed, 2 * r), (corrected, r), data.found[-1], order, where=where, note=note, by="derivation"
    )
    growth = float(np.diff(data.evidence).min())
    yield claim("depth", "smallest growth of the log evidence with depth").at_least(0.0, growth, "deeper is likelier")


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10, 4.2), 2)
    left.semilogx(data.depth, data.evidence, "o-", color="C0")
    sheet.label(left, f"Evidence, width {5 * config.data:,}", "hidden layers", r"log evidence, $\sigma^2 = 1$")
    depths = np.geomspace(0.02, 200, 60)
    for i, times in enumerate((1, 4, 16)):
        width, layers = times * config.data, np.unique(np.round(depths * times).astype(int).clip(1))
        values = [lp.off_span(config.norm2, config.data, (2 * config.data, *[width] * int(n))) for n in layers]
        right.semilogx(layers / times, values, ".-", color=f"C{i}", label=f"width {width:,}")
    sheet.guide(right, depths, [lp.off_span_limit(config.norm2, 0.5, depth) for depth in depths], "$P/N \\to 0$")
    sheet.mark(right, y=config.norm2, ls=":", label="best prior")
    sheet.label(right, "Posterior by effective depth", r"$\lambda = PL/N$", r"mean $|\theta_\perp|^2$", "lower right")
