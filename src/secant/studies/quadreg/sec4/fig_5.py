"""Figure 5: a network at the edge of stability, mode by mode."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, claims, sheet, study
from secant.setups.edge.approach import (
    SOURCE_SAMPLES,
    EdgeConfig,
    episode,
    obstacle,
    run_to_the_edge,
    slope_through_zero,
    while_it_lasts,
)


@dataclass(frozen=True)
class Config(EdgeConfig):
    pass


@study(
    "quadreg/fig-5", section="4", title="A network at the edge of stability",
    statement=r"""
    A tanh network trained by gradient descent on the squared loss. Near $\eta\lambda_1 = 2$ the residual $z_1$ along
    the top eigenvector of the tangent kernel changes sign at every step; every other value of it grows while the
    eigenvalue $\lambda_1$ is above $2/\eta$ and shrinks while it is below; the loss swings with $\frac12z_1^2$. The
    eigenvalue crosses the edge again and again, while the second one stays below.""",
    precision="float32",
)
def run(config: Config) -> xr.Dataset:
    return run_to_the_edge(config)


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    why = obstacle(data)
    y = data.y.values
    yield claims.at_least(
        "crossings of the edge by the followed eigenvalue", 2.0,
        np.nan if why else float(np.sum(np.diff(np.sign(y)) != 0)), "an inequality: up and down again",
        note=why or f"from y = {y.min():.2g} to y = {y.max():.2g}",
    )
    name = "second eigenvalue, largest over the window"
    if why or config.samples < SOURCE_SAMPLES:
        single = f"said of the source's network of {SOURCE_SAMPLES:,} samples; for a smaller one it depends on the draw"
        yield claims.undecided(name, 2.0, why or f"{single}, {data.top[:, 1].values.max():.3g} here", "at most")
    else:
        yield claims.at_most(
            name, 2.0, data.top[:, 1].max(), note="where it reaches the edge too, the picture of one unstable mode ends"
        )
    lasting = while_it_lasts(data)
    y, z = lasting.y.values, lasting.z.values
    large = np.abs(z) > 1e-3 * np.abs(z).max()
    yield claims.equal(
        "share of steps in which the residual along the mode changes sign, while it is above a thousandth of its peak",
        1.0, np.nan if why else _share(z[1:] * z[:-1] < 0, large[1:] & large[:-1]), 0.02,
        "a turn of the oscillation may cost a step",
        note=why or f"over {len(z):,} of {data.sizes['step']:,} steps, in which the mode is alone at the edge",
    )
    grows = np.abs(z[2:]) > np.abs(z[:-2])
    # Where the eigenvalue itself crosses in between, neither is right.
    clear = large[:-2] & (y[:-2] * y[2:] > 0) & (np.abs(y[:-2]) > 1e-3)
    yield claims.equal(
        "share of double steps in which that residual grows above the edge and shrinks below it", 1.0,
        np.nan if why else _share(grows == (y[:-2] > 0), clear), 0.05,
        "the other modes and the nonlinear terms, where growth is slow", note=why,
    )
    double = episode(data).sizes["step"]
    first = data.isel(step=slice(0, double + 2 if double else 0))
    yield claims.equal(
        "change of the loss in a step against that of half the square of that residual: slope, first episode", 1.0,
        slope_through_zero(np.diff(first.z.values**2 / 2), np.diff(first.loss.values)), 0.05,
        "the swing of the loss is that of the mode, up to what it drives in the others", note=why,
    )


def _share(hits: np.ndarray, among: np.ndarray) -> float:
    """Of `among`, how many are `hits`; NaN if there are none."""
    return float(hits[among].mean()) if among.any() else float("nan")


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    ink = sheet.ink()
    left, middle, right = sheet.panels(figure, (11, 4), 3)
    left.plot(data.step, data.z, color="C0", lw=0.6)
    left.set(title="Residual along the top mode", xlabel="step", ylabel=r"$z_1$")
    even = data.isel(step=slice(0, None, 2))
    middle.plot(even.step, even.z, color="C0", lw=1.3)
    middle.set(title="The same, every other step", xlabel="step", ylabel=r"$z_1$")
    for axes in (left, middle):
        axes.ticklabel_format(axis="y", scilimits=(-2, 2))
    right.axhline(2, color=ink, ls="--", lw=1.0)
    for mode, label in enumerate((r"$\eta\lambda_1$", r"$\eta\lambda_2$")):
        past = data.before.isel(mode=mode)
        right.plot(past.past, past, color=f"C{mode}", lw=1.0, alpha=0.6)
        right.plot(data.step, data.top.isel(mode=mode), color=f"C{mode}", lw=1.3, label=label)
    right.axvspan(float(data.step[0]), float(data.step[-1]), color=ink, alpha=0.06, lw=0)
    right.set(title="Eigenvalues of the tangent kernel", xlabel="step", ylim=(1.2, None))
    right.legend(loc="lower right")
