"""Propositions B.9.1 and B.11.2: the scale of the tangent kernel at initialisation."""

import jax
import numpy as np
import xarray as xr
from scipy.stats import binom

from secant import nets
from secant.curvature import ntk
from secant.lab import Figure, Findings, Seeded, Tolerance, claim, fits_memory, options, sheet, study, unfold
from secant.lab.verdicts.estimate import Estimate, estimate
from secant.studies.shared.two_layer.starts import random_starts, starting_points
from secant.theory.regression.quadratic_model import TwoLayer, gated_curvature, gates

WIDE = 200
"""With this many neurons or more the interval is practically certain."""


class Config(Seeded):
    widths: tuple[int, ...] = options.widths((20, 50, 200, 1_000, 5_000), at_least=20, at_most=10**7, ascending=True)
    draws: int = options.draws(1_000, 10_000, 50_000, at_least=100, at_most=10**7)

    def check(self) -> None:
        """Refuses what no memory holds."""
        fits_memory(64.0 * len(self.widths) * self.draws + 32.0 * max(self.widths), "draws or widths")


@study("thesis/prop-B.9.1", section="B.9", title="The initial curvature is close to one")
def run(config: Config) -> xr.Dataset:
    r"""For $m \ge c'\log(4/\delta)$, with probability at least $1 - \delta$ the tangent kernel of one sample satisfies
    $\frac{\|x\|^2}{2d} \le \lambda(0) \le \frac{3\|x\|^2}{2d}$. Sharper: its mean is $\|x\|^2/d$ and, with
    $v_i = \pm 1$, its standard deviation $\frac{\|x\|^2}{d}\sqrt{2/m}$; with Gaussian $v_i$, as the appendix has them,
    $\frac{\|x\|^2}{d}\sqrt{3/m}$. For several scalar samples (Proposition B.11.2) the two eigenvalues are $\|p_i\|^2$
    times such a variable, so $M = \max_i \|p_i\|^2$.
    """
    key, key_gaussian = jax.random.split(jax.random.fold_in(jax.random.key(config.seed), 1))
    starts = random_starts(jax.random.key(config.seed), config.widths, config.draws)
    drawn = xr.Dataset({name: ("draw", starts[name]) for name in ("curvature", "output")})
    gaussian = starting_points(key_gaussian, WIDE, config.draws, signs=False)[1]
    return unfold(drawn, "draw", width=config.widths, network=range(config.draws)).assign(
        gaussian=("network", gaussian), network_gap=_network_gap(key)
    )


def _network_gap(key: jax.Array) -> float:
    """Relative difference between the tangent kernel of one of Secant's networks and its formula."""
    key_weights, key_input = jax.random.split(key)
    x = 2 * jax.random.normal(key_input, (1, 7))
    net = nets.two_layer(WIDE)
    params = net.init(key_weights, x.shape)
    pair = TwoLayer(params[0]["weight"].T, params[2]["weight"][:, 0])
    formula = jax.jit(lambda pair, x: gated_curvature(pair, gates(pair.u, x), x))(pair, x[0])
    return abs(ntk(net.apply, params, x).dense().item() / float(formula) - 1)


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    yield claim("formula", "tangent kernel of a network against its formula: relative difference").zero(
        data.network_gap, 1e-13, "rounding"
    )
    wide = data.curvature.sel(width=data.width >= WIDE)
    name = "share of networks with curvature between 1/2 and 3/2 is above 0.99"
    if not wide.size:
        yield claim("interval", name).undecided(0.0, f"no width is at least {WIDE}", "at least")
    shares = [(f"{m}", f"width {m}", wide.sel(width=m)) for m in wide.width.values]
    for key, where, draws in (*shares, ("gaussian", f"width {WIDE}, Gaussian outer weights", data.gaussian)):
        count = int(((draws >= 0.5) & (draws <= 1.5)).sum())
        # The chance of so many or more of them, were the share 0.99.
        p = binom.sf(count - 1, draws.size, 0.99)
        yield claim(f"interval-{key}", f"{where}: {name}").significant(p, "binomial", f"{count} of {draws.size}")
    exact = Tolerance(why="exact at every width, up to the sampling error")
    spread = r"standard deviation times $\sqrt m$ at width"
    yield claim("spread-gaussian", f"Gaussian outer weights: {spread} {WIDE}").equal(
        np.sqrt(3), _spread(data.gaussian, WIDE), exact
    )
    for m in sorted({config.widths[0], config.widths[-1]}):
        one = data.curvature.sel(width=m)
        yield claim(f"mean-{m}", f"mean curvature at width {m}").equal(1.0, estimate(one), exact)
        yield claim(f"spread-{m}", f"{spread} {m}").equal(np.sqrt(2), _spread(one, m), exact)
    yield claim("output", "variance of the output at the largest width").equal(
        0.5,
        estimate(data.output.isel(width=-1) ** 2),
        0,
        "exact at every width, up to the sampling error; the mean is zero",
        note="so the output is of order one, as the proofs assume",
    )


def _spread(draws: xr.DataArray, width: int) -> Estimate:
    """Standard deviation times the root of the width, with its error from the fourth moment."""
    values = draws.values
    kurtosis = (((values - values.mean()) / values.std()) ** 4).mean()
    size = values.std(ddof=1) * np.sqrt(width)
    return Estimate(size, size * np.sqrt((kurtosis - 1) / (4 * values.size)), values.size - 1.0)


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = figure.subplots(1, 2)
    look = {"bins": np.linspace(0, 2.2, 111), "density": True, "histtype": "step", "lw": 1.5}
    for i, m in enumerate(data.width.values):
        left.hist(data.curvature.sel(width=m), color=f"C{i}", label=f"$m = {m}$", **look)
    left.axvspan(0.5, 1.5, color=sheet.faint(), alpha=0.3, lw=0)
    right.loglog(data.width, data.curvature.std("network"), "o", color="C0", label="measured")
    sheet.guide(right, data.width, np.sqrt(2 / data.width), r"$\sqrt{2/m}$", lw=1)
    sheet.label(left, "Initial curvature", r"$\lambda_0\,d/\|x\|^2$", "density", "best", xlim=(0, 2.2))
    sheet.label(right, "Its spread", "width $m$", "standard deviation", "best")
