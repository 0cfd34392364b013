"""Figure 1: the quartic landscape, and gradient descent that sharpens on its way down."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.dynamics import Stop, simulate
from secant.lab import Erratum, Finding, Tolerance, option, scaled, study
from secant.theory import edge_limit, quartic, two_eigenvalue

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Config:
    epsilon: float = option(0.1, above=0, at_most=1, help="minus the second eigenvalue")
    lr: float = option(1.0, above=0, help="step size")
    residuals: tuple[float, ...] = option((-0.5, -0.6, -0.3), help="rescaled residuals at the start")
    curvatures: tuple[float, ...] = option((1.2, 1.0, 1.5), above=0, help="rescaled curvatures at the start")
    steps: int = scaled(smoke=800, laptop=2_000, paper=2_000, at_least=100, help="gradient-descent steps")


@study(
    "quadreg/fig-1",
    section="2.2",
    title="Descending into sharper minima",
    statement=r"""
    With eigenvalues $\{1, -0.1\}$ and $E = 0$ the loss is the square of a hyperbolic paraboloid. Gradient descent
    converges to minima of larger curvature than its start, oscillating across the valley; every other iterate does
    not oscillate.""",
)
def run(config: Config) -> xr.Dataset:
    if len(config.residuals) != len(config.curvatures):
        raise ValueError(
            f"residuals and curvatures: {len(config.residuals)} and {len(config.curvatures)} entries. "
            "Give as many of each."
        )
    second, lr = -config.epsilon, config.lr
    z, T = jnp.array(config.residuals), jnp.array(config.curvatures)
    start = two_eigenvalue.parameters(z, T, second, lr=lr)
    Q = jnp.diag(jnp.array([1.0, second]))
    data = simulate(
        quartic.quartic(Q, lr),
        lambda start: start,
        config.steps,
        over={"start": start},
        probes={
            "theta": lambda t: t,
            "curvature": lambda t: two_eigenvalue.phase_point(t, second, lr=lr).T,
            "residual": lambda t: two_eigenvalue.phase_point(t, second, lr=lr).z,
        },
        stop=Stop(converged=lambda t: jnp.abs(quartic.residual(t, Q)) < 1e-15),
    ).dataset
    data["residuals"] = jnp.size(quartic.residual(start[0], Q))
    return data


@run.findings
def check(data: xr.Dataset, config: Config) -> Iterator[Finding | Erratum]:
    for i, (z, T) in enumerate(zip(config.residuals, config.curvatures, strict=True)):
        end = data.isel(start=i, step=-1)
        yield Finding(
            f"curvature from ({z:g}, {T:g}) against the limit of the slow manifold",
            predicted=2 + float(edge_limit.limit_series(config.epsilon)),
            measured=float(end.curvature),
            tolerance=Tolerance(
                config.epsilon**2,
                why="the memory of the start, exp(-4 z^2/eps) of an O(eps) distance, is not small at this eps",
            ),
        )
        yield Finding(
            f"sharpening from ({z:g}, {T:g}): curvature at the end over its start",
            predicted=1.0,
            measured=float(end.curvature) / T,
            tolerance=Tolerance(0.0, why="an inequality"),
            relation="at least",
        )
    even, every = data.residual.isel(step=slice(0, 200, 2)), data.residual.isel(step=slice(0, 200))
    flips = lambda r: float((np.sign(r).diff("step") != 0).sum("step").max())  # noqa: E731
    yield Finding(
        "sign changes of the residual in the first 200 steps",
        predicted=150,
        measured=flips(every),
        tolerance=Tolerance(0.0, why="an inequality: past the sharpening every step crosses the valley"),
        relation="at least",
    )
    yield Finding(
        "sign changes among even iterates after the first ten steps",
        predicted=0,
        measured=flips(even.isel(step=slice(5, None))),
        tolerance=Tolerance(0.0, why="a count"),
    )
    yield Finding(
        "largest loss at the end",
        predicted=0.0,
        measured=float((data.residual.isel(step=-1) ** 2 / 2).max()),
        tolerance=Tolerance(1e-20, why="rounding of the residual, squared"),
    )
    yield Erratum(
        "number of outputs in the caption",
        printed=r"D = 2",
        corrected=r"D = 1,\ P = 2",
        printed_value=2,
        corrected_value=1,
        measured=float(data.residuals),
        tolerance=Tolerance(0.0, why="a count"),
        why="the landscape has two parameters and one residual",
        where="caption of figure 1",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    import matplotlib.pyplot as plt
    from matplotlib.colors import LogNorm

    ink, faint = plt.rcParams["text.color"], plt.rcParams["grid.color"]
    figure.set_size_inches(11, 4.2)
    axes = figure.subplots(1, 3, width_ratios=(1, 1, 1))
    theta = data.theta.values
    x = np.linspace(theta[..., 0].min() - 0.1, theta[..., 0].max() + 0.15, 241)
    y = np.linspace(theta[..., 1].min() - 0.1, theta[..., 1].max() + 0.1, 241)
    loss = (x[None] ** 2 - config.epsilon * y[:, None] ** 2) ** 2 / 8
    for axis, stride, title in ((axes[0], 1, "Every step"), (axes[1], 2, "Every other step")):
        levels = np.logspace(-6, 0.0, 13)
        filled = axis.contourf(
            x, y, np.maximum(loss, 1.1e-6), levels=levels, norm=LogNorm(), cmap="Blues", alpha=0.35, antialiased=True
        )
        filled.set_edgecolor("face")
        valley = np.sqrt(config.epsilon) * y
        axis.plot(valley, y, "--", color=ink, lw=1.2)
        for i in range(data.sizes["start"]):
            path = theta[i, :400:stride]
            axis.plot(path[:, 0], path[:, 1], "-", lw=0.8, color=f"C{i}", alpha=0.6)
            axis.plot(path[:, 0], path[:, 1], "o", ms=2.4, color=f"C{i}")
            axis.plot(*path[0], "s", ms=6, color=f"C{i}", mec=ink)
            axis.plot(*theta[i, -1], "*", ms=11, color=f"C{i}", mec=ink, mew=0.6)
        axis.set(title=title, xlabel=r"$\theta_1$", ylabel=r"$\theta_2$", xlim=(x[0], x[-1]), ylim=(y[0], y[-1]))
        axis.grid(False)
    axes[0].annotate(
        "zero loss", (np.sqrt(config.epsilon) * y[12], y[12]), xytext=(5, -3), textcoords="offset points", fontsize=8
    )
    right = axes[2]
    right.axhline(2, ls="--", color=ink, lw=1)
    right.text(1.05, 2.02, r"$2/\eta$", va="bottom", fontsize=9)
    right.axhline(2 + float(edge_limit.limit_series(config.epsilon)), ls=":", color=ink, lw=1)
    for i in range(data.sizes["start"]):
        curve = data.curvature.isel(start=i)
        right.semilogx(data.step + 1, curve, color=f"C{i}", alpha=0.25, lw=0.8)
        right.semilogx(
            data.step[::2] + 1, curve[::2], color=f"C{i}", label=f"({config.residuals[i]:g}, {config.curvatures[i]:g})"
        )
    right.set(title="Curvature rises to the edge", xlabel="step + 1", ylabel=r"$\eta\lambda$", xlim=(1, 500))
    right.legend(title=r"start $(\tilde z, T)$", loc="lower right")
    right.tick_params(colors=ink, which="both")
    for axis in axes:
        axis.spines[:].set_color(faint)
