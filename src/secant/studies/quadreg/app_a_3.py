"""Appendix A.3: constant second derivative and constant third kernel are different truncations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.dynamics import flow
from secant.lab import Finding, Tolerance, option, scaled, study
from secant.theory import quadratic_regression, tangent_hierarchy

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Config:
    outputs: int = scaled(smoke=4, laptop=10, paper=20, at_least=1, at_most=100, help="number of residuals")
    parameters: int = scaled(smoke=12, laptop=30, paper=60, at_least=1, at_most=400, help="number of parameters")
    residual: float = option(1.0, above=0, help="scale of the residuals, times the number of outputs")
    jacobian: float = option(0.6, above=0, help="scale of the Jacobian")
    until: float = option(4.0, above=0, help="last time")
    seed: int = option(0, at_least=0, help="random seed")


@study(
    "quadreg/app-A.3",
    section="A.3",
    title="Two truncations of the moving kernel",
    statement=r"""
    Under gradient flow on the squared loss the tangent kernel moves as
    $\frac{d}{dt}(JJ^\top)_{\alpha\beta} = -\eta(K_3)_{\alpha\beta\gamma}z_\gamma$ with
    $(K_3)_{\alpha\beta\gamma} = Q_{\alpha ij}J_{\gamma i}J_{\beta j} + Q_{\beta ij}J_{\gamma i}J_{\alpha j}$.
    Quadratic regression keeps $Q$ constant, the neural tangent hierarchy truncated at third order keeps $K_3$
    constant: they agree to first order in time and differ at second.""",
)
def run(config: Config) -> xr.Dataset:
    D, P = config.outputs, config.parameters
    keys = jax.random.split(jax.random.key(config.seed), 3)
    A = jax.random.normal(keys[0], (D, P, P))
    Q = (A + jnp.swapaxes(A, 1, 2)) / 2
    z = config.residual / D * jax.random.normal(keys[1], (D,))
    J = config.jacobian / (D * P) ** 0.25 * jax.random.normal(keys[2], (D, P))
    K3 = tangent_hierarchy.third_kernel(Q, J)
    start = quadratic_regression.Regression(z, J)
    velocity = quadratic_regression.flow_field(Q)(start)
    moving = velocity.J @ J.T + J @ velocity.J.T

    times = np.union1d(np.geomspace(1e-3, 0.2, 40), np.linspace(0.0, config.until, 121))
    regression = flow(
        quadratic_regression.flow_field(Q),
        start,
        probes={"z": lambda s: s.z, "J": lambda s: s.J},
        until=config.until,
        samples=times,
        rtol=1e-10,
        atol=1e-12,
    ).dataset
    hierarchy = flow(
        tangent_hierarchy.hierarchy_flow(K3),
        tangent_hierarchy.Hierarchy(z, J @ J.T),
        probes={"z": lambda s: s.z, "K": lambda s: s.K},
        until=config.until,
        samples=times,
        rtol=1e-10,
        atol=1e-12,
        max_steps=3_000,  # it may blow up in finite time, which is a result, not something to chase
    ).dataset
    # The frozen kernel, the hierarchy one order lower: z(t) = exp(-K t) z(0).
    values, vectors = np.linalg.eigh(np.asarray(J @ J.T))
    frozen = 0.5 * np.sum((np.exp(-values[None] * times[:, None]) * (vectors.T @ np.asarray(z))[None]) ** 2, -1)
    size = lambda x: np.sqrt((x**2).reshape(len(times), -1).sum(-1))  # noqa: E731
    half_square = lambda z: (z**2).sum(-1) / 2  # noqa: E731
    jacobians = regression.J.values
    K = jacobians @ np.swapaxes(jacobians, 1, 2)
    # The truncated hierarchy may blow up before the end: its records are then not finite.
    finite = np.isfinite(hierarchy.K.values).all(axis=(1, 2))
    truncated = np.linalg.eigvalsh(np.where(finite[:, None, None], hierarchy.K.values, 0.0))
    truncated = np.where(finite[:, None], truncated, np.nan)
    half = np.einsum("aij,tci,tbj->tabc", np.asarray(Q), jacobians, jacobians, optimize=True)
    third = half + np.swapaxes(half, 1, 2)
    return xr.Dataset(
        {
            "top": (
                ("model", "time"),
                np.stack([np.linalg.eigvalsh(K)[:, -1], truncated[:, -1], np.full(len(times), values[-1])]),
            ),
            "loss": (
                ("model", "time"),
                np.stack([half_square(regression.z.values), half_square(hierarchy.z.values), frozen]),
            ),
            "gap": (("model", "time"), np.stack([0 * times, size(K - hierarchy.K.values), size(K - K[:1])])),
            "K3_change": ("time", size(third - third[:1]) / np.sqrt((third[0] ** 2).sum())),
            "bottom": ("time", truncated[:, 0], {"long_name": "smallest eigenvalue of the truncated kernel"}),
            "identity": float(jnp.abs(moving + K3 @ z).max() / jnp.abs(moving).max()),
        },
        coords={"model": ["quadratic regression", "constant K3", "constant K"], "time": times},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Iterator[Finding]:
    yield Finding(
        "velocity of the tangent kernel against -K3 z: largest relative difference",
        predicted=0.0,
        measured=float(data.identity),
        tolerance=Tolerance(1e-12, why="an identity: rounding of float64"),
    )
    short = data.where((data.time > 2e-3) & (data.time < 2e-2), drop=True)
    for model, power in (("constant K3", 2), ("constant K", 1)):
        slope = np.polyfit(np.log(short.time), np.log(short.gap.sel(model=model)), 1)[0]
        yield Finding(
            f"power of time in the kernel's distance from quadratic regression, {model}",
            predicted=power,
            measured=float(slope),
            tolerance=Tolerance(0.05, why="the next power of time, at times below 0.02 of rates of order one"),
        )
    yield Finding(
        "relative change of the third kernel under quadratic regression, at the end",
        predicted=0.1,
        measured=float(data.K3_change.isel(time=-1)),
        tolerance=Tolerance(0.0, why="an inequality: it is not constant"),
        relation="at least",
    )
    yield Finding(
        "smallest eigenvalue of the kernel with constant K3, over the run",
        predicted=0.0,
        measured=float(data.bottom.min()),
        tolerance=Tolerance(0.0, why="an inequality"),
        relation="at most",
        note="a kernel with a negative eigenvalue is no kernel: from there on this truncation drives its loss up",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    import matplotlib.pyplot as plt

    ink = plt.rcParams["text.color"]
    figure.set_size_inches(11, 3.9)
    left, middle, right = figure.subplots(1, 3)
    names = {
        "quadratic regression": "quadratic regression",
        "constant K3": r"hierarchy, constant $K_3$",
        "constant K": r"constant $K$",
    }
    for i, model in enumerate(data.model.values):
        one = data.sel(model=model)
        left.plot(data.time, one.top, color=f"C{i}", label=names[model])
        middle.semilogy(data.time, one.loss, color=f"C{i}", label=names[model])
        if i:
            right.loglog(data.time[1:], one.gap[1:], color=f"C{i}", label=names[model])
    left.set(
        title="Largest kernel eigenvalue",
        xlabel="time",
        ylabel=r"$\lambda_{\max}$",
        ylim=(0, 1.6 * float(data.top[0].max())),
    )
    middle.set(
        title="Loss",
        xlabel="time",
        ylabel=r"$\frac{1}{2}|z|^2$",
        ylim=(float(data.loss[0].min()) / 2, 20 * float(data.loss[0, 0])),
    )
    middle.legend()
    t = data.time.values[1:30]
    for model, power in (("constant K3", 2), ("constant K", 1)):
        gap = float(data.gap.sel(model=model).isel(time=10))
        right.loglog(t, gap * (t / float(data.time[10])) ** power, "--", color=ink, lw=1.0)
        right.text(
            t[12] * 1.2,
            gap * (t[12] * 1.2 / float(data.time[10])) ** power / 2,
            rf"$\propto t{'^2' if power == 2 else ''}$",
            va="top",
        )
    right.set(title="Distance of the kernels", xlabel="time", ylabel=r"$\|K - K_{\mathrm{quad}}\|$")
    right.legend(loc="upper left")
