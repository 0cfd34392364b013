"""Figure 14: what the third order adds to the quadratic expansion of a network."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, claims, reuse, sheet, study
from secant.setups.edge.expansions import MODELS, TaylorConfig, first_above, obstacle, one_model, peaks
from secant.studies.quadreg.sec4.fig_7 import run as figure_7

NETWORK, FROM_START, QUADRATIC, CUBIC = MODELS


@dataclass(frozen=True)
class Config(TaylorConfig):
    pass


@study(
    "quadreg/fig-14", section="D.2", title="Second and third order of a network at the edge",
    statement=r"""
    On the run of figure 7: the loss of the expansion at the start tracks the network's on the way to the edge. Expanded
    near the edge, the quadratic model has the first peak of the residual $|z_1|$ along the top mode, up to a shift in
    time; the oscillations that follow are faster and damped more quickly in the network. The third order improves
    size and period of the oscillations, and still misses quantitative features.""",
)
def run(config: Config) -> xr.Dataset:
    return reuse(figure_7, config)


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    why = obstacle(data)
    network, early = one_model(data, NETWORK), one_model(data, FROM_START)
    half = max(first_above(network) // 2, 1)
    falls = [float(np.log(one.loss.sel(step=half) / one.loss.sel(step=0))) for one in (early, network)]
    yield claims.equal(
        "fall of log(loss) on the first half of the way to the edge, expansion at the start over network", 1.0,
        np.nan if why else falls[0] / falls[1], 0.1, "'good approximation', read as within ten percent",
        note=why or f"{half} steps, in which the loss of the network falls to {np.exp(falls[1]):.2g} of its start",
    )
    found = {name: peaks(data, name) for name in (NETWORK, QUADRATIC, CUBIC) if name in data.model}
    for name in (QUADRATIC, CUBIC):
        yield claims.equal(
            f"height of the first peak of the residual along the mode, {name} over network", 1.0,
            np.nan if why else float(found[name].height[0] / found[NETWORK].height[0]), 0.25,
            "'the same shape', read as within a quarter",
            note=why or f"peaks at steps {_listed(found[name])}; network {_listed(found[NETWORK])}",
        )
    yield from _oscillations(found, why or _too_short(found))


def _too_short(found: dict[str, xr.Dataset]) -> str:
    """Why there is no period; nothing if there is one."""
    once = [name for name, one in found.items() if one.sizes["step"] < 2]
    return f"one peak only within these steps: {', '.join(once)}" if once else ""


def _oscillations(found: dict[str, xr.Dataset], why: str) -> Findings:
    """Steps from peak to peak, and how much lower the second peak is; where there is one peak, nothing is decided."""
    nothing = dict.fromkeys((NETWORK, QUADRATIC, CUBIC), np.nan)
    count = 0 if why else min(one.sizes["step"] for one in found.values())
    period = nothing if why else {n: float(one.step[count - 1] - one.step[0]) / (count - 1) for n, one in found.items()}
    fall = nothing if why else {name: float(one.height[1] / one.height[0]) for name, one in found.items()}
    yield claims.at_most(
        "mean steps from peak to peak, network over quadratic model", 1.0, period[NETWORK] / period[QUADRATIC],
        "an inequality: faster in the network",
        note=why or f"over {count} peaks: " + ", ".join(f"{name} {steps:.0f}" for name, steps in period.items()),
    )
    yield claims.at_most(
        "error of the cubic model in these steps, over that of the quadratic one", 1.0,
        _over(period[CUBIC] - period[NETWORK], period[QUADRATIC] - period[NETWORK]),
        "an inequality: the third order improves the period", note=why,
    )
    yield claims.at_most(
        "error of the cubic model in the second peak over the first, over that of the quadratic one", 1.0,
        _over(np.log(fall[CUBIC] / fall[NETWORK]), np.log(fall[QUADRATIC] / fall[NETWORK])),
        "an inequality: the third order improves the size",
        note=why or ", ".join(f"{name} {share:.2f}" for name, share in fall.items()),
    )
    yield claims.at_most(
        "second peak over the first, network over quadratic model", 1.0, fall[NETWORK] / fall[QUADRATIC],
        "an inequality: damped more quickly in the network",
        note=why
        or "as appendix D.2 has it; the caption of figure 14 says that the oscillations are larger in the network",
    )


def _over(a: float, b: float) -> float:
    """The size of one error over that of another; NaN where neither model has any."""
    return float(np.divide(abs(a), abs(b))) if b else np.inf if a else np.nan


def _listed(found: xr.Dataset) -> str:
    return ", ".join(f"{int(step):,}" for step in found.step[:4])


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    ink = sheet.ink()
    colours = {NETWORK: ink, FROM_START: "C1", QUADRATIC: "C0", CUBIC: "C2"}
    left, middle, right = sheet.panels(figure, (11, 4), 3)
    for name in (NETWORK, FROM_START):
        one = one_model(data, name)
        left.semilogy(one.step, one.loss, color=colours[name], lw=1.2, label=name)
    left.set(title="Loss", xlabel="step", ylabel="loss")
    near = int(data.begins.max())
    for axes, other in ((middle, QUADRATIC), (right, CUBIC)):
        for name in [n for n in (NETWORK, other) if n in data.model]:
            size = np.abs(one_model(data, name).z.sel(step=slice(near, None)))
            axes.semilogy(size.step, size, color=colours[name], lw=1.0, label=name)
        axes.set(title=f"Residual along the mode, order {2 if other == QUADRATIC else 3}", xlabel="step")
    middle.set_ylabel(r"$|z_1|$")
    for axes in (left, middle, right):
        axes.set_ylim(top=30 * axes.get_ylim()[1])  # room for the legend
        axes.legend(loc="upper right", fontsize="small")
