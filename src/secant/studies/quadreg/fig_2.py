"""Figure 2: sharpness settles just below the edge, the same for every step size once rescaled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.dynamics import Stop, simulate
from secant.lab import Finding, Tolerance, option, scaled, study
from secant.theory import edge_limit, nullclines, quartic, two_eigenvalue

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Config:
    epsilon: float = option(0.005, above=0, at_most=0.2, help="minus the second eigenvalue")
    lrs: tuple[float, ...] = option((0.5, 1.0, 2.0, 4.0), above=0, help="step sizes")
    residuals: tuple[float, ...] = option((-0.9, -0.6, -1.2, -1.0), help="rescaled residuals at the start")
    curvatures: tuple[float, ...] = option((0.25, 0.85, 0.05, 0.1), above=0, help="rescaled curvatures at the start")
    steps: int = scaled(smoke=12_000, laptop=20_000, paper=20_000, at_least=1_000, help="gradient-descent steps")


@study(
    "quadreg/fig-2",
    section="2.2",
    title="Sharpness settles just below the edge",
    statement=r"""
    For eigenvalues $\{1, -\epsilon\}$ with small $\epsilon$, gradient descent that starts far from the edge of
    stability sharpens, overshoots $2/\eta$, and settles just below it. Runs with different step sizes and the same
    $(\eta z_0, \eta\lambda_0)$ are the same run. Every other iterate stays near the nullcline $f_z$ on which two
    steps leave the residual as it is, and the distance $y = T - f_z(\tilde z)$ from it quickly becomes small and
    negative.""",
)
def run(config: Config) -> xr.Dataset:
    if len(config.residuals) != len(config.curvatures):
        raise ValueError(
            f"residuals and curvatures: {len(config.residuals)} and {len(config.curvatures)} entries. "
            "Give as many of each."
        )
    eps = config.epsilon
    Q = jnp.diag(jnp.array([1.0, -eps]))
    z0, T0 = config.residuals[0], config.curvatures[0]
    scaled_runs = simulate(
        lambda lr: quartic.quartic(Q, lr),
        lambda lr: two_eigenvalue.parameters(z0, T0, -eps, lr=lr),
        config.steps,
        over={"lr": jnp.array(config.lrs)},
        probes={"curvature": lambda t, lr: two_eigenvalue.phase_point(t, -eps, lr=lr).T / lr},
        stop=Stop(converged=lambda t, lr: jnp.abs(lr * quartic.residual(t, Q)) < 1e-12),
    ).dataset
    starts = two_eigenvalue.Point(jnp.array(config.residuals), jnp.array(config.curvatures))
    plane = simulate(
        two_eigenvalue.two_eigenvalue(-eps),
        lambda start: start,
        config.steps,
        over={"start": starts},
        probes={"z": lambda p: p.z, "T": lambda p: p.T},
        stop=Stop(converged=lambda p: jnp.abs(p.z) < 1e-12),
    ).dataset.rename(outcome="plane_outcome", stopped_at="plane_stopped_at")
    even = plane.isel(step=slice(0, None, 2)).rename(step="even")
    # Start the clock of y on the parity whose residuals are positive in the end.
    positive = even.z.isel(even=-1) >= 0
    odd = (
        plane.isel(step=slice(1, None, 2)).rename(step="even").assign_coords(even=even.even[: plane.sizes["step"] // 2])
    )
    even, odd = xr.align(even, odd, join="inner")
    z = xr.where(positive, even.z, odd.z)
    T = xr.where(positive, even["T"], odd["T"])
    y = nullclines.edge_distance(z.values, T.values, eps)
    data = xr.Dataset(
        {
            "curvature": scaled_runs.curvature.assign_attrs(long_name="curvature", units="1/step size"),
            "outcome": scaled_runs.outcome,
            "z": plane.z,
            "T": plane["T"],
            "z_even": z,
            "T_even": T,
            "y": (z.dims, y, {"long_name": "distance to the nullcline"}),
        }
    )
    return data


@run.findings
def check(data: xr.Dataset, config: Config) -> Iterator[Finding]:
    eps, lrs = config.epsilon, np.array(config.lrs)
    rescaled = data.curvature * xr.DataArray(lrs, dims="lr")
    yield Finding(
        "largest difference between the rescaled curvatures of different step sizes",
        predicted=0.0,
        measured=float((rescaled.max("lr") - rescaled.min("lr")).max()),
        tolerance=Tolerance(1e-10, why="an identity: rounding of float64 over the run"),
    )
    # Where z turns round y is zero; what the limit still remembers of that point bounds the difference.
    turn = float(data.z_even.isel(start=0, even=slice(2, None)).max())
    memory = float(edge_limit.memory(turn, 0.0, eps))
    yield Finding(
        "final rescaled curvature, against the slow manifold",
        predicted=2 + float(edge_limit.limit_series(eps)),
        measured=float(rescaled.isel(lr=0, step=-1)),
        tolerance=Tolerance(
            10 * memory + 10 * eps**5,
            why="memory of the turning point, u exp(-(4 z^2 + 2u)/eps) up to a factor; next term of the series",
        ),
    )
    yield Finding(
        "final rescaled curvature stays below the edge",
        predicted=2.0,
        measured=float(rescaled.isel(step=-1).max()),
        tolerance=Tolerance(0.0, why="an inequality"),
        relation="at most",
    )
    first = data.isel(start=0)
    yield Finding(
        "largest rescaled curvature on even steps: it overshoots the edge",
        predicted=2.0,
        measured=float(first.T_even.max()),
        tolerance=Tolerance(0.0, why="an inequality"),
        relation="at least",
    )
    early = first.y.isel(even=slice(1, 6))
    yield Finding(
        "largest distance to the nullcline after the first jump",
        predicted=0.0,
        measured=float(np.abs(early).max()),
        tolerance=Tolerance(
            2 * turn**2, why="the condition y < 2 z^2 under which the dynamics near the edge are analysed"
        ),
    )
    late = first.y.where((first.z_even > 1e-6) & (first.z_even < 0.5 * turn), drop=True)
    yield Finding(
        "median distance to the nullcline while the residual decays, over the fixed point of lowest order",
        predicted=1.0,
        measured=float(late.median() / edge_limit.fixed_point(eps)),
        tolerance=Tolerance(4 * turn**2 + 4 * eps, why="next orders of the slow manifold, z^2 and eps"),
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    import matplotlib.pyplot as plt

    ink = plt.rcParams["text.color"]
    eps = config.epsilon
    figure.set_size_inches(12, 4.2)
    left, middle, right = figure.subplots(1, 3)
    for i, lr in enumerate(config.lrs):
        curve = data.curvature.isel(lr=i)
        left.loglog(data.step[::2] + 1, curve[::2], color=f"C{i}", lw=1.8)
        left.plot([1, data.step[-1]], [2 / lr, 2 / lr], "--", color=ink, lw=0.9)
        left.text(data.step[-1] * 1.25, 2 / lr, rf"$\eta={lr:g}$", color=f"C{i}", va="center", fontsize=9)
    left.set(title=r"Every step size finds its edge $2/\eta$", xlabel="even step + 1", ylabel=r"curvature $\lambda$")
    left.set_xlim(1, data.step[-1] * 9)

    grid = np.linspace(-0.02, 0.34, 200)
    middle.plot(grid, nullclines.nullcline(grid, eps), "--", color=ink, lw=1.1, label=r"nullcline $f_z$", zorder=4)
    middle.plot(
        grid, nullclines.nullcline(grid, eps, "curvature"), ":", color=ink, lw=1.5, label=r"nullcline $f_T$", zorder=4
    )
    for i in range(data.sizes["start"]):
        one = data.isel(start=i)
        middle.plot(one.z_even[1:], one.T_even[1:], "-", lw=0.6, alpha=0.6, color=f"C{i}")
        middle.plot(one.z_even[1:], one.T_even[1:], "o", ms=4, color=f"C{i}")
        right.plot(one.z_even[1:], one.y[1:] / eps, "-", lw=0.6, alpha=0.6, color=f"C{i}")
        label = rf"$({config.residuals[i]:g}, {config.curvatures[i]:g})$"
        right.plot(one.z_even[1:], one.y[1:] / eps, "o", ms=2.5, color=f"C{i}", label=label)
    middle.axhline(2, color=ink, lw=0.7, alpha=0.5)
    middle.set(
        title="Even iterates hug the nullclines",
        xlabel=r"$\tilde z$",
        ylabel=r"$T$",
        xlim=(-0.02, 0.34),
        ylim=(1.9, 3.1),
    )
    middle.legend(loc="upper left")
    right.axhline(float(edge_limit.fixed_point(eps)) / eps, ls="--", color=ink, lw=1.3)
    right.text(0.335, float(edge_limit.fixed_point(eps)) / eps - 0.12, r"$y^*$", ha="right", va="top")
    right.set(title=r"Distance $y = T - f_z$ turns constant", xlabel=r"$\tilde z$", ylabel=r"$y/\epsilon$")
    right.set(xlim=(-0.02, 0.34), ylim=(-1.5, 3.5))
    right.legend(title=r"start $(\tilde z, T)$", loc="upper right")
