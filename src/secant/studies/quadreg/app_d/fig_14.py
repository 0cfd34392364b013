"""Figure 14: what the third order adds to the quadratic expansion of a network."""

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, claim, reuse, sheet, study
from secant.studies.quadreg.sec4.fig_7 import run as figure_7
from secant.studies.shared.edge.expansions import MODELS, TaylorConfig, first_above, obstacle, one_model, peaks

NETWORK, FROM_START, QUADRATIC, CUBIC = MODELS


@study("quadreg/fig-14", section="D.2", title="Second and third order of a network at the edge")
def run(config: TaylorConfig) -> xr.Dataset:
    r"""On the run of figure 7: the loss of the expansion at the start tracks the network's on the way to the edge.
    Expanded near the edge, the quadratic model has the first peak of the residual $|z_1|$ along the top mode, up to a
    shift in time; the oscillations that follow are faster and damped more quickly in the network. The third order
    improves size and period of the oscillations, and still misses quantitative features.
    """
    return reuse(figure_7, config)


@run.findings
def check(data: xr.Dataset, config: TaylorConfig) -> Findings:
    why = obstacle(data)
    network, early = one_model(data, NETWORK), one_model(data, FROM_START)
    half = max(first_above(network) // 2, 1)
    early_fall, own = (float(np.log(one.loss.sel(step=half) / one.loss.sel(step=0))) for one in (early, network))
    ratio = np.nan if why or not own else early_fall / own
    note = why or f"{half} steps, in which the loss of the network falls to {np.exp(own):.2g} of its start"
    sentence = "fall of log(loss) on the first half of the way to the edge, expansion at the start over network"
    yield claim("fall", sentence).equal(1.0, ratio, 0.1, "'good approximation', read as within ten percent", note=note)
    found = {name: peaks(data, name) for name in (NETWORK, QUADRATIC, CUBIC) if name in data.model}
    steps = {name: ", ".join(f"{int(step):,}" for step in one.step[:4]) for name, one in found.items()}
    for name in (QUADRATIC, CUBIC):
        height = np.nan if why else found[name].height[0] / found[NETWORK].height[0]
        note = why or f"peaks at steps {steps[name]}; network {steps[NETWORK]}"
        sentence = f"height of the first peak of the residual along the mode, {name} over network"
        yield claim(f"height-{name.split()[0]}", sentence).equal(
            1.0, height, 0.25, "'the same shape', read as within a quarter", note=note
        )
    # Where there is one peak, nothing is decided of oscillations.
    once = ", ".join(name for name, one in found.items() if one.sizes["step"] < 2)
    why = why or (f"one peak only within these steps: {once}" if once else "")
    period = fall = dict.fromkeys((NETWORK, QUADRATIC, CUBIC), np.nan)
    count = 0 if why else min(one.sizes["step"] for one in found.values())
    if not why:
        period = {name: float(one.step[count - 1] - one.step[0]) / (count - 1) for name, one in found.items()}
        fall = {name: float(one.height[1] / one.height[0]) for name, one in found.items()}
    periods = f"over {count} peaks: " + ", ".join(f"{name} {steps:.0f}" for name, steps in period.items())
    falls = ", ".join(f"{name} {share:.2f}" for name, share in fall.items())
    better = "error of the cubic model in {}, over the quadratic model's error"
    wrong_period = _over(period[CUBIC] - period[NETWORK], period[QUADRATIC] - period[NETWORK])
    wrong_fall = _over(np.log(fall[CUBIC] / fall[NETWORK]), np.log(fall[QUADRATIC] / fall[NETWORK]))
    caption = "as appendix D.2 has it; the caption of figure 14 says that the oscillations are larger in the network"
    mean, second = "mean steps from peak to peak", "second peak over the first"
    two = "network over quadratic model"
    ratios = period[NETWORK] / period[QUADRATIC], fall[NETWORK] / fall[QUADRATIC]
    for key, sentence, ratio, reason, note in (
        ("period", f"{mean}, {two}", ratios[0], "faster in the network", periods),
        ("period-cubic", better.format("these steps"), wrong_period, "the third order improves the period", ""),
        ("damping-cubic", better.format(f"the {second}"), wrong_fall, "the third order improves the size", falls),
        ("damping", f"{second}, {two}", ratios[1], "damped more quickly in the network", caption),
    ):
        yield claim(key, sentence).at_most(1.0, ratio, f"an inequality: {reason}", note=why or note)


def _over(a: float, b: float) -> float:
    """The size of one error over the size of another; NaN where neither model has any."""
    return float(np.divide(abs(a), abs(b))) if b else np.inf if a else np.nan


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: TaylorConfig) -> None:
    colours = {NETWORK: sheet.ink(), FROM_START: "C1", QUADRATIC: "C0", CUBIC: "C2"}
    near = int(data.begins.max())
    panels = sheet.panels(figure, (11, 4), 3)
    for axes, other, title, label in zip(
        panels,
        (FROM_START, QUADRATIC, CUBIC),
        ("Loss", "Residual along the mode, order 2", "Residual along the mode, order 3"),
        ("loss", r"$|z_1|$", None),
        strict=True,
    ):
        for name in [name for name in (NETWORK, other) if name in data.model]:
            one = one_model(data, name)
            shown = one.loss if other == FROM_START else np.abs(one.z.sel(step=slice(near, None)))
            axes.semilogy(shown.step, shown, color=colours[name], lw=1.2 if other == FROM_START else 1.0, label=name)
        axes.set_ylim(top=30 * axes.get_ylim()[1])  # room for the legend
        sheet.label(axes, title, "step", label, {"loc": "upper right", "fontsize": "small"})
