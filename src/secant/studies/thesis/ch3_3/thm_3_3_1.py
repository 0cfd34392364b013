"""Theorem 3.3.1: the catapult of one sample, over widths and step sizes."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.dynamics import Stop, simulate
from secant.lab import (
    Estimate,
    Figure,
    Findings,
    Tolerance,
    claims,
    estimate,
    fits_memory,
    option,
    scaled,
    sheet,
    study,
)
from secant.setups.two_layer.models import starting_points
from secant.theory import catapult as ct
from secant.theory import catapult_scaling as cs
from secant.theory.catapult_limit import wide_limit
from secant.theory.power_law import fit_power_law

LONGER = 50
"""So many times its recorded steps a run goes on, until it has come to rest."""


@dataclass(frozen=True)
class Config:
    """Widths, step sizes and random networks."""

    widths: tuple[int, ...] = scaled(
        smoke=(1_000, 10_000, 100_000), laptop=(100, 1_000, 10_000, 100_000, 1_000_000), at_least=100, at_most=10**8,
        ascending=True, help="hidden neurons",
    )
    excesses: tuple[float, ...] = option(
        (0.2, 0.5, 1.0, 1.5), at_least=0.05, at_most=1.95, ascending=True, help="step size times curvature, minus 2"
    )
    target: float = option(0.5, at_least=-2, at_most=2, help="label of the sample")
    seeds: int = scaled(smoke=32, laptop=64, paper=256, at_least=2, at_most=10**6, help="random networks per width")
    steps: int = option(400, at_least=10, at_most=10**6, help="gradient-descent steps")
    seed: int = option(0, at_least=0, at_most=2**31, help="random seed")

    def check(self) -> None:
        """Refuses what no memory holds."""
        runs = len(self.widths) * self.seeds * len(self.excesses) * self.steps
        fits_memory(40 * runs + 16 * max(self.widths), "seeds, steps or widths")


@study(
    "thesis/thm-3.3.1", section="3.3.1", title="The catapult: high as the width, long as its logarithm",
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
        "output": jnp.concatenate([s[0] for s in starts]), "curvature": jnp.concatenate([s[1] for s in starts]),
        "width": jnp.repeat(jnp.asarray(widths, float), config.seeds),
    }
    traj = simulate(
        lambda network, excess: ct.catapult((2 + excess) / network["curvature"], network["width"], config.target),
        lambda network: (network["output"], network["curvature"]), config.steps,
        over={"network": networks, "excess": jnp.asarray(config.excesses)},
        probes={"square": lambda s: s.a**2, "curvature": lambda s: s.v, "residual": lambda s: s.a},
        stop=Stop(converged=lambda s: (jnp.abs(s.a) < 1e-12) & (s.v < 2)),
    ).dataset
    shape = (len(widths), config.seeds)
    square = traj.square.values.reshape(*shape, len(config.excesses), -1)
    curvature = traj.curvature.values.reshape(square.shape)
    lr = (2 + np.asarray(config.excesses)) / np.asarray(networks["curvature"]).reshape(*shape, 1)
    dims = ("width", "seed", "excess")
    loss = np.asarray(ct.loss_from_square(square, lr[..., None], widths[:, None, None, None]))
    bend = ct.rescaled_target(lr, widths[:, None, None], config.target)
    # A catapult may end as flat as eta lambda = 0.001, and then takes thousands of steps to fit the sample.
    last = traj.residual.values[..., -1].reshape(lr.shape[:2] + square.shape[2:3])
    end = jax.jit(lambda a, v, b: cs.catapult_outcome(a, v, b, steps=LONGER * config.steps))(
        last, curvature[..., -1], bend
    )
    return xr.Dataset(
        {
            "peak": (dims, loss.max(-1), {"long_name": "peak loss"}),
            "peak_square": (dims, square.max(-1), {"long_name": "peak of the rescaled square"}),
            "time": (dims, square.argmax(-1), {"long_name": "step of the peak"}),
            "start": (dims, np.sqrt(square[..., 0] * widths[:, None, None]), {"long_name": "residual, rescaled"}),
            "final": (dims, np.asarray(end.curvature), {"long_name": "final rescaled curvature"}),
            "start_square": (dims, square[..., 0]),
            "final_loss": (dims, np.asarray(ct.loss_from_square(end.square, lr, widths[:, None, None]))),
            "bend": (dims, np.abs(np.asarray(bend)), {"long_name": "size of the rescaled label"}),
            "example": (("width", "excess", "step"), loss[:, 0], {"long_name": "loss of the first network"}),
            "first": (dims, loss[..., 0], {"long_name": "loss at the start, from the rescaled square"}),
            "output": (dims[:2], np.asarray(networks["output"]).reshape(shape)),
        },
        coords={"width": widths, "excess": np.asarray(config.excesses), "step": traj.step.values},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    limit = wide_limit(jnp.asarray(config.excesses), steps=max(400, int(60 / min(config.excesses))))
    low, high = (xr.DataArray(np.asarray(f(limit.peak, axis=-1)), dims="excess") for f in (np.min, np.max))
    # The theorem has its range of step sizes from log m / sqrt m beyond the edge to as far below the border.
    margin = np.log(data.width) / np.sqrt(data.width)
    inside = (data.excess >= margin) & (data.excess <= 2 - margin)
    if not bool(inside.any()):
        for name, relation in CLAIMS.items():
            yield claims.undecided(name, np.nan, "no step size is within the theorem's range at these widths", relation)
    else:
        yield from _heights(data, inside, low, high)
        yield from _rest(data, inside, config)
    yield claims.equal(
        "loss at the start from the rescaled square, u m / (2 eta^2), over half the squared residual: furthest from 1",
        1.0, _furthest(data["first"] / ((data.output - config.target) ** 2 / 2)), 1e-9,
        "an identity: rounding, of the difference of an output and its label",
    )
    yield from _exponents(data, config)
    yield from _series()


def _furthest(ratios: xr.DataArray) -> float:
    """Of several ratios that with the largest distance from 1."""
    values = ratios.values.ravel()
    return float(values[np.argmax(np.abs(values - 1))])


CLAIMS: dict[str, Any] = {
    "largest width: peak over the lowest at infinite width, smallest": "at least",
    "largest width: peak over the highest at infinite width, largest": "at most",
    "largest final curvature, times the step size": "at most", "largest final loss, of order one": "at most",
}
"""What is claimed of every run in the theorem's range of step sizes."""


