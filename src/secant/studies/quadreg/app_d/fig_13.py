"""Figure 13: how the curvature moves in two steps at the edge."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, claims, reuse, sheet, study
from secant.setups.edge.approach import STRAIGHT, EdgeConfig, correlation, episode, obstacle, slope_through_zero
from secant.studies.quadreg.sec4.fig_5 import run as figure_5


@dataclass(frozen=True)
class Config(EdgeConfig):
    pass


@study(
    "quadreg/fig-13", section="D.1", title="The curvature falls with the square of the residual",
    statement=r"""
    On the run of figure 5: while the residual along the top mode is almost zero, two steps raise $y =
    \eta\lambda_1 - 2$ by a constant $b$, progressive sharpening. What is left of the change, $y(t+2) - y(t) - b$,
    is negative and proportional to $z_1^2$, but its ratio to $z_1^2$ is not a function of $y$ alone.""",
    precision="float32",
)
def run(config: Config) -> xr.Dataset:
    return reuse(figure_5, config)


def without_drift(data: xr.Dataset) -> tuple[xr.Dataset, float]:
    """First episode with the drift of the curvature taken off, and the drift: its mean where the residual is tiny.

    There is neither where there is an obstacle.
    """
    first = episode(data)
    if not first.sizes["step"]:
        return first.assign(rest=first.dy), float("nan")
    calm = np.abs(first.z.values) < 1e-3 * np.abs(first.z.values).max()
    drift = float(first.dy.values[calm].mean()) if calm.any() else float("nan")
    return first.assign(rest=first.dy - drift), drift


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    why = obstacle(data)
    first, drift = without_drift(data)
    yield claims.at_least(
        "rise of y in two steps while the residual along the mode is tiny", 0.0, drift,
        "an inequality: progressive sharpening", note=why,
    )
    squares, rest = first.z.values**2, first.rest.values
    yield claims.at_most(
        "correlation of the rest of the change with the square of the residual, first episode", -STRAIGHT,
        correlation(rest, squares), "an inequality: close to a line that falls", note=why,
    )
    yield claims.at_most(
        "slope of that line", 0.0, slope_through_zero(squares, rest),
        "an inequality: the residual lowers the curvature", note=why,
    )
    large = squares > 0.05 * squares.max(initial=0.0)
    ratio = rest[large] / squares[large]
    yield claims.at_least(
        "spread of the ratio to the square of the residual over its mean, large residuals", 0.05,
        float(ratio.std() / abs(ratio.mean())) if len(ratio) > 2 else np.nan, "an inequality: it is not constant",
        note=why
        or "whether it is a function of y alone, one episode does not decide: the figure shows it against y and time",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    ink = sheet.ink()
    first, _ = without_drift(data)
    squares = first.z.values**2
    left, right = sheet.panels(figure, (9, 4), 2)
    slope = slope_through_zero(squares, first.rest.values)
    left.plot(squares, first.rest, ".", ms=4, color="C0", alpha=0.6)
    ends = np.array([0.0, squares.max(initial=0.0)])
    left.plot(ends, slope * ends, "--", color=ink, lw=1.0, label=f"slope {slope:.2f}")
    left.set(title="Change of the curvature in two steps", xlabel=r"$z_1^2$", ylabel=r"$y(t+2) - y(t) - b$")
    left.ticklabel_format(axis="x", scilimits=(-2, 2))
    left.legend()
    large = squares > 0.02 * squares.max(initial=0.0)
    points = right.scatter(
        first.y.values[large], (first.rest.values / np.where(squares > 0, squares, 1.0))[large], s=10,
        c=first.step.values[large], cmap="viridis",
    )
    right.set(title="Over the square of the residual", xlabel=r"$y$", ylabel=r"$(y(t+2) - y(t) - b)\,/\,z_1^2$")
    figure.colorbar(points, ax=right, label="step")
