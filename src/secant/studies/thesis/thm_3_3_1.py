"""Theorem 3.3.1: the catapult of one sample, over widths and step sizes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.dynamics import Stop, simulate
from secant.lab import Finding, Tolerance, option, scaled, study
from secant.studies.thesis._models import starting_points
from secant.theory import catapult as ct
from secant.theory import catapult_scaling as cs

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Config:
    """Widths, step sizes and random networks."""

    widths: tuple[int, ...] = scaled(
        smoke=(1_000, 10_000, 100_000),
        laptop=(100, 1_000, 10_000, 100_000, 1_000_000),
        paper=(100, 1_000, 10_000, 100_000, 1_000_000),
        at_least=10,
        help="hidden neurons",
    )
    excesses: tuple[float, ...] = option(
        (0.2, 0.5, 1.0, 1.5), above=0, below=2, help="step size times curvature, minus 2"
    )
    target: float = option(0.5, help="label of the sample")
    seeds: int = scaled(smoke=16, laptop=64, paper=256, at_least=2, help="random networks per width")
    steps: int = option(400, at_least=10, help="gradient-descent steps")
    seed: int = option(0, help="random seed")


@study(
    "thesis/thm-3.3.1",
    section="3.3.1",
    title="The catapult: high as the width, long as its logarithm",
    statement=r"""
    For $\eta \in [(2 + \varepsilon)/\lambda_0, (4 - \varepsilon)/\lambda_0]$ with
    $\varepsilon = \Theta(\log m/\sqrt m)$ the loss of the quadratic model on one sample rises to
    $\Omega\big(m(\eta\lambda_0 - 2)^2/\log m\big)$ and then falls to $O(1)$.

    More is true. The rescaled map has no width in it, so with $\delta = \eta\lambda_0 - 2$ the peak is
    proportional to $m$ itself, it comes after $\log m/(2\log(1 + \delta)) + O(1)$ steps, and the final
    curvature does not depend on the width; for small $\delta$ the peak is
    $\frac{\delta^2}{2} + \frac{\delta^3}{3}$ in units of $md/(2\eta^2\|x\|^2)$, and
    $\eta\lambda_\infty = 2 - \delta - \frac23\delta^2$.""",
)
def run(config: Config) -> xr.Dataset:
    widths = np.asarray(config.widths)
    keys = jax.random.split(jax.random.key(config.seed), len(widths))
    starts = [starting_points(k, int(m), config.seeds) for k, m in zip(keys, widths, strict=True)]
    # the start is the network's, the step size is set so that each network has the same excess
    networks = {
        "output": jnp.concatenate([s[0] for s in starts]),
        "curvature": jnp.concatenate([s[1] for s in starts]),
        "width": jnp.repeat(jnp.asarray(widths, float), config.seeds),
    }
    traj = simulate(
        lambda network, excess: ct.catapult((2 + excess) / network["curvature"], network["width"], config.target),
        lambda network: (network["output"], network["curvature"]),
        config.steps,
        over={"network": networks, "excess": jnp.asarray(config.excesses)},
        probes={"square": lambda s: s.a**2, "curvature": lambda s: s.v},
        stop=Stop(converged=lambda s: (jnp.abs(s.a) < 1e-12) & (s.v < 2)),
    ).dataset
    shape = (len(widths), config.seeds)
    square = traj.square.values.reshape(*shape, len(config.excesses), -1)
    curvature = traj.curvature.values.reshape(square.shape)
    lr = (2 + np.asarray(config.excesses)) / np.asarray(networks["curvature"]).reshape(*shape, 1)
    dims = ("width", "seed", "excess")
    loss = np.asarray(ct.loss_from_square(square, lr[..., None], widths[:, None, None, None]))
    return xr.Dataset(
        {
            "peak": (dims, loss.max(-1), {"long_name": "peak loss"}),
            "peak_square": (dims, square.max(-1), {"long_name": "peak of the rescaled square"}),
            "time": (dims, square.argmax(-1), {"long_name": "step of the peak"}),
            "start": (dims, np.sqrt(square[..., 0] * widths[:, None, None]), {"long_name": "residual, rescaled"}),
            "final": (dims, curvature[..., -1], {"long_name": "final rescaled curvature"}),
            "final_loss": (dims, loss[..., -1]),
            "example": (("width", "excess", "step"), loss[:, 0], {"long_name": "loss of the first network"}),
        },
        coords={"width": widths, "excess": np.asarray(config.excesses), "step": traj.step.values},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Iterator[Finding]:
    wide = data.sel(width=data.width >= 1000)
    log_width = np.log(wide.width.values)
    one = float(data.excess[np.argmin(np.abs(data.excess.values - 1.0))])
    at_one = wide.sel(excess=one)
    slope = np.polyfit(log_width, np.log(at_one.peak.mean("seed")), 1)[0]
    yield Finding(
        "exponent of the peak loss in the width",
        predicted=1.0,
        measured=slope,
        tolerance=Tolerance(0.04, why="the peak moves within a band of 25 per cent with the fraction of a step"),
    )
    floor = (wide.peak_square / data.excess**2).min()
    yield Finding(
        "peak over its scale: smallest u / delta^2",
        predicted=0.5,
        measured=float(floor),
        relation="at least",
        tolerance=Tolerance(
            0.03, why="the limit is 1/2 as delta goes to 0; starts at width 1000 shift it by 3 per cent"
        ),
        note="no logarithm of the width is needed in the theorem's lower bound",
    )
    # a network that starts close to its target waits longer, whatever its width
    times = at_one.time + np.log(at_one.start) / np.log(1 + one)
    decades = np.log10(wide.width.values)
    rate = np.polyfit(decades, times.mean("seed"), 1)[0]
    spread = float(times.std("seed").max()) / np.sqrt(config.seeds)
    error = spread / np.sqrt(((decades - decades.mean()) ** 2).sum())
    yield Finding(
        "steps to the peak per tenfold width, delta = 1",
        predicted=float(np.log(10) / (2 * np.log(1 + one))),
        measured=rate,
        tolerance=Tolerance(0.1, why="the peak falls on whole steps; the fraction drifts with the width"),
        uncertainty=error,
        note="at equal rescaled residuals",
    )
    yield Finding(
        "largest final curvature, times the step size",
        predicted=2.0,
        measured=float(wide.final.max()),
        relation="at most",
        tolerance=Tolerance(0.0, why="a stable minimum has eta lambda below 2"),
    )
    yield Finding(
        "largest final loss, of order one",
        predicted=1.0,
        measured=float(wide.final_loss.max()),
        relation="at most",
        tolerance=Tolerance(0.0, why="the claim is O(1); afterwards the loss contracts exponentially"),
    )
    small = float(data.excess.min())
    widest = data.isel(width=-1).sel(excess=small)
    yield Finding(
        f"final curvature at delta = {small:g} and the largest width",
        predicted=float(cs.small_excess_curvature(small)),
        measured=float(widest.final.mean()),
        tolerance=Tolerance(1.0 * small**3, why="the series stops at delta^2; coefficients are of order one"),
    )
    yield Finding(
        f"peak of u at delta = {small:g} and the largest width",
        predicted=float(cs.small_excess_peak(small)),
        measured=float(widest.peak_square.max()),
        tolerance=Tolerance(1.0 * small**4, why="the series stops at delta^3; coefficients are of order one"),
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    import matplotlib.pyplot as plt

    figure.set_size_inches(11, 3.8)
    first, second, third = figure.subplots(1, 3)
    ink = plt.rcParams["text.color"]
    one = float(data.excess[np.argmin(np.abs(data.excess.values - 1.0))])
    for i, m in enumerate(data.width.values):
        loss = data.example.sel(width=m, excess=one)
        first.semilogy(data.step[:40], loss[:40] / m, color=f"C{i}", label=rf"$m = 10^{{{np.log10(m):.0f}}}$")
    first.set(title=rf"Loss over width, $\delta = {one:g}$", xlabel="step", ylabel=r"$\mathcal{L}/m$", ylim=(1e-9, 1))
    first.legend(loc="upper right")
    for i, d in enumerate(data.excess.values):
        peak = (data.peak / data.width).sel(excess=d)
        second.errorbar(
            data.width, peak.mean("seed"), peak.std("seed"), fmt="o-", ms=4, color=f"C{i}", label=rf"$\delta = {d:g}$"
        )
        time = data.time.sel(excess=d)
        third.errorbar(data.width, time.mean("seed"), time.std("seed"), fmt="o", ms=4, color=f"C{i}")
        line = np.asarray(cs.time_to_peak(d, data.width.values))
        third.plot(data.width, line + float(time.mean("seed")[-1]) - line[-1], "--", color=ink, lw=1)
    second.set(
        title="Peak over width", xlabel="width $m$", ylabel=r"$\max_t \mathcal{L}/m$", xscale="log", yscale="log"
    )
    second.legend(ncols=2, loc="lower right")
    second.set_ylim(top=1)
    third.set(title="Time to peak", xlabel="width $m$", ylabel="steps", xscale="log")
    third.plot([], [], "--", color=ink, lw=1, label=r"slope $1/(2\log(1+\delta))$")
    third.legend(loc="upper left")