def _heights(data: xr.Dataset, inside: xr.DataArray, low: xr.DataArray, high: xr.DataArray) -> Findings:
    lowest, highest, *_ = CLAIMS
    kept = inside.any("excess") & (inside.width == inside.width[inside.any("excess")].max())
    wide, range_ = data.sel(width=kept).isel(width=0), inside.sel(width=kept).isel(width=0)
    # To first order the start adds its own square to the peak, and w, which alternates, b sqrt(u) to the excess.
    blur = wide.start_square / high + wide.bend * np.sqrt(high) / data.excess
    near = Tolerance(
        float(blur.where(range_).max()), why="what the start adds at finite width, u(0) and b sqrt(u)/delta"
    )
    yield claims.at_least(
        lowest, 1.0, (wide.peak_square / low).where(range_).min(), slack=near,
        note=f"so u is at least {float((low / data.excess**2).min()):.2f} delta^2 there: no logarithm of the width is "
        "needed in the theorem's lower bound",
    )
    yield claims.at_most(highest, 1.0, (wide.peak_square / high).where(range_).max(), slack=near)


def _rest(data: xr.Dataset, inside: xr.DataArray, config: Config) -> Findings:
    *_, curvature, loss = CLAIMS
    needed = 2 * float(cs.time_to_peak(config.excesses[0], float(config.widths[-1])))
    if config.steps < needed:
        why = f"{config.steps} steps are too few for the slowest run to rise and to fall, which takes {needed:.0f}"
        yield claims.undecided(curvature, 2.0, why, "at most")
        yield claims.undecided(loss, 1.0, why, "at most")
        return
    yield claims.at_most(curvature, 2.0, data.final.where(inside).max(), "a stable minimum has eta lambda below 2")
    yield claims.at_most(
        loss, 1.0, data.final_loss.where(inside).max(), "the claim is O(1); afterwards the loss contracts exponentially"
    )


def _exponents(data: xr.Dataset, config: Config) -> Findings:
    one = float(data.excess[np.argmin(np.abs(data.excess.values - 1.0))])
    at_one, names = (
        data.sel(excess=one), ("exponent of the peak loss in the width", "steps to the peak per tenfold width"),
    )
    rate = float(cs.time_to_peak(one, 10.0) - cs.time_to_peak(one, 1.0))
    why = "one width has no exponent" if len(config.widths) < 2 else "some networks are too narrow: they diverge"
    if len(config.widths) < 2 or not bool(np.isfinite(at_one.peak).all()):
        for name, predicted in zip(names, (1.0, rate), strict=True):
            yield claims.undecided(f"{name}, delta = {one:g}", predicted, why)
        return
    law = fit_power_law(data.width, at_one.peak.transpose("width", "seed"))
    finite = Tolerance(
        1 / np.sqrt(min(config.widths)), why="the start is of order 1/sqrt m; phases are spread evenly over networks"
    )
    yield claims.equal(f"{names[0]}, delta = {one:g}", 1.0, Estimate(law.exponent, law.error, law.freedom), finite)
    # A network that starts close to its target waits longer, whatever its width.
    times = (at_one.time + np.log(at_one.start) / np.log1p(one)).transpose("seed", "width").values
    decades = np.log10(config.widths) - np.mean(np.log10(config.widths))
    # Networks of different widths are independent draws: every row is a repeat of the whole fit.
    yield claims.equal(
        f"{names[1]}, delta = {one:g}", rate, estimate(times @ decades / (decades**2).sum()), finite,
        note="at equal rescaled residuals",
    )


def _series() -> Findings:
    """The orders in the excess at which the series end, extrapolated to zero by Richardson's scheme."""
    largest = 0.1
    deltas = largest / 2.0 ** np.arange(3)
    limit = wide_limit(jnp.asarray(deltas), phases=64, steps=int(60 / deltas[-1]))
    # Between whole steps the orbit would peak a little higher: of all phases the highest is nearest to it.
    peak = (np.asarray(limit.peak).max(axis=-1) - deltas**2 / 2) / deltas**3
    end = (2 - deltas - np.asarray(limit.curvature).mean(axis=-1)) / deltas**2
    for name, table, series in (
        ("(u - delta^2/2) / delta^3 of the peak", peak, float(cs.small_excess_peak(1.0)) - 0.5),
        ("(2 - delta - eta lambda) / delta^2 of the end", end, 1 - float(cs.small_excess_curvature(1.0))),
    ):
        once = 2 * table[1:] - table[:-1]
        yield claims.equal(
            f"{name} as delta goes to 0, infinite width", series, (4 * once[1] - once[0]) / 3, largest**3,
            "extrapolated from delta = 0.1 and two halvings, the third order is left",
        )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    first, second, third = sheet.panels(figure, (11, 3.8), 3)
    ink = sheet.ink()
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
