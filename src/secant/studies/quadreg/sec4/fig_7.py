"""Figure 7: how much of the edge of stability the quadratic expansion of a network has."""

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, claim, sheet, study
from secant.studies.shared.edge import expansions
from secant.studies.shared.edge.expansions import MODELS, TaylorConfig, first_above, one_model, peaks

NETWORK, FROM_START, QUADRATIC, _ = MODELS


@study("quadreg/fig-7", section="4", title="A network and its quadratic expansions at the edge")
def run(config: TaylorConfig) -> xr.Dataset:
    r"""An erf network on two classes. Its quadratic expansion at the start has the right curvature for early times and
    not later. Expanded shortly before $y = \eta\lambda_1 - 2$ first becomes positive, it crosses the edge when the
    network does and comes back, with several oscillations whose period and size are soon different. Over even and over
    odd steps $y$ comes to rest, for both at a mean that is not zero, and negative.
    """
    return expansions.run_with_polynomials(config)


@run.findings
def check(data: xr.Dataset, config: TaylorConfig) -> Findings:
    why = expansions.obstacle(data)
    found = {} if why else measured(data)
    early = found.get("early", np.nan)
    sentence = "expansion at the start: largest relative error of the curvature"
    yield claim("early", f"{sentence} in the first twentieth of the way to the edge").at_most(
        0.1, early, "an inequality: a good approximation at early times, within ten percent", note=why
    )
    yield claim("later", "the same until the network's first peak, over that").at_least(
        2.0, found.get("later", np.nan), "an inequality: not a good one later", note=why
    )
    sentence = "expansion near the edge: steps from the expansion to its first crossing, over the network's"
    yield claim("crossing", sentence).equal(
        1.0, found.get("crossing", np.nan), 1 / config.lead + 0.05, "a step, and five percent", note=why
    )
    keys = {NETWORK: "network", QUADRATIC: "quadratic"}
    for name, key in keys.items():
        lowest = found.get(f"lowest, {name}", np.nan)
        yield claim(f"lowest-{key}", f"{name}: lowest curvature after the first peak").at_most(
            0.0, lowest, "an inequality: back below the edge", note=why
        )
    sentence = "height of the first peak of the residual along the mode, expansion near the edge over network"
    yield claim("height", sentence).equal(
        1.0, found.get("height", np.nan), 0.25, "'well approximates', read as within a quarter", note=why
    )
    for name, key in keys.items():
        mean, even, odd = (found.get(f"{parity}, {name}", np.nan) for parity in ("mean", "even", "odd"))
        rest = f"over even steps {even:.2g}, over odd {odd:.2g}"
        note = why or ("it still moves in the last steps; take more" if np.isnan(mean) else rest)
        yield claim(f"mean-{key}", f"{name}: mean distance from the edge at the end").at_most(
            0.0, mean, "an inequality: below it", note=note
        )


def measured(data: xr.Dataset) -> dict[str, float]:
    """What the models show of the edge, if there is no obstacle."""
    network, early, quadratic = (one_model(data, name) for name in (NETWORK, FROM_START, QUADRATIC))
    crossing, near, again = first_above(network), int(data.begins.max()), first_above(quadratic)
    first = {name: peaks(data, name).isel(step=0) for name in (NETWORK, QUADRATIC)}
    gap = np.abs(early.y - network.y) / (network.y + 2)
    start, peak = (float(gap.sel(step=slice(0, n)).max()) for n in (max(crossing // 20, 1), int(first[NETWORK].step)))
    # A model that never crosses takes forever; one that is expanded at the crossing itself tells nothing.
    ahead = (again - near if again >= 0 else np.inf) / (crossing - near) if crossing > near else np.nan
    height = float(first[QUADRATIC].height / first[NETWORK].height)
    found = {"early": start, "later": float(np.divide(peak, start)), "crossing": ahead, "height": height}
    for name, one in first.items():
        found[f"lowest, {name}"] = float(one_model(data, name).sel(step=slice(int(one.step), None)).y.min())
        found |= {f"{parity}, {name}": float(value) for parity, value in expansions.settled(data, name).items()}
    return found


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: TaylorConfig) -> None:
    from matplotlib.lines import Line2D

    colours = {NETWORK: sheet.ink(), FROM_START: "C1", QUADRATIC: "C0"}
    left, middle, right = sheet.panels(figure, (11, 4.2), 3)
    until = None if expansions.obstacle(data) else int(peaks(data, NETWORK).step[0])
    for name in (NETWORK, FROM_START):
        one = one_model(data, name).sel(step=slice(0, until))
        left.plot(one.step, one.y + 2, color=colours[name], lw=1.3)
    for name in [name for name in (NETWORK, QUADRATIC) if name in data.model]:
        even = one_model(data, name).sel(step=slice(int(data.begins.max()), None)).isel(step=slice(0, None, 2))
        middle.plot(even.step, even.y, color=colours[name], lw=1.0)
        last = expansions.last_steps(data, name)
        for parity, style in enumerate(("-", "--")):
            part = last.isel(step=last.step % 2 == parity)
            right.plot(part.step, part.y, style, color=colours[name], lw=1.3)
    for axes, edge, title, label in (
        (left, 2, "Curvature from the start", r"$\eta\lambda_1$"),
        (middle, 0, "Near the edge, even steps", r"$y = \eta\lambda_1 - 2$"),
        (right, 0, "Last steps", r"$y = \eta\lambda_1 - 2$"),
    ):
        axes.set(title=title, xlabel="step", ylabel=label)
        sheet.mark(axes, y=edge, ls=":", lw=1.0)
    lines = [(name, colour, "-") for name, colour in colours.items()]
    lines += [("even steps", "0.5", "-"), ("odd steps", "0.5", "--")]
    handles = [Line2D([], [], color=colour, ls=style, label=name) for name, colour, style in lines]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
