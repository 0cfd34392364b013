"""Figure 7: how much of the edge of stability the quadratic expansion of a network has."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, claims, sheet, study
from secant.setups.edge.expansions import (
    MODELS,
    TaylorConfig,
    first_above,
    last_steps,
    obstacle,
    one_model,
    peaks,
    run_with_polynomials,
    settled,
)

NETWORK, FROM_START, QUADRATIC, _ = MODELS


@dataclass(frozen=True)
class Config(TaylorConfig):
    pass


@study(
    "quadreg/fig-7", section="4", title="A network and its quadratic expansions at the edge",
    statement=r"""
    An erf network on two classes. Its quadratic expansion at the start has the right curvature for early times and
    not later. Expanded shortly before $y = \eta\lambda_1 - 2$ first becomes positive, it crosses the edge when the
    network does and comes back, with several oscillations whose period and size are soon different. Over even and over
    odd steps $y$ comes to rest, for both at a mean that is not zero, and negative.""",
)
def run(config: Config) -> xr.Dataset:
    return run_with_polynomials(config)


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    why = obstacle(data)
    found = {} if why else measured(data)
    early = "largest relative error of the curvature in the first twentieth of the way to the edge"
    yield claims.at_most(
        f"expansion at the start: {early}", 0.1, found.get("early", np.nan),
        "an inequality: a good approximation at early times, within ten percent", note=why,
    )
    yield claims.at_least(
        "the same until the network's first peak, over that", 2.0, found.get("later", np.nan),
        "an inequality: not a good one later", note=why,
    )
    yield claims.equal(
        "expansion near the edge: step of its first crossing, over the network's, both counted from the expansion", 1.0,
        found.get("crossing", np.nan), 1 / config.lead + 0.05, "a step, and five percent", note=why,
    )
    for name in (NETWORK, QUADRATIC):
        yield claims.at_most(
            f"{name}: lowest curvature after the first peak", 0.0, found.get(f"lowest, {name}", np.nan),
            "an inequality: back below the edge", note=why,
        )
    yield claims.equal(
        "height of the first peak of the residual along the mode, expansion near the edge over network", 1.0,
        found.get("height", np.nan), 0.25, "'well approximates', read as within a quarter", note=why,
    )
    for name in (NETWORK, QUADRATIC):
        ends = {parity: found.get(f"{parity}, {name}", np.nan) for parity in ("mean", "even", "odd")}
        yield claims.at_most(
            f"{name}: mean distance from the edge at the end", 0.0, ends["mean"], "an inequality: below it",
            note=why or _ending(ends),
        )


def _ending(ends: dict[str, float]) -> str:
    if np.isnan(ends["mean"]):
        return "it still moves in the last steps; take more"
    return f"over even steps {ends['even']:.2g}, over odd {ends['odd']:.2g}"


def measured(data: xr.Dataset) -> dict[str, float]:
    """What the models show of the edge, where nothing is in the way of it."""
    network, early, quadratic = (one_model(data, name) for name in (NETWORK, FROM_START, QUADRATIC))
    crossing, near, again = first_above(network), int(data.begins.max()), first_above(quadratic)
    gap = np.abs(early.y - network.y) / (network.y + 2)
    start, peak = (float(gap.sel(step=slice(0, n)).max()) for n in (max(crossing // 20, 1), _first_peak(data, NETWORK)))
    # A model that never crosses takes forever; one that is expanded at the crossing itself tells nothing.
    ahead = (again - near if again >= 0 else np.inf) / (crossing - near) if crossing > near else np.nan
    heights = [float(peaks(data, name).height[0]) for name in (NETWORK, QUADRATIC)]
    found = {
        "early": start, "later": float(np.divide(peak, start)), "crossing": ahead, "height": heights[1] / heights[0],
    }
    for name in (NETWORK, QUADRATIC):
        after = one_model(data, name).sel(step=slice(_first_peak(data, name), None))
        found[f"lowest, {name}"] = float(after.y.min())
        found |= {f"{parity}, {name}": float(value) for parity, value in settled(data, name).items()}
    return found


def _first_peak(data: xr.Dataset, name: str) -> int:
    return int(peaks(data, name).step[0])


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    from matplotlib.lines import Line2D

    ink = sheet.ink()
    colours = {NETWORK: ink, FROM_START: "C1", QUADRATIC: "C0"}
    left, middle, right = sheet.panels(figure, (11, 4.2), 3)
    near = int(data.begins.max())
    drawn = [name for name in (NETWORK, QUADRATIC) if name in data.model]
    until = None if obstacle(data) else _first_peak(data, NETWORK)
    for name in (NETWORK, FROM_START):
        one = one_model(data, name).sel(step=slice(0, until))
        left.plot(one.step, one.y + 2, color=colours[name], lw=1.3)
    for name in drawn:
        one = one_model(data, name)
        even = one.sel(step=slice(near, None)).isel(step=slice(0, None, 2))
        middle.plot(even.step, even.y, color=colours[name], lw=1.0)
        last = last_steps(data, name)
        for parity, style in ((0, "-"), (1, "--")):
            part = last.isel(step=last.step % 2 == parity)
            right.plot(part.step, part.y, style, color=colours[name], lw=1.3)
    left.set(title="Curvature from the start", xlabel="step", ylabel=r"$\eta\lambda_1$")
    middle.set(title="Near the edge, even steps", xlabel="step", ylabel=r"$y = \eta\lambda_1 - 2$")
    right.set(title="Last steps", xlabel="step", ylabel=r"$y = \eta\lambda_1 - 2$")
    left.axhline(2, color=ink, ls=":", lw=1.0)
    for axes in (middle, right):
        axes.axhline(0, color=ink, ls=":", lw=1.0)
    handles = [Line2D([], [], color=colour, label=name) for name, colour in colours.items()]
    handles += [
        Line2D([], [], color="0.5", ls=style, label=f"{n} steps") for n, style in (("even", "-"), ("odd", "--"))
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
