"""Figure 3: gradient descent in the quadratic regression model sharpens, and stops at the edge."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.dynamics import Outcome, Probe, Stop, simulate
from secant.lab import Erratum, Finding, Tolerance, option, scaled, study
from secant.theory import quadratic_regression as model
from secant.theory import random_regression

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Config:
    outputs: int = scaled(smoke=20, laptop=60, paper=60, at_least=2, at_most=400, help="number of residuals")
    parameters: int = scaled(smoke=40, laptop=120, paper=120, at_least=2, at_most=800, help="number of parameters")
    residuals: tuple[float, ...] = option(
        (0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 1.2), above=0, help="rescaled scales of the residuals, in rising order"
    )
    jacobian: float = option(0.1, above=0, help="square of the rescaled scale of the Jacobian")
    seeds: int = scaled(smoke=2, laptop=4, paper=10, at_least=1, help="random models")
    steps: int = scaled(smoke=400, laptop=1_000, paper=1_000, at_least=10, help="gradient-descent steps")


@study(
    "quadreg/fig-3",
    section="3.2",
    title="Sharpening in random quadratic regression stops at the edge",
    statement=r"""
    Gradient descent on a random quadratic regression model ($D = 60$, $P = 120$, $\eta = 1$): the larger the residuals
    at the start, the larger the curvature at the end, until sharpening drives $\eta\lambda_{\max}$ to 2. There larger
    residuals let the second-order term of the step act: the loss is no longer monotone but still converges to zero,
    with the curvature just below the edge. Still larger residuals diverge.""",
)
def run(config: Config) -> xr.Dataset:
    D, P = config.outputs, config.parameters
    sizes = jnp.array([*config.residuals, float(D)])  # the last one is a variance of one before rescaling

    def one(seed: int) -> xr.Dataset:
        tensor, start = jax.random.split(jax.random.key(seed))
        Q, unit = model.random_tensor(tensor, D, P), model.random_start(start, D, P)

        def begin(residual: jax.Array) -> model.Regression:
            sigma = model.scales(residual, config.jacobian**0.5, D, P)
            return model.Regression(sigma.z * unit.z, sigma.J * unit.J)

        return simulate(
            model.descent(Q),
            begin,
            config.steps,
            over={"residual": sizes},
            probes={
                "loss": Probe(lambda s: jnp.sum(s.z**2) / 2),
                "top": Probe(lambda s: jnp.linalg.eigvalsh(s.J @ s.J.T)[-1], every=2),
            },
            stop=Stop(diverged=lambda s: jnp.sum(s.z**2) > 1e6),
            label=f"seed {seed}",
        ).dataset

    return xr.concat([one(seed) for seed in range(config.seeds)], "seed")


@run.findings
def check(data: xr.Dataset, config: Config) -> Iterator[Finding | Erratum]:
    names = list(config.residuals)
    rescaled = data.sel(residual=names)
    loss, top = rescaled.loss, rescaled.top.rename(step_2="step")
    alive = rescaled.outcome != Outcome.DIVERGED
    # A run that still oscillates has no final curvature yet: only what has come to rest is judged by it.
    settled = alive & (loss.isel(step=-1) < 1e-6 * loss.isel(step=0))
    start, final = top.isel(step=0), top.isel(step=-1).where(alive)
    inequality = Tolerance(0.0, why="an inequality")
    yield Finding(
        "final curvature grows with the residuals: smallest rise from one size to the next, up to 0.45, all models",
        predicted=0.0,
        measured=float(final.sel(residual=[size for size in names if size <= 0.45]).diff("residual").min()),
        tolerance=inequality,
        relation="at least",
    )
    yield Finding(
        "curvature grows along the run: smallest final over initial value, residuals of 0.1 and more",
        predicted=1.0,
        measured=float((final / start).sel(residual=[size for size in names if size >= 0.1]).min()),
        tolerance=inequality,
        relation="at least",
    )
    edge = [size for size in names if 0.45 <= size <= 0.65]
    there = final.where(settled).sel(residual=edge)
    note = f"{int(there.notnull().sum())} of {there.size} runs have settled within {config.steps} steps"
    if there.notnull().any():
        yield Finding(
            "settled at the edge: largest final curvature, residuals of 0.45 to 0.65",
            predicted=2.0,
            measured=float(there.max()),
            tolerance=inequality,
            relation="at most",
            note=note,
        )
        yield Finding(
            "settled at the edge: median final curvature, residuals of 0.45 to 0.65",
            predicted=1.85,
            measured=float(there.median()),
            tolerance=Tolerance(0.0, why="an inequality: within 8 percent of the edge"),
            relation="at least",
            note=note,
        )
    on_the_way = loss.sel(residual=edge).where(settled.sel(residual=edge) & (top.sel(residual=edge).max("step") > 2))
    yield Finding(
        "settled after the curvature has passed 2: share of runs whose loss rose on the way",
        predicted=1.0,
        measured=float((on_the_way.diff("step") > 0).any("step").where(on_the_way.isel(step=0).notnull()).mean()),
        tolerance=Tolerance(
            0.0, why="a curvature above 2 makes its mode grow, and what grows is in the end the largest"
        ),
    )
    calm = loss.sel(residual=[size for size in names if size <= 0.2])
    yield Finding(
        "far below the edge: largest factor of the loss in a step, residuals of at most 0.2",
        predicted=1.0,
        measured=float((calm.isel(step=slice(1, None)) / calm.isel(step=slice(0, -1)).values).max()),
        tolerance=Tolerance(0.0, why="an inequality: the loss is monotone"),
        relation="at most",
    )
    if max(config.residuals) >= 1.2:
        yield Finding(
            f"residuals of {max(config.residuals):g}: share of models that diverge",
            predicted=0.5,
            measured=float((~alive).sel(residual=max(config.residuals)).mean()),
            tolerance=Tolerance(0.0, why="an inequality: most of them"),
            relation="at least",
        )
    ratio = random_regression.nonlinearity_ratio(config.outputs, config.parameters, 1.0)
    yield Erratum(
        "how large residuals are where the edge of stability appears",
        printed=r"\sigma_z = O(1)",
        corrected=r"\tilde\sigma_z = D\sigma_z = O(1)",
        printed_value=0.0,
        corrected_value=1.0,
        measured=float((data.outcome.isel(residual=-1) == Outcome.DIVERGED).mean()),
        tolerance=Tolerance(0.0, why="a share: all or none"),
        why=f"With a standard deviation of one the first step is {ratio:.0f} times more nonlinear than linear, and all "
        "models diverge (share diverged); it is the rescaled size, D times as large, that is of order one.",
        where="text on figure 3",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    import matplotlib.pyplot as plt

    figure.set_size_inches(10, 4.2)
    left, right = figure.subplots(1, 2)
    ink = plt.rcParams["text.color"]
    shades = plt.get_cmap("viridis")(np.linspace(0, 0.9, len(config.residuals)))
    first = data.isel(seed=0)
    for shade, size in zip(shades, config.residuals, strict=True):
        one = first.sel(residual=size)
        end = int(one.stopped_at) if int(one.outcome) == Outcome.DIVERGED else config.steps + 1
        for axes, line in ((left, one.loss), (right, one.top)):
            shown = line[line[line.dims[0]] < end]
            axes.plot(np.maximum(shown[line.dims[0]], 0.7), shown, color=shade, lw=1.3, label=f"{size:g}")
    left.set(xscale="log", yscale="log")
    left.set(title="Loss", xlabel="step", ylabel=r"$\frac{1}{2}|z|^2$", ylim=(1e-12, 1e2))
    right.axhline(2, color=ink, ls="--", lw=1.0)
    right.set(xscale="log", title="Curvature", xlabel="step", ylabel=r"$\eta\lambda_{\max}$", ylim=(0, 3))
    right.text(config.steps, 2.04, r"$\eta\lambda_{\max} = 2$", va="bottom", ha="right")
    left.legend(title=r"$\tilde\sigma_z$", loc="lower left", ncols=2)
