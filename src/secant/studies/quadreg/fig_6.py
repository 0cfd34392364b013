"""Figure 6: what drives a network at the edge of stability."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from secant.lab import Erratum, Finding, Tolerance, reuse, study
from secant.studies.quadreg._edge import EdgeConfig, episode, slope_through_zero
from secant.studies.quadreg.fig_5 import run as figure_5

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Config(EdgeConfig):
    pass


@study(
    "quadreg/fig-6",
    section="4",
    title="Two steps at the edge, and the second derivative behind them",
    statement=r"""
    On the run of figure 5: two steps change the residual along the top mode by $2yz_1$ with $y = \eta\lambda_1 -
    2$. The slice $Q_1 = v_1\cdot Q$ of the second derivative along the top eigenvector has much larger eigenvalues
    than the slice along a random direction, and keeps them through the window. The nonlinear contribution of the
    mode to itself, $\eta^2Q_1(w, w)$ with $w = J^\top v_1z_1$, is small against $\lambda_1z_1$ while the curvature
    grows, and of order one shortly before it first falls.""",
)
def run(config: Config) -> xr.Dataset:
    return reuse(figure_5, config)


@run.findings
def check(data: xr.Dataset, config: Config) -> Iterator[Finding | Erratum]:
    steps = episode(data)
    yield Finding(
        "correlation of a double step of the residual with 2 y z, first episode",
        predicted=0.95,
        measured=float(np.corrcoef(steps.first_order, steps.dz)[0, 1]),
        tolerance=Tolerance(0.0, why="an inequality: one straight line"),
        relation="at least",
    )
    for name, label in (("first_order", "2 y z"), ("linear", "((1 + y)^2 - 1) z")):
        yield Finding(
            f"slope of a double step of the residual against {label}, first episode",
            predicted=1.0,
            measured=slope_through_zero(steps[name].values, steps.dz.values),
            tolerance=Tolerance(
                float(np.abs(data.y).max()) + 0.02,
                why="the curvature moves by about y within a double step; two percent for the nonlinear terms",
            ),
        )
    size = np.abs(data.extreme).max("end")
    for moment in ("begin", "end"):
        one = size.sel(moment=moment)
        yield Finding(
            f"window's {moment}: largest eigenvalue of the slice along the top mode over that along a random direction",
            predicted=5.0,
            measured=float(one.sel(direction="top mode") / one.sel(direction="random")),
            tolerance=Tolerance(0.0, why="an inequality: several times larger"),
            relation="at least",
        )
    top = size.sel(direction="top mode")
    yield Finding(
        "largest eigenvalue of the slice along the top mode, end of the window over its beginning",
        predicted=1.0,
        measured=float(top.sel(moment="end") / top.sel(moment="begin")),
        tolerance=Tolerance(0.3, why="'stable' in the text, read as within 30 percent"),
    )
    ratios = nonlinear_ratios(data, config)
    peaks = {name: float(np.abs(ratio).max()) for name, ratio in ratios.items()}
    turn = int(np.argmax(data.y.values))
    early = np.abs(ratios["consistent"].values[: max(turn // 2, 1)]).max()
    yield Finding(
        "nonlinear ratio early in the sharpening, over its peak",
        predicted=0.1,
        measured=float(early / peaks["consistent"]),
        tolerance=Tolerance(0.0, why="an inequality: small before the turn"),
        relation="at most",
    )
    yield Erratum(
        "peak of the nonlinear contribution over the linear one",
        printed=r"\eta^2Q_1(w, w) / (\lambda_1z_1) = O(1)",
        corrected=r"\tfrac12\eta\,Q_1(w, w) / (\lambda_1z_1) \ll 1",
        printed_value=1.0,
        corrected_value=0.0,
        measured=peaks["consistent"],
        tolerance=Tolerance(0.1, why="of order one, or not"),
        why="The printed ratio is not dimensionless: the contributions to z1 are eta^2 Q1(w, w)/2 and eta lambda1 z1. "
        "Peaks found: "
        + ", ".join(f"{name} {peak:.2g}" for name, peak in peaks.items())
        + ". With sums over samples for means it grows with their number, which is how it can look of order one.",
        where="figure 6 and section 4",
    )


def nonlinear_ratios(data: xr.Dataset, config: Config) -> dict[str, xr.DataArray]:
    """The nonlinear contribution over the linear one, in every normalisation that the text may mean."""
    eigenvalue = (data.y + 2) / config.lr
    plain = data.bend / (eigenvalue * data.z)
    # A sum over samples in place of the mean multiplies z and J by sqrt(n): bend by n^(5/2), lambda z by n^(3/2).
    n = config.samples
    return {
        "consistent": config.lr / 2 * plain,
        "as printed": config.lr**2 * plain,
        "as printed, sums over samples": config.lr**2 * n * plain,
        "printed bend of sums, eigenvalue of means": config.lr**2 * n**2 * plain,
    }


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    import matplotlib.pyplot as plt

    ink = plt.rcParams["text.color"]
    figure.set_size_inches(11, 4)
    left, middle, right = figure.subplots(1, 3)
    for colour, (moment, direction) in zip(
        ("C0", "C1", ink), (("begin", "top mode"), ("end", "top mode"), ("begin", "random")), strict=True
    ):
        one = data.sel(moment=moment, direction=direction)
        label = f"$Q_1$, window's {moment}" if direction == "top mode" else "random direction"
        left.semilogy(one.eigenvalue, one.density, color=colour, lw=1.3, label=label)
    peak = float(data.density.max())
    left.set(title="Spectrum of the slice", xlabel="eigenvalue", ylabel="density", ylim=(1e-7 * peak, 3e3 * peak))
    left.legend(loc="upper right")
    steps = episode(data)
    middle.plot(steps.first_order, steps.dz, ".", ms=4, color="C0", alpha=0.6)
    ends = np.array([float(steps.first_order.min()), float(steps.first_order.max())])
    middle.plot(ends, ends, "--", color=ink, lw=1.0)
    middle.set(title="Two steps of the residual", xlabel=r"$2yz_1$", ylabel=r"$z_1(t+2) - z_1(t)$")
    middle.ticklabel_format(axis="x", style="sci", scilimits=(0, 0))
    ratio = np.abs(nonlinear_ratios(data, config)["consistent"])
    right.semilogy(data.step, ratio, color="C1", lw=1.0)
    right.set(title="Nonlinear over linear", xlabel="step", ylabel=r"$\frac{1}{2}\eta\,|Q_1(w, w)/\lambda_1z_1|$")
    twin = right.twinx()
    twin.plot(data.step, data.y, color="C0", lw=1.3)
    twin.axhline(0, color=ink, ls="--", lw=0.8)
    twin.set_ylabel(r"$y = \eta\lambda_1 - 2$", color="C0")
    twin.grid(False)
