"""Figure 12: under gradient flow larger residuals sharpen more and end faster."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.dynamics import flow
from secant.lab import Finding, Tolerance, option, scaled, study
from secant.studies.quadreg._random import each_draw, largest, scaled_start, standard_error, top
from secant.theory import quadratic_regression as qr

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FALLEN = 1e-2
"""Runs are timed until their loss has fallen by this factor."""


@dataclass(frozen=True)
class Config:
    outputs: int = scaled(smoke=10, laptop=30, paper=30, at_least=2, help="residuals D")
    parameters: int = scaled(smoke=20, laptop=60, paper=60, at_least=2, help="parameters P")
    residuals: tuple[float, ...] = scaled(
        smoke=(0.01, 0.3, 1.0, 2.0, 4.0),
        laptop=(0.01, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 4.0),
        paper=(0.01, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 4.0),
        above=0,
        help="rescaled standard deviations of the residuals, increasing",
    )
    jacobian: float = option(0.1, above=0, help="rescaled variance of the Jacobian")
    seeds: int = scaled(smoke=8, laptop=8, paper=100, at_least=2, help="random draws")
    until: float = option(40.0, above=0, help="last time, over the sum of the two scales")
    seed: int = option(0, at_least=0, help="random seed")


@study(
    "quadreg/fig-12",
    section="C.1",
    title="Larger residuals sharpen more, and end faster",
    statement=r"""
    Gradient flow from a random start of scales $\tilde\sigma_z$ and $\tilde\sigma_J^2$. With small residuals the
    curvature hardly moves. With larger ones it rises first and then stays at a higher value, in the end in proportion
    to $\tilde\sigma_z$, so that the loss falls faster late in the run.""",
)
def run(config: Config) -> xr.Dataset:
    D, P, scale = config.outputs, config.parameters, jnp.array(config.residuals)
    Q, start = each_draw(lambda Q, start: (Q, start), config.seed, config.seeds, D, P, together=config.seeds)
    # Each run has its own unit of time, about four over its final curvature: one step size suits them all.
    ran = flow(
        lambda state, draw, residual: qr.flow_field(draw[0], 1 / (residual + config.jacobian))(state),
        lambda draw, residual: scaled_start(draw[1], residual, config.jacobian),
        until=config.until,
        over={"draw": (Q, start), "residual": scale},
        probes={"loss": lambda state: jnp.sum(state.z**2) / 2, "top": lambda state: top(state.J)},
        samples=np.concatenate([[0.0], np.geomspace(0.01, config.until, 120)]),
        rtol=1e-6,
        atol=1e-10,
    ).dataset
    relative = ran.loss / ran.loss.isel(time=0)
    clock = ran.time / (ran.residual + config.jacobian)
    fallen = xr.apply_ufunc(
        lambda loss, time: np.exp(np.interp(np.log(FALLEN), np.log(loss[::-1]), np.log(time[::-1] + 1e-9))),
        relative,
        clock,
        input_core_dims=[["time"], ["time"]],
        vectorize=True,
    )
    return xr.Dataset(
        {
            "loss": relative.assign_attrs(long_name="loss over that at the start"),
            "top": ran.top.assign_attrs(long_name="largest kernel eigenvalue"),
            "clock": clock.assign_attrs(long_name="time"),
            "fallen": fallen.assign_attrs(long_name=f"time until the loss has fallen to {FALLEN:g}"),
            "lazy": ("draw", _lazy_motion(start.z, start.J)),
        }
    )


def _lazy_motion(z: np.ndarray, J: np.ndarray) -> np.ndarray:
    r"""$|\theta_\infty|/\sqrt{\lambda_{\max}}$ of linear regression from a start of unit variances."""
    kernels = J @ J.swapaxes(1, 2)
    squares = np.sum(z * np.linalg.solve(kernels, z[..., None])[..., 0], axis=1)
    return np.sqrt(squares / largest(kernels))


@run.findings
def check(data: xr.Dataset, config: Config) -> Iterator[Finding]:
    D, P, scale = config.outputs, config.parameters, np.array(config.residuals)
    end, begin = data.top.isel(time=-1).values, data.top.isel(time=0).values
    steps = np.diff(end, axis=1)
    worst = int(np.argmin(steps.mean(axis=0) / standard_error(steps)))
    yield Finding(
        "smallest rise of the mean final curvature from one scale of residuals to the next",
        predicted=0.0,
        measured=float(steps.mean(axis=0)[worst]),
        tolerance=Tolerance(0.0, why="an inequality"),
        relation="at least",
        uncertainty=float(standard_error(steps)[worst]),
        note=f"from {scale[worst]:g} to {scale[worst + 1]:g}",
    )
    # A linear model would move by theta = -J^T K^-1 z; the curvature then changes by 2 v^T Q(theta, .) J^T v.
    sigma = qr.scales(scale[0], config.jacobian**0.5, D, P)
    lazy = float(2 * np.sqrt(0.5) * sigma.z / sigma.J**2 * data.lazy.max())
    yield Finding(
        f"largest relative change of curvature at the smallest residuals, {scale[0]:g}",
        predicted=0.0,
        measured=float(np.abs(end[:, 0] / begin[:, 0] - 1).max()),
        tolerance=Tolerance(
            4 * lazy, why="four standard deviations of the first-order motion of a nearly linear model"
        ),
    )
    ratio = end / scale
    share = config.jacobian / scale[-2]
    yield Finding(
        f"final curvature over the scale of residuals, {scale[-1]:g} against {scale[-2]:g}",
        predicted=1.0,
        measured=float((ratio[:, -1] / ratio[:, -2]).mean()),
        tolerance=Tolerance(
            share + 4 * float(standard_error(ratio[:, -1] / ratio[:, -2])),
            why="the start has a share of order sigma_J~^2 / sigma_z~ of the curvature; four standard errors",
        ),
        note=f"the ratio itself is {ratio[:, -1].mean():.2f} with standard error {standard_error(ratio[:, -1]):.2f}",
    )
    fallen = np.log10(data.fallen.values)
    steps = np.diff(fallen, axis=1)
    worst = int(np.argmax(steps.mean(axis=0) / standard_error(steps)))
    yield Finding(
        f"logarithm of the time until the loss has fallen to {FALLEN:g}: largest change from one scale to the next",
        predicted=0.0,
        measured=float(steps.mean(axis=0)[worst]),
        tolerance=Tolerance(0.0, why="an inequality"),
        relation="at most",
        uncertainty=float(standard_error(steps)[worst]),
        note=f"from {scale[worst]:g} to {scale[worst + 1]:g}",
    )
    yield Finding(
        "runs whose loss fell that far",
        predicted=float(fallen.size),
        measured=float((data.loss.isel(time=-1) < FALLEN).sum()),
        tolerance=Tolerance(0.0, why="a count"),
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    import matplotlib.pyplot as plt

    ink = plt.rcParams["text.color"]
    figure.set_size_inches(12, 4.0)
    left, middle, right = figure.subplots(1, 3)
    colours = plt.get_cmap("viridis")(np.linspace(0.05, 0.9, len(config.residuals)))
    first = data.isel(draw=0)
    for scale, colour in zip(config.residuals, colours, strict=True):
        one = first.sel(residual=scale)
        left.loglog(one.clock[1:], one.loss[1:], color=colour, label=f"{scale:g}")
        middle.loglog(one.clock[1:], one.top[1:], color=colour)
    left.set(title="Loss", xlabel="time", ylabel=r"$L(t)/L(0)$", ylim=(1e-8, 2), xlim=(5e-3, None))
    left.legend(title=r"$\tilde\sigma_z$", loc="lower left", fontsize=8)
    middle.set(title="Curvature", xlabel="time", ylabel=r"$\lambda_{\max}$", xlim=(5e-3, None))
    scales = np.array(config.residuals)
    end, begin = data.top.isel(time=-1), float(data.top.isel(time=0).mean())
    far = float((end / data.residual).isel(residual=-1).mean())
    right.loglog(scales, far * scales, "--", color=ink, lw=1.2, label=rf"${far:.2f}\,\tilde\sigma_z$")
    right.axhline(begin, ls=":", color=ink, lw=1.4, label="at the start")
    right.errorbar(
        scales, end.mean("draw"), 2 * standard_error(end.values), fmt="o", ms=6, capsize=3, color="C0",
        label=f"mean of {config.seeds} draws",
    )  # fmt: skip
    right.set(
        title="Final curvature", xlabel=r"$\tilde\sigma_z$", ylabel=r"$\lambda_{\max}(\infty)$", ylim=(begin / 4, None)
    )
    right.legend(loc="upper left")
