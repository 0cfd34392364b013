"""Figure 6: what drives a network at the edge of stability."""

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, claim, reuse, sheet, study
from secant.studies.quadreg.sec4.fig_5 import run as figure_5
from secant.studies.shared.edge import approach
from secant.studies.shared.edge.approach import SOURCE_SAMPLES, EdgeConfig


@study(
    "quadreg/fig-6",
    section="4",
    title="Two steps at the edge, and the second derivative behind them",
    precision="float32",
)
def run(config: EdgeConfig) -> xr.Dataset:
    r"""On the run of figure 5: two steps change the residual along the top mode by $2yz_1$ with $y = \eta\lambda_1 -
    2$. The slice $Q_1 = v_1\cdot Q$ of the second derivative along the top eigenvector has much larger eigenvalues
    than the slice along a random direction, and keeps them through the window. The nonlinear contribution of the
    mode to itself, $\eta^2Q_1(w, w)$ with $w = J^\top v_1z_1$, is small against $\lambda_1z_1$ while the curvature
    grows, and of order one shortly before it first falls.
    """
    return reuse(figure_5, config)


@run.findings
def check(data: xr.Dataset, config: EdgeConfig) -> Findings:
    why, steps = approach.obstacle(data), approach.episode(data)
    straight = approach.correlation(steps.first_order.values, steps.dz.values)
    yield claim("correlation", "correlation of a double step of the residual with $2yz$, first episode").at_least(
        approach.STRAIGHT, straight, "an inequality: one straight line", note=why
    )
    reason = "the curvature moves by about y within a double step; two percent for the nonlinear terms"
    within = float(np.abs(steps.y.values).max(initial=0.0)) + 0.02
    for name, label in (("first_order", "2yz"), ("linear", "((1 + y)^2 - 1)z")):
        slope = approach.slope_through_zero(steps[name].values, steps.dz.values)
        sentence = f"slope of a double step of the residual against ${label}$, first episode"
        yield claim(f"slope-{name}", sentence).equal(1.0, slope, within, reason, note=why)
    # The slice of the second derivative along the top mode is large, and lastingly so.
    top, random = (np.abs(data.extreme).max("end").sel(direction=which) for which in ("top mode", "random"))
    much = "an inequality: 'much larger', read as at least three times"
    slices = "largest eigenvalue of the slice along the top mode"
    for moment in ("begin", "end"):
        ratio = np.nan if why else (top / random).sel(moment=moment)
        sentence = f"window's {moment}: {slices} over that along a random direction"
        yield claim(f"slice-{moment}", sentence).at_least(3.0, ratio, much, note=why)
    stable = np.nan if why else top.sel(moment="end") / top.sel(moment="begin")
    yield claim("slice-stable", f"{slices}, end of the window over its beginning").equal(
        1.0, stable, 0.3, "'stable' in the text, read as within 30 percent", note=why
    )
    # The mode's effect on itself is small while the curvature grows, and largest at the turn.
    ratios = {name: np.abs(ratio.values).astype(float) for name, ratio in nonlinear_ratios(data, config).items()}
    early = ratios["consistent"][: max(np.argmax(data.y.values) // 2, 1)].max()
    small = np.nan if why else early / ratios["consistent"].max()
    found = "peaks: " + ", ".join(f"{name} {ratio.max():.2g}" for name, ratio in ratios.items())
    note = why or rf"{found}. The contributions to $z_1$ are $\eta^2 Q_1(w, w)/2$ and $\eta\lambda_1 z_1$"
    yield claim("nonlinear-early", "nonlinear ratio early in the sharpening, over its peak").at_most(
        0.1, small, "an inequality: small before the turn", note=note
    )
    units = f"the printed ratio has a unit and grows with the number of samples, {SOURCE_SAMPLES:,} in the source"
    given, none = not why and config.samples >= SOURCE_SAMPLES, why or f"{units}, {config.samples:,} here; {found}"
    sentence = r"decimal logarithm of the peak of $\eta^2 Q_1(w, w)/(\lambda_1 z_1)$, as printed, residuals $f - y$"
    yield claim("nonlinear-peak", sentence, given, none).equal(
        0.0,
        lambda: np.log10(ratios["as printed, sums over samples"].max()),
        1.0,
        "'of order one': within a factor of ten",
        note=found,
        qualitative=True,
    )


def nonlinear_ratios(data: xr.Dataset, config: EdgeConfig) -> dict[str, xr.DataArray]:
    """The nonlinear contribution over the linear one, in every normalisation that the text may mean."""
    lr, n = float(data.lr), config.samples
    plain = data.bend / ((data.y + 2) / lr * data.z)
    # A sum over samples in place of the mean multiplies z and J by sqrt(n): bend by n^(5/2), lambda z by n^(3/2).
    return {
        "consistent": lr / 2 * plain,
        "as printed": lr**2 * plain,
        "as printed, sums over samples": lr**2 * n * plain,
        "printed bend of sums, eigenvalue of means": lr**2 * n**2 * plain,
    }


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: EdgeConfig) -> None:
    left, middle, right = sheet.panels(figure, (11, 4), 3)
    for colour, moment, direction, label in (
        ("C0", "begin", "top mode", "$Q_1$, window's begin"),
        ("C1", "end", "top mode", "$Q_1$, window's end"),
        (sheet.ink(), "begin", "random", "random direction"),
    ):
        one = data.sel(moment=moment, direction=direction)
        left.semilogy(one.eigenvalue, one.density, color=colour, lw=1.3, label=label)
    peak = float(data.density.max())
    sheet.label(left, "Spectrum of the slice", "eigenvalue", "density", "upper right", ylim=(1e-7 * peak, 3e3 * peak))
    steps = approach.episode(data)
    middle.plot(steps.first_order, steps.dz, ".", ms=4, color="C0", alpha=0.6)
    ends = steps.first_order.values.min(initial=0.0), steps.first_order.values.max(initial=0.0)
    sheet.guide(middle, ends, ends, lw=1.0)
    sheet.label(middle, "Two steps of the residual", r"$2yz_1$", r"$z_1(t+2) - z_1(t)$")
    middle.ticklabel_format(axis="x", style="sci", scilimits=(0, 0))
    right.semilogy(data.step, np.abs(nonlinear_ratios(data, config)["consistent"]), color="C1", lw=1.0)
    sheet.label(right, "Nonlinear over linear", "step", r"$\frac{1}{2}\eta\,|Q_1(w, w)/\lambda_1z_1|$")
    twin = right.twinx()
    twin.plot(data.step, data.y, color="C0", lw=1.3)
    sheet.mark(twin, y=0, lw=0.8)
    twin.set_ylabel(r"$y = \eta\lambda_1 - 2$", color="C0")
    twin.grid(False)
