"""Figure 3: gradient descent in the quadratic regression model sharpens, and stops at the edge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.dynamics import Map, Outcome, Probe, Stop, simulate
from secant.lab import Erratum, Figure, Finding, Findings, Tolerance, claims, estimate, option, scaled, sheet, study
from secant.setups.regression.draws import check_sizes, share, weakest
from secant.theory import quadratic_regression as model
from secant.theory import random_regression

EDGE = (0.45, 0.65)
"""Residuals between these are called intermediate: flows from them end above 2, and descent seldom diverges."""


@dataclass(frozen=True)
class Config:
    outputs: int = scaled(smoke=20, laptop=60, at_least=2, at_most=400, help="number of residuals")
    parameters: int = scaled(smoke=40, laptop=120, at_least=2, at_most=800, help="number of parameters")
    residuals: tuple[float, ...] = option(
        (0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 1.2), at_least=1e-3, at_most=100, ascending=True,
        help="rescaled scales of the residuals",
    )
    jacobian: float = option(0.1, at_least=1e-3, at_most=0.3, help="square of the rescaled scale of the Jacobian")
    seeds: int = scaled(smoke=12, laptop=8, paper=10, at_least=2, at_most=1_000, help="random models")
    steps: int = scaled(smoke=400, laptop=1_000, at_least=10, at_most=100_000, help="gradient-descent steps")
    seed: int = option(0, at_least=0, help="so many times as many models are skipped before the first")

    def check(self) -> None:
        """A loss that can reach zero, and tensors that fit into memory."""
        check_sizes((self.outputs,), (self.parameters,), together=self.seeds, solvable=True)


class Draw(NamedTuple):
    """A random model and a start of unit variance.

    Attributes:
        Q: second derivatives.
        unit: residuals and Jacobian.
    """

    Q: jax.Array
    unit: model.Regression


@study(
    "quadreg/fig-3", section="3.2", title="Sharpening in random quadratic regression stops at the edge",
    statement=r"""
    Gradient descent on a random quadratic regression model ($D = 60$, $P = 120$, $\eta = 1$): the larger the residuals
    at the start, the larger the curvature at the end, until sharpening drives $\eta\lambda_{\max}$ to 2. There larger
    residuals let the second-order term of the step act: the loss is no longer monotone but still converges to zero,
    with the curvature just below the edge. Still larger residuals diverge.""",
)
def run(config: Config) -> xr.Dataset:
    D, P = config.outputs, config.parameters
    sizes = jnp.array([*config.residuals, float(D)])  # the last one is a variance of one before rescaling

    def one(seed: int) -> Draw:
        tensor, start = jax.random.split(jax.random.key(seed))
        return Draw(model.random_tensor(tensor, D, P), model.random_start(start, D, P))

    def begin(residual: jax.Array, draw: Draw) -> model.Regression:
        sigma = model.scales(residual, config.jacobian**0.5, D, P)
        return model.Regression(sigma.z * draw.unit.z, sigma.J * draw.unit.J)

    def system(draw: Draw) -> Map:
        return model.descent(draw.Q)

    first = config.seed * config.seeds
    draws = jax.tree.map(lambda *leaves: jnp.stack(leaves), *map(one, range(first, first + config.seeds)))
    return simulate(
        system, begin, config.steps, over={"draw": draws, "residual": sizes},
        probes={
            "loss": Probe(lambda s: jnp.sum(s.z**2) / 2),
            "top": Probe(lambda s: jnp.linalg.eigvalsh(s.J @ s.J.T)[-1], every=2),
        },
        stop=Stop(diverged=lambda s: jnp.sum(s.z**2) > 1e6), label=f"{config.seeds} models",
    ).dataset


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    size = np.array(config.residuals)
    rescaled = data.isel(residual=slice(0, len(size))).transpose("draw", "residual", ...)
    loss, top = rescaled.loss, rescaled.top.rename(step_2="step")
    alive = rescaled.outcome != Outcome.DIVERGED
    # A run that still oscillates has no final curvature yet: only what has come to rest is judged by it.
    settled = alive & (loss.isel(step=-1) < 1e-6 * loss.isel(step=0))
    start, final = top.isel(step=0), top.isel(step=-1).where(alive)
    calm = np.flatnonzero(size <= EDGE[0])
    yield _weakest(
        f"final curvature grows with the residuals, up to {EDGE[0]:g}: smallest mean rise from one size to the next",
        0.0, np.diff(final.values[:, calm], axis=1), size[calm],
    )
    moving = np.flatnonzero((size >= 0.1) & (size <= EDGE[1]))
    yield _weakest(
        f"curvature grows along the run: smallest mean of final over initial value, residuals of 0.1 to {EDGE[1]:g}",
        1.0, (final / start).values[:, moving], size[moving],
    )
    edge = np.flatnonzero((size >= EDGE[0]) & (size <= EDGE[1]))
    near, rising, rested = (part.isel(residual=edge) for part in (loss, top, settled))
    yield from _at_the_edge(near, rising, rested, config)
    far_below = np.flatnonzero((size <= 0.2) & (start.values.max(axis=0) < 1))
    claim = "begun below 1: largest factor of the loss in a step, residuals of at most 0.2"
    if len(far_below):
        falls = loss.isel(residual=far_below).values
        yield claims.at_most(
            claim, 1.0, (falls[..., 1:] / falls[..., :-1]).max(), "an inequality: the loss is monotone, up to rounding",
            slack=1e-12,
        )
    else:
        yield claims.undecided(claim, 1.0, "no residuals are that small, or the curvature begins above 1", "at most")
    claim = "residuals of 1.2 and more: share of models that diverge"
    if size[-1] >= 1.2:
        yield claims.at_least(
            claim, 0.5, share(~alive.isel(residual=-1)), "an inequality: most of them; by Laplace's rule"
        )
    else:
        yield claims.undecided(claim, 0.5, "no residuals are that large", "at least")
    ratio = random_regression.nonlinearity_ratio(config.outputs, config.parameters, 1.0)
    yield Erratum(
        "how large residuals are where the edge of stability appears: share of models that diverge at one",
        printed=r"\sigma_z = O(1)", corrected=r"\tilde\sigma_z = D\sigma_z = O(1)", printed_value=0.0,
        corrected_value=1.0 if ratio > 2 else np.nan,
        measured=share(data.outcome.isel(residual=-1) == Outcome.DIVERGED),
        tolerance=Tolerance(0.1, why="all or none; by Laplace's rule"),
        why=f"With a standard deviation of one the first step is {ratio:.0f} times more nonlinear than linear, and all "
        "models diverge; it is the rescaled size, D times as large, that is of order one at the edge.",
        where="text on figure 3",
    )


def _weakest(claim: str, bound: float, repeats: np.ndarray, sizes: np.ndarray) -> Finding:
    """That a mean over models is above a bound at every size, judged where it is least above it."""
    repeats = repeats[~np.isnan(repeats).any(axis=1)]
    if len(repeats) < 2 or not repeats.shape[1]:
        return claims.undecided(claim, bound, "too few sizes, or models that do not diverge at any of them", "at least")
    worst = weakest(repeats, bound)
    return claims.at_least(
        claim, bound, estimate(repeats[:, worst]), "an inequality, over models",
        note=f"at residuals of {sizes[worst]:g}",
    )


def _at_the_edge(loss: xr.DataArray, top: xr.DataArray, settled: xr.DataArray, config: Config) -> Findings:
    """What has come to rest after its curvature has passed 2."""
    been = (settled & (top.max("step") > 2)).values
    note = f"{been.sum()} runs have been above 2 and settled within {config.steps} steps"
    at = f"settled after the curvature has passed 2, residuals of {EDGE[0]:g} to {EDGE[1]:g}"
    statements = (
        f"{at}: largest final curvature", f"{at}: median final curvature", f"{at}: share whose loss rose on the way",
    )
    if not been.any():
        for claim, predicted, relation in zip(
            statements, (2.0, 2.0, 0.5), ("at most", "equal", "at least"), strict=True
        ):
            yield claims.undecided(claim, predicted, note, relation)
        return
    final = top.isel(step=-1).values[been]
    yield claims.at_most(statements[0], 2.0, final.max(), note=note)
    yield claims.equal(
        statements[1], 2.0, np.median(final), 0.1, "within five per cent of the edge is called the edge here", note=note
    )
    yield claims.at_least(
        statements[2], 0.5, share(np.asarray((np.diff(loss.values, axis=-1) > 0).any(axis=-1))[been]),
        "most: a curvature above 2 makes its mode grow; by Laplace's rule", note=note,
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    import matplotlib.pyplot as plt

    left, right = sheet.panels(figure, (10, 4.2), 2)
    ink = sheet.ink()
    shades = plt.get_cmap("viridis")(np.linspace(0, 0.9, len(config.residuals)))
    first = data.isel(draw=0)
    for i, (shade, size) in enumerate(zip(shades, config.residuals, strict=True)):
        one = first.isel(residual=i)
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
