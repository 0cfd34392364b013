"""Propositions B.9.1 and B.11.2: the scale of the tangent kernel at initialisation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import numpy as np
import xarray as xr
from scipy.special import betaincinv

from secant import nets
from secant.curvature import ntk
from secant.lab import Finding, Tolerance, option, scaled, study
from secant.studies.thesis._models import starting_points
from secant.theory.quadratic_model import TwoLayer, gated_curvature, gates

if TYPE_CHECKING:
    from matplotlib.figure import Figure


WIDE = 200
"""Neurons from which on the interval is practically certain."""


@dataclass(frozen=True)
class Config:
    """Widths and number of networks."""

    widths: tuple[int, ...] = option((20, 50, 200, 1_000, 5_000), at_least=2, help="hidden neurons")
    networks: int = scaled(smoke=1_000, laptop=10_000, paper=50_000, at_least=100, help="random networks per width")
    seed: int = option(0, help="random seed")


@study(
    "thesis/prop-B.9.1",
    section="B.9",
    title="The initial curvature is close to one",
    statement=r"""
    For $m \ge c'\log(4/\delta)$, with probability at least $1 - \delta$ the tangent kernel of one sample
    satisfies $\frac{\|x\|^2}{2d} \le \lambda(0) \le \frac{3\|x\|^2}{2d}$. Sharper: its mean is $\|x\|^2/d$
    and, with $v_i = \pm 1$, its standard deviation $\frac{\|x\|^2}{d}\sqrt{2/m}$; with Gaussian $v_i$, as the
    appendix has them, $\frac{\|x\|^2}{d}\sqrt{3/m}$. For several scalar samples
    (Proposition B.11.2) the two eigenvalues are $\|p_i\|^2$ times such a variable, so
    $M = \max_i \|p_i\|^2$.""",
)
def run(config: Config) -> xr.Dataset:
    keys = jax.random.split(jax.random.key(config.seed), len(config.widths))
    key, key_gaussian = jax.random.split(jax.random.fold_in(jax.random.key(config.seed), 1))
    draws = [starting_points(k, m, config.networks) for k, m in zip(keys, config.widths, strict=True)]
    return xr.Dataset(
        {
            "curvature": (("width", "network"), np.stack([np.asarray(d[1]) for d in draws])),
            "output": (("width", "network"), np.stack([np.asarray(d[0]) for d in draws])),
            "gaussian": ("network", np.asarray(starting_points(key_gaussian, WIDE, config.networks, signs=False)[1])),
            "network_gap": _network_gap(key),
        },
        coords={"width": list(config.widths)},
    )


def _network_gap(key: jax.Array) -> float:
    """Relative difference between the tangent kernel of a network of Secant's and the formula for it."""
    key_weights, key_input = jax.random.split(key)
    x = 2 * jax.random.normal(key_input, (1, 7))
    net = nets.two_layer(WIDE)
    params = net.init(key_weights, x.shape)
    pair = TwoLayer(params[0]["weight"].T, params[2]["weight"][:, 0])
    formula = jax.jit(lambda pair, x: gated_curvature(pair, gates(pair.u, x), x))(pair, x[0])
    return abs(ntk(net.apply, params, x).dense().item() / float(formula) - 1)


@run.findings
def check(data: xr.Dataset, config: Config) -> Iterator[Finding]:
    yield Finding(
        "tangent kernel of a network against the formula for it: relative difference",
        predicted=0.0,
        measured=float(data.network_gap),
        tolerance=Tolerance(1e-13, why="rounding"),
    )
    wide = data.curvature.sel(width=data.width >= WIDE)
    shares = [(f"width {m}", wide.sel(width=m)) for m in wide.width.values]
    for name, draws in (*shares, (f"width {WIDE}, Gaussian outer weights", data.gaussian)):
        count = int(((draws >= 0.5) & (draws <= 1.5)).sum())
        yield Finding(
            f"{name}: share of networks with curvature between 1/2 and 3/2, lower confidence limit",
            predicted=0.99,
            measured=_lower_limit(count, draws.size),
            relation="at least",
            tolerance=Tolerance(0.0, why="binomial, one-sided 99 per cent; from width 200 on four standard deviations"),
            note=f"{count} of {draws.size}",
        )
    yield Finding(
        f"Gaussian outer weights: standard deviation times sqrt(m) at width {WIDE}",
        predicted=float(np.sqrt(3)),
        measured=float(data.gaussian.std() * np.sqrt(WIDE)),
        tolerance=Tolerance(relative=4 * _spread_error(data.gaussian), why="four standard errors"),
    )
    n = config.networks
    for m in (data.width.values[0], data.width.values[-1]):
        one = data.curvature.sel(width=m)
        error = float(one.std()) / np.sqrt(n)
        yield Finding(
            f"mean curvature at width {m}",
            predicted=1.0,
            measured=float(one.mean()),
            tolerance=Tolerance(4 * error, why="four standard errors"),
        )
        yield Finding(
            f"standard deviation times sqrt(m) at width {m}",
            predicted=float(np.sqrt(2)),
            measured=float(one.std() * np.sqrt(m)),
            tolerance=Tolerance(relative=4 * _spread_error(one), why="four standard errors of a standard deviation"),
        )
    widest = data.output.isel(width=-1)
    yield Finding(
        "variance of the output at the largest width",
        predicted=0.5,
        measured=float(widest.var()),
        tolerance=Tolerance(relative=4 * np.sqrt(2 / n), why="four standard errors of a variance"),
        note="so the output is of order one, as the proofs assume",
    )


def _spread_error(draws: xr.DataArray) -> float:
    """Relative standard error of a standard deviation, from the fourth moment."""
    kurtosis = float((((draws - draws.mean()) / draws.std()) ** 4).mean())
    return float(np.sqrt((kurtosis - 1) / (4 * draws.size)))


def _lower_limit(count: int, total: int) -> float:
    """Lower 99 per cent confidence limit of a binomial share, after Clopper and Pearson."""
    return float(betaincinv(count, total - count + 1, 0.01)) if count else 0.0


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    import matplotlib.pyplot as plt

    left, right = figure.subplots(1, 2)
    ink = plt.rcParams["text.color"]
    bins = np.linspace(0, 2.2, 111)
    for i, m in enumerate(data.width.values):
        left.hist(
            data.curvature.sel(width=m), bins, density=True, histtype="step", lw=1.5, color=f"C{i}", label=f"$m = {m}$"
        )
    left.axvspan(0.5, 1.5, color=plt.rcParams["grid.color"], alpha=0.3, lw=0)
    left.set(title="Initial curvature", xlabel=r"$\lambda_0\,d/\|x\|^2$", ylabel="density", xlim=(0, 2.2))
    left.legend()
    right.loglog(data.width, data.curvature.std("network"), "o", color="C0", label="measured")
    right.loglog(data.width, np.sqrt(2 / data.width), "--", color=ink, lw=1, label=r"$\sqrt{2/m}$")
    right.set(title="Its spread", xlabel="width $m$", ylabel="standard deviation")
    right.legend()
