"""Figure 14: what the third order adds to the quadratic expansion of a network."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from secant.lab import Finding, Tolerance, reuse, study
from secant.studies.quadreg._taylor import MODELS, TaylorConfig, first_above, one_model, peaks
from secant.studies.quadreg.fig_7 import run as figure_7

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NETWORK, FROM_START, QUADRATIC, CUBIC = MODELS


@dataclass(frozen=True)
class Config(TaylorConfig):
    pass


@study(
    "quadreg/fig-14",
    section="D.2",
    title="Second and third order of a network at the edge",
    statement=r"""
    On the run of figure 7: the loss of the expansion at the start tracks the network's on the way to the edge. Expanded
    near the edge, the quadratic model has the first peak of the residual $|z_1|$ along the top mode, up to a shift in
    time; the oscillations that follow are faster and damped more quickly in the network. The third order improves
    size and period of the oscillations, and still misses quantitative features.""",
)
def run(config: Config) -> xr.Dataset:
    return reuse(figure_7, config)


@run.findings
def check(data: xr.Dataset, config: Config) -> Iterator[Finding]:
    network, early = one_model(data, NETWORK), one_model(data, FROM_START)
    ahead = slice(0, max(first_above(network) // 2, 1))
    ratio = early.loss.sel(step=ahead) / network.loss.sel(step=ahead)
    yield Finding(
        "loss of the expansion at the start over the network's, furthest from one on the first half of the way to the "
        "edge",
        predicted=1.0,
        measured=float(ratio[int(np.abs(np.log(ratio.values)).argmax())]),
        tolerance=Tolerance(0.1, why="'good approximation', read as within ten percent"),
    )
    found = {name: peaks(data, name) for name in (NETWORK, QUADRATIC, CUBIC)}
    heights = {name: float(one.height[0]) for name, one in found.items()}
    for name in (QUADRATIC, CUBIC):
        yield Finding(
            f"height of the first peak of the residual along the mode, {name} over network",
            predicted=1.0,
            measured=heights[name] / heights[NETWORK],
            tolerance=Tolerance(0.2, why="'the same shape', read as within 20 percent"),
            note=f"peaks at steps {_listed(found[name])}; network {_listed(found[NETWORK])}",
        )
    if all(one.sizes["step"] > 1 for one in found.values()):
        yield from _oscillations(found)


def _oscillations(found: dict[str, xr.Dataset]) -> Iterator[Finding]:
    count = min(one.sizes["step"] for one in found.values())
    period = {name: float(one.step[count - 1] - one.step[0]) / (count - 1) for name, one in found.items()}
    listed = ", ".join(f"{name} {steps:.0f}" for name, steps in period.items())
    yield Finding(
        "mean steps from peak to peak, network over quadratic model",
        predicted=1.0,
        measured=period[NETWORK] / period[QUADRATIC],
        tolerance=Tolerance(0.0, why="an inequality: faster in the network"),
        relation="at most",
        note=f"over {count} peaks: {listed}",
    )
    yield Finding(
        "error of the cubic model in these steps, over that of the quadratic one",
        predicted=1.0,
        measured=abs(period[CUBIC] - period[NETWORK]) / abs(period[QUADRATIC] - period[NETWORK]),
        tolerance=Tolerance(0.0, why="an inequality: the third order improves the period"),
        relation="at most",
    )
    fall = {name: float(one.height[1] / one.height[0]) for name, one in found.items()}
    yield Finding(
        "error of the cubic model in the second peak over the first, over that of the quadratic one",
        predicted=1.0,
        measured=abs(np.log(fall[CUBIC] / fall[NETWORK])) / abs(np.log(fall[QUADRATIC] / fall[NETWORK])),
        tolerance=Tolerance(0.0, why="an inequality: the third order improves the size"),
        relation="at most",
        note=", ".join(f"{name} {share:.2f}" for name, share in fall.items()),
    )
    yield Finding(
        "second peak over the first, network over quadratic model",
        predicted=1.0,
        measured=fall[NETWORK] / fall[QUADRATIC],
        tolerance=Tolerance(0.0, why="an inequality: damped more quickly in the network"),
        relation="at most",
        note="as appendix D.2 has it; the caption of figure 14 says that the oscillations are larger in the network",
    )


def _listed(found: xr.Dataset) -> str:
    return ", ".join(f"{int(step):,}" for step in found.step[:4])


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    import matplotlib.pyplot as plt

    ink = plt.rcParams["text.color"]
    colours = {NETWORK: ink, FROM_START: "C1", QUADRATIC: "C0", CUBIC: "C2"}
    figure.set_size_inches(11, 4)
    left, middle, right = figure.subplots(1, 3)
    for name in (NETWORK, FROM_START):
        one = one_model(data, name)
        left.semilogy(one.step, one.loss, color=colours[name], lw=1.2, label=name)
    left.set(title="Loss", xlabel="step", ylabel="loss")
    near = int(data.begins.max())
    for axes, other in ((middle, QUADRATIC), (right, CUBIC)):
        for name in (NETWORK, other):
            size = np.abs(one_model(data, name).z.sel(step=slice(near, None)))
            axes.semilogy(size.step, size, color=colours[name], lw=1.0, label=name)
        axes.set(title=f"Residual along the mode, order {2 if other == QUADRATIC else 3}", xlabel="step")
    middle.set_ylabel(r"$|z_1|$")
    for axes in (left, middle, right):
        axes.set_ylim(top=30 * axes.get_ylim()[1])  # room for the legend
        axes.legend(loc="upper right", fontsize="small")
