"""Theorem 3.3.6: several samples in one dimension."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.dynamics import Stop, simulate
from secant.lab import Erratum, Finding, Tolerance, option, scaled, study
from secant.theory import catapult as ct
from secant.theory import catapult_samples as sm
from secant.theory import catapult_scaling as cs
from secant.theory.quadratic_model import two_layer_init

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Config:
    """Data, widths and step sizes."""

    widths: tuple[int, ...] = scaled(
        smoke=(1_000, 10_000, 100_000),
        laptop=(1_000, 10_000, 100_000, 1_000_000),
        paper=(1_000, 10_000, 100_000, 1_000_000),
        at_least=10,
        help="hidden neurons",
    )
    positive: float = option(1.5, above=0, help="squared norm of the positive inputs")
    negative: float = option(1.0, above=0, help="squared norm of the negative inputs")
    samples: int = option(8, at_least=4, help="samples, half of either sign")
    ratios: tuple[float, ...] = scaled(
        smoke=tuple(np.linspace(1.6, 4.3, 28).round(3).tolist()),
        laptop=tuple(np.linspace(1.5, 4.3, 113).round(4).tolist()),
        paper=tuple(np.linspace(1.5, 4.3, 225).round(5).tolist()),
        above=0,
        help="step sizes times the larger eigenvalue",
    )
    steps: int = option(1_500, at_least=10, help="gradient-descent steps")
    seed: int = option(0, help="random seed")


@study(
    "thesis/thm-3.3.6",
    section="3.3.6",
    title="Two eigendirections catapult one after the other",
    statement=r"""
    Scalar inputs, half-sum loss, $\lambda_1(0) \ge \lambda_2(0)$ and $2/\lambda_2(0) < 4/\lambda_1(0)$. For
    $2/\lambda_1(0) < \eta < 2/\lambda_2(0)$ the loss catapults in the direction $p_1$ alone and only
    $\lambda_1$ falls; for $2/\lambda_2(0) < \eta < 4/\lambda_1(0)$ in both, each peak of order
    $m(\eta\lambda_i(0) - 2)^2$ up to a logarithm. Below $2/\lambda_1(0)$ the loss falls monotonically; above
    $4/\lambda_1(0)$ gradient descent diverges. If $2/\lambda_2(0) > 4/\lambda_1(0)$ the second direction
    never catapults. The two directions are exactly independent.""",
)
def run(config: Config) -> xr.Dataset:
    half = config.samples // 2
    key_x, key_y, *keys = jax.random.split(jax.random.key(config.seed), 2 + len(config.widths))
    x = jnp.abs(jax.random.normal(key_x, (2, half))) + 0.3
    scale = jnp.sqrt(jnp.array([config.positive, config.negative]))[:, None]
    x = x / jnp.linalg.norm(x, axis=1, keepdims=True) * scale
    x = jnp.concatenate([x[0], -x[1]])
    y = 0.5 * jax.random.normal(key_y, (2 * half,))
    split = sm.directions(x)
    outputs, eigenvalues = [], []
    for key, m in zip(keys, config.widths, strict=True):
        params = two_layer_init(key, m, 1)
        slopes, kernel = sm.slopes_from_weights(params.u[:, 0], params.v, params.u[:, 0])
        outputs.append(slopes * jnp.sqrt(split.squares))
        eigenvalues.append(kernel * split.squares)
    start = {
        "width": jnp.asarray(config.widths, float),
        "output": jnp.stack(outputs),
        "eigenvalue": jnp.stack(eigenvalues),
    }
    targets = split.units @ y

    # each direction is one sample of its own, with |p_i|^2 for the size of the input
    def system(network: dict[str, jax.Array], ratio: jax.Array) -> ct.Map:
        return ct.catapult(ratio / jnp.max(network["eigenvalue"]), network["width"], targets, split.squares)

    data = simulate(
        system,
        lambda network: (network["output"], network["eigenvalue"]),
        config.steps,
        over={"network": start, "ratio": jnp.asarray(config.ratios)},
        probes={"a": lambda s: s.a, "v": lambda s: s.v},
        stop=Stop(
            converged=lambda s: jnp.all((jnp.abs(s.a) < 1e-9) & (s.v < 2)),
            diverged=lambda s: jnp.any(jnp.abs(s.a) > 1e4),
            every=10,
        ),
    ).dataset
    dims = ("width", "ratio", "direction")
    u, v = np.minimum(np.abs(data.a.values), 1e100) ** 2, data.v.values
    eigen = np.asarray(start["eigenvalue"])
    lr = np.asarray(config.ratios)[None, :, None] / eigen.max(axis=1)[:, None, None]
    factor = np.sqrt(np.asarray(split.squares) / np.asarray(config.widths)[:, None])[:, None]
    scale_loss = np.asarray(config.widths)[:, None, None] / (2 * lr**2 * np.asarray(split.squares))
    return xr.Dataset(
        {
            "peak": (dims, u.max(axis=2) * scale_loss, {"long_name": "peak of the loss along the direction"}),
            "peak_square": (dims, u.max(axis=2)),
            "start_square": (dims, u[:, :, 0]),
            "start_pull": (dims, data.a.values[:, :, 0] * lr * np.asarray(targets) * factor),
            "fall": (dims, v[:, :, -1] / v[:, :, 0], {"long_name": "final over initial eigenvalue"}),
            "v0": (dims, v[:, :, 0]),
            "final": (dims, v[:, :, -1]),
            "outcome": (("width", "ratio"), data.outcome.values),
            "eigenvalue": (("width", "direction"), eigen),
        },
        coords={"width": list(config.widths), "ratio": np.asarray(config.ratios), "direction": [1, 2]},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Iterator[Finding | Erratum]:
    wide = data.isel(width=-1)
    converged = data.outcome == 1
    rises = data.peak_square > 2 * data.start_square
    margin = 2 * np.log(data.width) / np.sqrt(data.width)
    super_ = (data.v0 > 2 + margin) & converged
    sub = (data.v0 < 2 - margin) & (data.v0 > 0) & converged
    share = float((rises & super_).sum() / super_.sum())
    yield Finding(
        "share of the directions past their threshold that catapult",
        predicted=1.0,
        measured=share,
        tolerance=Tolerance(0.0, why="the claim, a margin of 2 log m / sqrt m away from the threshold"),
    )
    yield Finding(
        "share of the directions below their threshold that catapult",
        predicted=0.0,
        measured=float((rises & sub).sum() / sub.sum()),
        tolerance=Tolerance(0.0, why="the claim, a margin of 2 log m / sqrt m away from the threshold"),
    )
    drift = cs.lazy_drift(data.start_square.values, data.v0.values, data.start_pull.values)
    lazy = np.abs((data.final - data.v0 - np.asarray(drift)) * data.width).where(sub).isel(width=-1).max()
    yield Finding(
        "m times the change of an eigenvalue whose direction does not catapult, against its lazy drift",
        predicted=0.0,
        measured=float(lazy),
        tolerance=Tolerance(
            float(np.abs(drift * data.width.values[:, None, None])[-1][sub.values[-1]].max()) * 0.05,
            why="the drift is known to leading order in 1/m, the next is (m (2 - v)^2)^-1 of it",
        ),
    )
    floor = (data.peak_square / (data.v0 - 2) ** 2).where(super_ & (data.v0 > 2.3)).min()
    yield Finding(
        "peak along a catapulting direction over its scale, smallest u / delta^2",
        predicted=0.5,
        measured=float(floor),
        relation="at least",
        tolerance=Tolerance(0.03, why="finite width shifts the limit 1/2 by a few per cent"),
    )
    top = data.v0.max("direction")
    yield Finding(
        "share of the runs with eta lambda_1 below 4 that diverge",
        predicted=0.0,
        measured=float((data.outcome == 2).where(top < 3.98).sum() / (top < 3.98).sum()),
        tolerance=Tolerance(0.0, why="the claim; the border itself is within O(1/m) of 4"),
    )
    yield Finding(
        "share of the runs with eta lambda_1 above 4 that diverge",
        predicted=1.0,
        measured=float((data.outcome == 2).where(top > 4.02).sum() / (top > 4.02).sum()),
        tolerance=Tolerance(0.0, why="the claim; the border itself is within O(1/m) of 4"),
    )
    # the largest monotone step: where the loss along p_1 starts to rise
    first = wide.v0.max("direction").where(rises.isel(width=-1).any("direction")).min()
    yield Erratum(
        "condition for monotone decrease, as the largest eta lambda_1",
        printed=r"\|I - \eta K\| < 2",
        corrected=r"\|I - \eta K\| < 1 \text{ on the range of } K",
        printed_value=3.0,
        corrected_value=2.0,
        measured=float(first),
        tolerance=Tolerance(0.12, why="spacing of the step sizes"),
        why="The residual shrinks where the factor is below one.",
        where="appendix B.11, monotonic convergence",
    )
    yield Finding(
        "largest eta lambda_i after convergence",
        predicted=2.0,
        measured=float(data.final.where(converged).max()),
        relation="at most",
        tolerance=Tolerance(0.0, why="stability of the minimum"),
        note="appendix B.11 prints the two inequalities after the catapult reversed: eta is below 2/lambda_i there",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    import matplotlib.pyplot as plt

    left, right = figure.subplots(1, 2)
    ink = plt.rcParams["text.color"]
    wide = data.isel(width=-1)
    thresholds = 2 * float(wide.eigenvalue.max()) / wide.eigenvalue
    done = wide.outcome == 1
    m = float(data.width[-1])
    for i, direction in enumerate(data.direction.values):
        one = wide.sel(direction=direction)
        left.plot(
            data.ratio, (one.peak / m).where(done), "o-", ms=3, lw=0.8, color=f"C{i}", label=rf"along $p_{direction}$"
        )
        right.plot(data.ratio, one.fall.where(done), "o-", ms=3, lw=0.8, color=f"C{i}", label=rf"$\lambda_{direction}$")
    for axes in (left, right):
        for i in range(2):
            axes.axvline(float(thresholds[i]), color=f"C{i}", ls="--", lw=1)
        axes.axvline(4, color=ink, ls=":", lw=1)
        axes.set_xlabel(r"$\eta\lambda_1(0)$")
        axes.axvspan(4, 4.3, color=plt.rcParams["grid.color"], alpha=0.4, lw=0)
    delta = np.clip(np.asarray(data.ratio.values) - 2, 0, None)
    lr = data.ratio.values / float(wide.eigenvalue.max())
    size = config.positive
    left.plot(
        data.ratio,
        np.asarray(cs.small_excess_peak(delta)) / (2 * lr**2 * size),
        "--",
        color=ink,
        lw=1,
        label=r"$\delta^2/2 + \delta^3/3$",
    )
    left.set(
        title=rf"Peak over width, $m = 10^{{{np.log10(m):.0f}}}$", ylabel=r"$\max_t \Pi_i\mathcal{L}/m$", ylim=(0, None)
    )
    left.set_ylim(0, 1.3 * float((wide.peak / m).where(done).max()))
    left.legend(loc="upper left")
    right.set(title="Eigenvalue, final over initial", ylabel=r"$\lambda_i(\infty)/\lambda_i(0)$", ylim=(0, 1.1))
    right.legend(loc="lower left")
