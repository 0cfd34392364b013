"""Theorem 2.1: an open set of starts and an interval of step sizes end just below the edge."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.dynamics import Stop, simulate
from secant.lab import Finding, Tolerance, option, scaled, study
from secant.theory import edge_limit, quartic, skeleton, two_eigenvalue

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Config:
    epsilon: float = option(0.005, above=0, at_most=0.05, help="minus the second eigenvalue")
    start: tuple[float, float] = option((1.179, 19.950), help="parameters at the start")
    below: tuple[float, ...] = option((0.5, 0.8, 0.95), above=0, help="step sizes below the window")
    inside: tuple[float, ...] = option((1.02, 1.05, 1.1, 1.2, 1.3, 1.5, 1.7, 1.9), above=0, help="step sizes inside it")
    above: tuple[float, ...] = option((2.2, 2.5, 3.0), above=0, help="step sizes above it")
    scan: int = scaled(smoke=60, laptop=240, paper=600, at_least=10, help="step sizes of the scan")
    plane: int = scaled(smoke=24, laptop=90, paper=160, at_least=8, help="grid points a side of the basin")
    epsilons: tuple[float, ...] = option(
        (0.002, 0.005, 0.01, 0.02), above=0, at_most=0.1, help="for the rate in epsilon"
    )
    steps: int = scaled(smoke=8_000, laptop=12_000, paper=40_000, at_least=500, help="gradient-descent steps")


@study(
    "quadreg/thm-2.1",
    section="2.2",
    title="The edge of stability is reached from an open set",
    statement=r"""
    For eigenvalues $\{1, -\epsilon\}$, $E = 0$ and small enough $\epsilon$ there are a neighbourhood of parameters
    and an interval of step sizes for which
    $$2/\eta - \delta_\lambda \le \lim_{t\to\infty}\lambda_{\max} \le 2/\eta,\qquad \delta_\lambda = O(\epsilon).$$
    The theorem leaves the interval open. It is $2 < \eta(\lambda_0 - 2z_0) < 4$ up to $O(\epsilon)$: below it
    gradient descent converges at $\eta\lambda_\infty = \eta(\lambda_0 - 2z_0) + O(\epsilon)$, above it it diverges.""",
)
def run(config: Config) -> xr.Dataset:
    eps = config.epsilon
    Q = jnp.diag(jnp.array([1.0, -eps]))
    theta = jnp.array(config.start)
    origin = two_eigenvalue.phase_point(theta, -eps)
    chosen = (*config.below, *config.inside, *config.above)
    lrs = np.unique(np.concatenate([chosen, np.linspace(0.05, 2.6, config.scan) * 2 / float(origin.T - 2 * origin.z)]))
    ran = simulate(
        lambda lr: quartic.quartic(Q, lr),
        theta,
        config.steps,
        over={"lr": jnp.array(lrs)},
        stop=Stop(
            converged=lambda t, lr: jnp.abs(lr * quartic.residual(t, Q)) < 1e-9,
            diverged=lambda t: jnp.sum(t**2) > 1e8,
            every=50,
        ),
    )
    end = two_eigenvalue.phase_point(ran.state, -eps, lr=jnp.array(lrs))

    stop = Stop(
        converged=lambda p: jnp.abs(p.z) < 1e-7,
        diverged=lambda p: (jnp.abs(p.z) > 1e3) | (jnp.abs(p.T) > 1e3),
        every=50,
    )
    z, T = jnp.linspace(-1.2, 1.2, config.plane), jnp.linspace(0.0, 4.5, config.plane)
    basin = simulate(
        two_eigenvalue.two_eigenvalue(-eps),
        lambda z, T: two_eigenvalue.Point(z, T),
        config.steps,
        over={"z": z, "T": T},
        stop=stop,
    )
    zz, TT = np.meshgrid(z, T, indexing="ij")
    allowed = np.asarray(two_eigenvalue.admissible(zz, TT, -eps))
    settled = allowed & (basin.dataset.outcome.values != 2) & (np.abs(np.asarray(basin.state.z)) < 1e-2)

    rates = simulate(
        lambda eps: two_eigenvalue.two_eigenvalue(-eps),
        two_eigenvalue.Point(jnp.asarray(0.3), jnp.asarray(2 / 0.7 + 0.02)),
        int(60 / min(config.epsilons)),
        over={"eps": jnp.array(config.epsilons)},
        stop=Stop(converged=lambda p: jnp.abs(p.z) < 1e-10, every=50),
    )
    return xr.Dataset(
        {
            "final": (
                "lr",
                np.where(ran.dataset.outcome.values == 2, np.nan, np.asarray(end.T)),
                {"long_name": "final eta lambda"},
            ),
            "outcome": ("lr", ran.dataset.outcome.values),
            "level": ("lr", lrs * float(origin.T - 2 * origin.z), {"long_name": "eta (lambda_0 - 2 z_0)"}),
            "basin": (
                ("z", "T"),
                np.where(settled, np.asarray(basin.state.T), np.nan),
                {"long_name": "final curvature"},
            ),
            "allowed": (("z", "T"), allowed),
            "rate": ("eps", 2 - np.asarray(rates.state.T), {"long_name": "2 - final curvature"}),
            "curvature": float(origin.T),
            "residual": float(origin.z),
        },
        coords={"lr": lrs, "z": np.asarray(z), "T": np.asarray(T), "eps": np.array(config.epsilons)},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Iterator[Finding]:
    eps = config.epsilon
    inside = data.final.sel(lr=list(config.inside))
    yield Finding(
        "mean final eta lambda inside the window",
        predicted=2 + float(edge_limit.limit_series(eps)),
        measured=float(inside.mean()),
        tolerance=Tolerance(
            4 * eps**2, why="the memory of the shortest stay at the edge, an O(eps) share of the distance"
        ),
    )
    yield Finding(
        "spread of the final eta lambda over the step sizes inside the window",
        predicted=0.0,
        measured=float(inside.max() - inside.min()),
        tolerance=Tolerance(4 * eps**2, why="the same"),
    )
    yield Finding(
        "largest final eta lambda inside the window",
        predicted=2.0,
        measured=float(inside.max()),
        tolerance=Tolerance(0.0, why="an inequality"),
        relation="at most",
    )
    slope = float(np.polyfit(np.log(data.eps), np.log(data.rate), 1)[0])
    yield Finding(
        "power of epsilon in the distance to the edge",
        predicted=1.0,
        measured=slope,
        tolerance=Tolerance(
            2 * max(config.epsilons), why="the second term 27/32 eps^2 raises the local power by 1.7 eps"
        ),
    )
    for lr in config.below:
        one = data.sel(lr=lr)
        yield Finding(
            f"below the window, step size {lr:g}: final eta lambda is the conserved level",
            predicted=float(one.level),
            measured=float(one.final),
            tolerance=Tolerance(2 * eps, why="the level drifts by O(eps) over a convergent run"),
        )
    yield Finding(
        "step sizes above the window that diverge",
        predicted=len(config.above),
        measured=float((data.outcome.sel(lr=list(config.above)) == 2).sum()),
        tolerance=Tolerance(0.0, why="a count"),
    )
    near = float((np.abs(data.basin - 2) < 0.1).sum())
    zz, TT = xr.broadcast(data.z, data["T"])
    level = TT - 2 * zz
    window = (level > 2.1) & (level < 3.7) & data.allowed & (np.abs(zz) < 0.8)
    yield Finding(
        "share of the starts with level between 2.1 and 3.7 that end within 0.1 of the edge",
        predicted=0.9,
        measured=float(((np.abs(data.basin - 2) < 0.1) & window).sum() / window.sum()),
        tolerance=Tolerance(0.0, why="an inequality: an open set"),
        relation="at least",
        note=f"{near:.0f} starts of the whole grid end there",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    import matplotlib.pyplot as plt

    ink, faint = plt.rcParams["text.color"], plt.rcParams["grid.color"]
    figure.set_size_inches(12, 4.4)
    left, right = figure.subplots(1, 2, width_ratios=(1.15, 1))
    low, high = (float(x) for x in skeleton.step_window(float(data.curvature), float(data.residual)))
    left.axvspan(low, high, color="C2", alpha=0.12, lw=0)
    left.text((low + high) / 2, 0.28, "window\n" + r"$2 < \eta(\lambda_0 - 2z_0) < 4$", ha="center", fontsize=10)
    ramp = np.linspace(0, low, 10)
    left.plot(ramp, ramp * float(data.curvature - 2 * data.residual), "--", color=ink, lw=1.2)
    left.plot([low, high], [2 + float(edge_limit.limit_series(config.epsilon))] * 2, "--", color=ink, lw=1.2)
    left.text(low * 0.42, 1.0, r"$\eta(\lambda_0 - 2z_0)$", rotation=38, ha="right", fontsize=10)
    left.plot(data.lr, data.final, "o", ms=3, color="C0", label="gradient descent")
    lost = data.lr[data.outcome == 2]
    left.plot(lost, np.full(lost.size, 2.28), "x", ms=4, color="C5", label="diverged")
    left.set(title="One start, many step sizes", xlabel=r"step size $\eta$", ylabel=r"final $\eta\lambda$")
    left.set(ylim=(0, 2.4), xlim=(0, float(data.lr.max())))
    left.legend(loc="lower right")
    right.contourf(data.z, data["T"], (~data.allowed).T, levels=[0.5, 1.5], colors=[faint], alpha=0.8)
    image = right.pcolormesh(data.z, data["T"], data.basin.T, cmap="viridis", vmin=0, vmax=2.05, rasterized=True)
    figure.colorbar(image, ax=right, label=r"final $T$")
    zz = np.array([-1.2, 1.2])
    for level, label in ((2, "C = 2"), (4, "C = 4")):
        right.plot(zz, level + 2 * zz, "--", color="C1", lw=1.6)
        x = (3.9 - level) / 2 if level == 2 else 0.1
        right.text(x - 0.04, level + 2 * x, f"${label}$", color="C1", ha="right", va="bottom", fontsize=11)
    right.set(
        title="One step size, every start", xlabel=r"$\tilde z_0$", ylabel=r"$T_0$", xlim=(-1.2, 1.2), ylim=(0, 4.5)
    )
    right.grid(False)
