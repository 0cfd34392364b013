"""Figure 13: how the curvature moves in two steps at the edge."""

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, claim, reuse, sheet, study
from secant.studies.quadreg.sec4.fig_5 import run as figure_5
from secant.studies.shared.edge.approach import STRAIGHT, EdgeConfig, correlation, episode, obstacle, slope_through_zero


@study(
    "quadreg/fig-13", section="D.1", title="The curvature falls with the square of the residual", precision="float32"
)
def run(config: EdgeConfig) -> xr.Dataset:
    r"""On the run of figure 5: while the residual along the top mode is almost zero, two steps raise $y =
    \eta\lambda_1 - 2$ by a constant $b$, progressive sharpening. What is left of the change, $y(t+2) - y(t) - b$,
    is negative and proportional to $z_1^2$, but its ratio to $z_1^2$ is not a function of $y$ alone.
    """
    return reuse(figure_5, config)


def without_drift(data: xr.Dataset) -> tuple[xr.Dataset, float]:
    """The first episode with its squared residuals and each change of the curvature less the drift; the drift.

    The drift is the mean change where the residual is tiny. Where there is an obstacle, there is neither.
    """
    first = episode(data)
    size = np.abs(first.z.values)
    calm = size < 1e-3 * size.max(initial=0.0)
    drift = float(first.dy.values[calm].mean()) if calm.any() else np.nan
    return first.assign(rest=first.dy - drift, square=first.z**2), drift


@run.findings
def check(data: xr.Dataset, config: EdgeConfig) -> Findings:
    why = obstacle(data)
    first, drift = without_drift(data)
    squares, rest = first.square.values, first.rest.values
    yield claim("drift", r"rise of $y$ in two steps while the residual along the mode is tiny").at_least(
        0.0, drift, "an inequality: progressive sharpening", note=why
    )
    sentence = "correlation of the rest of the change with the square of the residual, first episode"
    yield claim("correlation", sentence).at_most(
        -STRAIGHT, correlation(rest, squares), "an inequality: close to a line that falls", note=why
    )
    yield claim("slope", "slope of that line").at_most(
        0.0, slope_through_zero(squares, rest), "an inequality: the residual lowers the curvature", note=why
    )
    large = squares > 0.05 * squares.max(initial=0.0)
    ratio = rest[large] / squares[large]
    spread = ratio.std() / abs(ratio.mean()) if len(ratio) > 2 else np.nan
    alone = "one episode does not decide whether it is a function of y alone: the figure shows it against y and time"
    sentence = "spread of the ratio to the square of the residual over its mean, large residuals"
    yield claim("ratio", sentence).at_least(0.05, spread, "an inequality: it is not constant", note=why or alone)


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: EdgeConfig) -> None:
    left, right = sheet.panels(figure, (9, 4), 2)
    first, _ = without_drift(data)
    most = first.square.values.max(initial=0.0)
    slope = slope_through_zero(first.square.values, first.rest.values)
    left.plot(first.square, first.rest, ".", ms=4, color="C0", alpha=0.6)
    sheet.guide(left, (0.0, most), (0.0, slope * most), f"slope {slope:.2f}", lw=1.0)
    left.ticklabel_format(axis="x", scilimits=(-2, 2))
    sheet.label(left, "Change of the curvature in two steps", r"$z_1^2$", r"$y(t+2) - y(t) - b$", "best")
    large = first.isel(step=first.square.values > 0.02 * most)
    points = right.scatter(large.y, large.rest / large.square, s=10, c=large.step, cmap="viridis")
    sheet.label(right, "Over the square of the residual", r"$y$", r"$(y(t+2) - y(t) - b)\,/\,z_1^2$")
    figure.colorbar(points, ax=right, label="step")
