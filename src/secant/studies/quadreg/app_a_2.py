"""Appendix A.2: a single eigenvalue is a logistic equation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.dynamics import flow, simulate
from secant.lab import Finding, Tolerance, option, scaled, study
from secant.theory import quartic, single_eigenvalue

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Config:
    omega: float = option(1.0, above=0, help="the eigenvalue")
    offsets: tuple[float, ...] = option((0.0, 0.5, 2.0), at_least=0, help="offsets E")
    residual: float = option(0.5, above=0, help="residual at the start")
    until: float = option(6.0, above=0, help="last time")
    lrs: tuple[float, ...] = scaled(
        smoke=(0.08, 0.04, 0.02), laptop=(0.16, 0.08, 0.04, 0.02, 0.01), paper=(0.16, 0.08, 0.04, 0.02, 0.01), above=0,
        help="step sizes of the comparison with descent, each half the one before",
    )  # fmt: skip


@study(
    "quadreg/app-A.2",
    section="A.2",
    title="One eigenvalue: the logistic equation",
    statement=r"""
    With a single eigenvalue the invariant fixes the curvature, $J^2 = \omega(2z + E)$, and gradient flow is
    $\dot z = -\omega z(2z + E)$, so
    $$z(t) = \frac{E/2}{\left(1 + \frac{E}{2z_0}\right)e^{\omega Et} - 1}.$$
    This is the model to which the dynamical mean-field theory of a linear network on one sample is mapped, with
    $\Delta = \tilde z$, $H_y = J_0^2$, $y = -E/2$.""",
)
def run(config: Config) -> xr.Dataset:
    offsets = jnp.array(config.offsets)
    spectrum = jnp.array([config.omega])

    def start(E: jnp.ndarray) -> jnp.ndarray:
        return jnp.sqrt((2 * config.residual + E) / config.omega)[None]

    ran = flow(
        lambda t, E: quartic.quartic_flow(jnp.diag(spectrum), E)(t),
        start,
        until=config.until,
        over={"E": offsets},
        probes={
            "z": lambda t, E: quartic.residual(t, jnp.diag(spectrum), E),
            "curvature": lambda t: jnp.sum((spectrum * t) ** 2),
        },
        samples=121,
        rtol=1e-11,
        atol=1e-13,
    ).dataset
    formula = single_eigenvalue.single_eigenvalue_solution(
        ran.time.values, config.residual, config.omega, np.array(config.offsets)[:, None]
    )
    # The same model by gradient descent: the difference from the flow is of first order in the step.
    errors = []
    for lr in config.lrs:
        steps = round(1.0 / lr)
        end = simulate(
            lambda E, lr=lr: quartic.quartic(jnp.diag(spectrum), lr, E), start, steps, over={"E": offsets}
        ).state
        z = (config.omega * np.asarray(end)[:, 0] ** 2 - np.array(config.offsets)) / 2
        exact = single_eigenvalue.single_eigenvalue_solution(
            steps * lr, config.residual, config.omega, np.array(config.offsets)
        )
        errors.append(np.abs(z - np.asarray(exact)))
    return xr.Dataset(
        {
            "z": ran.z,
            "curvature": ran.curvature,
            "formula": (("E", "time"), np.asarray(formula)),
            "descent_error": (("lr", "E"), np.stack(errors)),
        },
        coords={"E": np.array(config.offsets), "lr": list(config.lrs)},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Iterator[Finding]:
    numeric = Tolerance(1e-8, why="relative tolerance 1e-11 of the integrator")
    yield Finding(
        "closed form against the flow: largest difference", 0.0, float(np.abs(data.z - data.formula).max()), numeric
    )
    law = single_eigenvalue.single_eigenvalue_curvature(data.z.values, config.omega, data.E.values[:, None])
    yield Finding(
        "curvature against omega (2z + E): largest difference", 0.0, float(np.abs(data.curvature - law).max()), numeric
    )
    error = data.descent_error.isel(lr=slice(-2, None)).max("E")
    yield Finding(
        "power of the step size in the difference between descent and flow",
        predicted=1.0,
        measured=float(np.log(error[0] / error[1]) / np.log(config.lrs[-2] / config.lrs[-1])),
        tolerance=Tolerance(20 * config.lrs[-1], why="the next order in the step size"),
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    import matplotlib.pyplot as plt

    ink = plt.rcParams["text.color"]
    figure.set_size_inches(11, 3.9)
    left, middle, right = figure.subplots(1, 3)
    for i, E in enumerate(config.offsets):
        one = data.isel(E=i)
        left.semilogy(data.time, one.z, color=f"C{i}", lw=3, alpha=0.75, label=f"$E = {E:g}$")
        left.semilogy(data.time, one.formula, "--", color=ink, lw=1.1, label="closed form" if i == 0 else None)
        middle.plot(one.z, one.curvature, color=f"C{i}", lw=3, alpha=0.75)
        z = np.linspace(0, config.residual, 20)
        middle.plot(z, single_eigenvalue.single_eigenvalue_curvature(z, config.omega, E), "--", color=ink, lw=1.1)
        right.loglog(data.lr, data.descent_error.isel(E=i), "o-", color=f"C{i}", label=f"$E = {E:g}$")
    left.set(title="Residual under gradient flow", xlabel="time", ylabel=r"$z$", ylim=(1e-5, 1))
    left.legend()
    middle.set(title="Curvature follows the residual", xlabel=r"$z$", ylabel=r"$J^2 = \omega(2z + E)$")
    lrs = np.array(config.lrs)
    right.loglog(lrs, 0.12 * lrs, "--", color=ink, lw=1.1, label=r"$\propto\eta$")
    right.set(title="Descent nears the flow", xlabel=r"step size $\eta$", ylabel="difference at time 1")
    right.legend()
