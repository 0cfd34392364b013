"""Theorem 3.3.1: the catapult of one sample, over widths and step sizes."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant import lab
from secant.dynamics import Stop, simulate
from secant.lab import Figure, Findings, Seeded, claim, estimate, fits_memory, option, options, sheet, study, unfold
from secant.studies.shared.numerics.exponents import exponent
from secant.studies.shared.numerics.tables import on_tables
from secant.studies.shared.two_layer.heights import heights, peaks_at_infinite_width
from secant.studies.shared.two_layer.starts import random_starts
from secant.theory.catapult import one_sample as ct
from secant.theory.catapult import scaling as cs
from secant.theory.catapult.infinite_width import small_excess_orders

LONGER = 50
"""A run goes on for this many times its recorded steps, until it has come to rest."""


class Config(Seeded):
    widths: tuple[int, ...] = options.widths(
        (1_000, 10_000, 100_000), (100, 1_000, 10_000, 100_000, 1_000_000), at_least=100, at_most=10**8, ascending=True
    )
    excesses: tuple[float, ...] = option(
        (0.2, 0.5, 1.0, 1.5), at_least=0.05, at_most=1.95, ascending=True, help="step size times curvature, minus 2"
    )
    target: float = option(0.5, at_least=-2, at_most=2, help="label of the sample")
    draws: int = options.draws(32, 64, 256, at_least=2, at_most=10**6)
    steps: int = options.steps(400, at_least=10, at_most=10**6)

    def check(self) -> None:
        """Refuses what no memory holds."""
        runs = len(self.widths) * self.draws * len(self.excesses) * self.steps
        fits_memory(40 * runs + 16 * max(self.widths), "draws, steps or widths")


@study("thesis/thm-3.3.1", section="3.3.1", title="The catapult: high as the width, long as its logarithm")
def run(config: Config) -> xr.Dataset:
    r"""For $\eta \in [(2 + \varepsilon)/\lambda_0, (4 - \varepsilon)/\lambda_0]$ with
    $\varepsilon = \Theta(\log m/\sqrt m)$ the loss of the quadratic model on one sample rises to
    $\Omega\big(m(\eta\lambda_0 - 2)^2/\log m\big)$ and then falls to $O(1)$.

    More is true, because the rescaled map does not contain the width. With $\delta = \eta\lambda_0 - 2$ the peak is
    proportional to $m$ itself and comes after $\log m/(2\log(1 + \delta)) + O(1)$ steps. The final curvature does
    not depend on the width. For small $\delta$ the peak is $\frac{\delta^2}{2} + \frac{\delta^3}{3}$ in units of
    $md/(2\eta^2\|x\|^2)$, and $\eta\lambda_\infty = 2 - \delta - \frac23\delta^2$.
    """
    networks = random_starts(jax.random.key(config.seed), config.widths, config.draws)
    # The start comes from the network. The step size is chosen so that all networks have the same excess.
    runs = simulate(
        lambda network, excess: ct.catapult((2 + excess) / network["curvature"], network["width"], config.target),
        lambda network: (network["output"], network["curvature"]),
        config.steps,
        over={"network": networks, "excess": np.asarray(config.excesses)},
        probes={"square": lambda s: s.a**2, "curvature": lambda s: s.v, "residual": lambda s: s.a},
        stop=Stop(converged=lambda s: (jnp.abs(s.a) < 1e-12) & (s.v < 2)),
    ).dataset.assign(output=("network", networks["output"]), before=("network", networks["curvature"]))
    runs = unfold(runs, "network", width=config.widths, seed=range(config.draws))
    lr = ((2 + runs.excess) / runs.before).transpose("width", "seed", "excess")
    bend = on_tables(ct.rescaled_target, lr, runs.width, config.target)
    loss = on_tables(ct.loss_from_square, runs.square, lr, runs.width)
    # A catapult may end as flat as eta lambda = 0.001. It then takes thousands of steps to fit the sample.
    rest = jax.jit(partial(cs.catapult_outcome, steps=LONGER * config.steps))
    first, last = (runs.isel(step=step, drop=True) for step in (0, -1))
    end = on_tables(rest, last.residual, last.curvature, bend)
    found = {
        "peak": loss.max("step", skipna=False),
        "peak_square": runs.square.max("step", skipna=False),
        "time": runs.square.argmax("step", skipna=False),
        "start": np.sqrt(first.square * runs.width),
        "start_square": first.square,
        "first": loss.isel(step=0, drop=True),
        "bend": np.abs(bend),
        "final": end.curvature,
        "final_loss": on_tables(ct.loss_from_square, end.square, lr, runs.width),
        "example": loss.isel(seed=0, drop=True),
        "output": runs.output,
    }
    return xr.Dataset(found)


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    # The theorem has its range of step sizes from log m / sqrt m beyond the edge to as far below the border.
    margin = np.log(data.width) / np.sqrt(data.width)
    inside = (data.excess >= margin) & (data.excess <= 2 - margin)
    # The theorem predicts nothing outside this range.
    some, outside = bool(inside.any()), "no step size is within the theorem's range at these widths"
    unit, largest = 1.0 if some else np.nan, {"width": np.max(np.flatnonzero(inside.any("excess")), initial=0)}
    limits = peaks_at_infinite_width(data.excess, phases=256, steps=400)
    least, peak = float((limits[0] / data.excess**2).min()), "largest width: peak over the"
    names = f"{peak} lowest at infinite width, smallest", f"{peak} highest at infinite width, largest"
    note = rf"$u \ge {least:.2f}\,\delta^2$ there: the theorem's lower bound needs no logarithm of the width"
    top, kept = data.isel(largest), inside.isel(largest)
    yield from heights(names, top, data.excess, limits, kept, outside, bound=unit, note=note)
    needed = 2 * float(cs.time_to_peak(config.excesses[0], float(config.widths[-1])))
    few = f"{config.steps} steps are too few for the slowest run to rise and to fall, which takes {needed:.0f}"
    judged: dict[str, Any] = {"given": some and config.steps >= needed, "otherwise": few if some else outside}
    for key, name, values, times, why in (
        ("curvature", "curvature, times the step size", data.final, 2, r"a stable minimum has $\eta\lambda < 2$"),
        ("loss", "loss, of order one", data.final_loss, 1, "the claim: $O(1)$; the loss then contracts exponentially"),
    ):
        found = values.where(inside).max()
        yield claim(f"final-{key}", f"largest final {name}", **judged).at_most(times * unit, found, why)
    ratios = (data["first"] / ((data.output - config.target) ** 2 / 2)).values
    name = (
        r"loss at the start from the rescaled square, $um/(2\eta^2)$, over half the squared residual: furthest from 1"
    )
    why = "an identity: rounding, of the difference of an output and its label"
    yield claim("first-loss", name).equal(1.0, ratios.flat[np.argmax(np.abs(ratios - 1))], 1e-9, why)
    yield from _exponents(data, config)
    third, second = small_excess_orders()
    why = r"extrapolated from $\delta = 0.1$ and two halvings; the third order is left"
    for key, name, found, series in (
        ("peak", r"$(u - \delta^2/2)/\delta^3$ of the peak", third, float(cs.small_excess_peak(1.0)) - 0.5),
        ("end", r"$(2 - \delta - \eta\lambda)/\delta^2$ of the end", second, 1 - float(cs.small_excess_curvature(1.0))),
    ):
        name = rf"{name} as $\delta \to 0$, infinite width"
        yield claim(f"series-{key}", name).equal(series, found, 0.1**3, why)


def _exponents(data: xr.Dataset, config: Config) -> Findings:
    one = float(data.excess[np.argmin(np.abs(data.excess.values - 1.0))])
    at_one, decades = data.sel(excess=one), np.log10(config.widths) - np.mean(np.log10(config.widths))
    why = "one width has no exponent" if len(decades) < 2 else "some networks are too narrow: they diverge"
    judged: dict[str, Any] = {"given": len(decades) > 1 and np.isfinite(at_one.peak).all(), "otherwise": why}
    why = r"the start is of order $1/\sqrt m$; phases are spread evenly over networks"
    finite, peaks = lab.Tolerance(1 / np.sqrt(min(config.widths)), why=why), at_one.peak.rename(seed="network")
    yield claim("peak-exponent", rf"exponent of the peak loss in the width, $\delta = {one:g}$", **judged).equal(
        1.0, lambda: exponent(peaks), finite
    )
    # A network that starts close to its target waits longer, whatever its width.
    times = (at_one.time + np.log(at_one.start) / np.log1p(one)).transpose("seed", "width").values
    # Networks of different widths are independent draws: every row is a repeat of the whole fit.
    slope, found = cs.time_to_peak(one, 10.0) - cs.time_to_peak(one, 1.0), times @ decades / (decades**2).sum()
    yield claim("peak-time", rf"steps to the peak per tenfold width, $\delta = {one:g}$", **judged).equal(
        slope, lambda: estimate(found), finite, note="at equal rescaled residuals"
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    first, second, third = sheet.panels(figure, (11, 3.8), 3)
    one = float(data.excess[np.argmin(np.abs(data.excess.values - 1.0))])
    for i, m in enumerate(data.width.values):
        loss = data.example.sel(width=m, excess=one)[:40]
        first.semilogy(loss.step, loss / m, color=f"C{i}", label=rf"$m = 10^{{{np.log10(m):.0f}}}$")
    for i, d in enumerate(data.excess.values):
        time, line = data.time.sel(excess=d), np.asarray(cs.time_to_peak(d, data.width.values))
        sheet.spread(second, (data.peak / data.width).sel(excess=d), "seed", rf"$\delta = {d:g}$", color=f"C{i}")
        sheet.spread(third, time, "seed", fmt="o", color=f"C{i}")
        sheet.guide(third, data.width, line + float(time.mean("seed")[-1]) - line[-1], lw=1)
    sheet.guide(third, [], [], r"slope $1/(2\log(1+\delta))$", lw=1)
    title = rf"Loss over width, $\delta = {one:g}$"
    sheet.label(first, title, "step", r"$\mathcal{L}/m$", "upper right", ylim=(1e-9, 1))
    scales, legend = {"xscale": "log", "yscale": "log"}, {"ncols": 2, "loc": "lower right"}
    sheet.label(second, "Peak over width", "width $m$", r"$\max_t \mathcal{L}/m$", legend, **scales)
    second.set_ylim(top=1)
    sheet.label(third, "Time to peak", "width $m$", "steps", "upper left", xscale="log")
