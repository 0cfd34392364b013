"""Figure 3: gradient descent in the quadratic regression model sharpens, and stops at the edge."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.core.device import jit
from secant.dynamics import Outcome, Probe, Stop, simulate
from secant.lab import Figure, Finding, Findings, Options, claim, estimate, options, scaled, sheet, study
from secant.studies.shared.regression import models
from secant.studies.shared.regression.draws import check_sizes, share, weakest
from secant.theory.regression import quadratic_regression as model
from secant.theory.regression import random_regression

EDGE = (0.45, 0.65)
"""Residuals between these are called intermediate: flows from them end above 2, and descent seldom diverges."""


class Config(Options):
    outputs: int = scaled(smoke=12, laptop=60, at_least=2, at_most=400, help="number of residuals")
    parameters: int = scaled(smoke=24, laptop=120, at_least=2, at_most=800, help="number of parameters")
    residuals: tuple[float, ...] = models.residuals(
        (0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 1.2), at_most=100, ascending=True
    )
    jacobian: float = models.jacobian(0.1, at_most=0.3)
    draws: int = options.draws(12, 8, 10, at_least=2, at_most=1_000)
    steps: int = options.steps(400, 1_000, at_least=10, at_most=100_000)
    seed: int = options.seed(0, at_most=None)

    def check(self) -> None:
        """A loss that can reach zero, and tensors that fit into memory."""
        check_sizes((self.outputs,), (self.parameters,), together=self.draws, solvable=True)


@study("quadreg/fig-3", section="3.2", title="Sharpening in random quadratic regression stops at the edge")
def run(config: Config) -> xr.Dataset:
    r"""Gradient descent on a random quadratic regression model ($D = 60$, $P = 120$, $\eta = 1$): the larger the
    residuals at the start, the larger the curvature at the end, until sharpening drives $\eta\lambda_{\max}$ to 2.
    There larger residuals let the second-order term of the step act: the loss is no longer monotone but still converges
    to zero, with the curvature just below the edge. Still larger residuals diverge.
    """
    D, P = config.outputs, config.parameters
    sizes = np.array([*config.residuals, float(D)])  # the last one is a variance of one before rescaling

    def one(seed: jax.Array) -> dict[str, Any]:
        """A random model and a start of unit variance."""
        tensor, start = jax.random.split(jax.random.key(seed))
        return {"Q": model.random_tensor(tensor, D, P), "unit": model.random_start(start, D, P)}

    def begin(residual: jax.Array, draw: dict[str, Any]) -> model.Regression:
        sigma, unit = model.scales(residual, config.jacobian**0.5, D, P), draw["unit"]
        return model.Regression(sigma.z * unit.z, sigma.J * unit.J)

    first = config.seed * config.draws  # no model of one seed is drawn by another
    draws = jit(jax.vmap(one), quick=True)(np.arange(first, first + config.draws))
    return simulate(
        lambda draw: model.descent(draw["Q"]),
        begin,
        config.steps,
        over={"draw": draws, "residual": sizes},
        probes={
            "loss": Probe(lambda s: jnp.sum(s.z**2) / 2),
            "top": Probe(lambda s: jnp.linalg.eigvalsh(s.J @ s.J.T)[-1], every=2),
        },
        stop=Stop(diverged=lambda s: jnp.sum(s.z**2) > 1e6),
        label=f"{config.draws} models",
    ).dataset


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    rescaled = data.isel(residual=slice(0, -1)).transpose("draw", "residual", ...)
    loss, top, size = rescaled.loss, rescaled.top.rename(step_2="step"), rescaled.residual
    alive = rescaled.outcome != Outcome.DIVERGED
    start, final = top.isel(step=0, drop=True), top.isel(step=-1, drop=True).where(alive)
    rises = final.sel(residual=slice(None, EDGE[0])).diff("residual", label="lower")
    sentence = f"smallest mean rise of the final curvature from one size to the next, residuals up to {EDGE[0]:g}"
    yield _weakest("final-grows", sentence, 0.0, rises)
    growth = (final / start).sel(residual=slice(0.1, EDGE[1]))
    sentence = f"smallest mean growth of the curvature along the run, residuals of 0.1 to {EDGE[1]:g}"
    yield _weakest("run-grows", sentence, 1.0, growth)
    # A run that still oscillates has no final curvature yet: only what has come to rest is judged by it.
    settled = alive & (loss.isel(step=-1) < 1e-6 * loss.isel(step=0))
    been = (settled & (top.max("step") > 2)).sel(residual=slice(*EDGE))
    note = f"{int(been.sum())} runs have been above 2 and settled within {config.steps} steps"
    at = f"settled after the curvature has passed 2, residuals of {EDGE[0]:g} to {EDGE[1]:g}"
    end, rose = final.where(been), (loss.diff("step") > 0).any("step").sel(residual=been.residual)
    yield claim("settled-largest", f"{at}: largest final curvature", been, note).at_most(2.0, end.max, note=note)
    yield claim("settled-median", f"{at}: median final curvature", been, note).equal(
        2.0, end.median, 0.1, "within five per cent of the edge is called the edge here", note=note
    )
    yield claim("settled-rose", f"{at}: share whose loss rose on the way", been, note).at_least(
        0.5, share(rose.values[been]), "most: a curvature above 2 makes its mode grow; by Laplace's rule", note=note
    )
    falls = loss.sel(residual=(size <= 0.2) & (start.max("draw") < 1)).values
    none = "no residuals are that small, or the curvature begins above 1"
    sentence = "begun below 1: largest factor of the loss in a step, residuals of at most 0.2"
    why = "an inequality: the loss is monotone, up to rounding"
    yield claim("begun-below-1", sentence, falls.size, none).at_most(
        1.0, lambda: (falls[..., 1:] / falls[..., :-1]).max(), why, slack=1e-12
    )
    sentence = "share of models that diverge, residuals of 1.2 and more"
    yield claim("diverge", sentence, size[-1] >= 1.2, "no residuals are that large").at_least(
        0.5, share(~alive.isel(residual=-1)), "an inequality: most of them; by Laplace's rule"
    )
    ratio = random_regression.nonlinearity_ratio(config.outputs, config.parameters, 1.0)
    sentence = "how large residuals are where the edge of stability appears: share of models that diverge at one"
    yield claim("scale", sentence).erratum(
        (r"\sigma_z = O(1)", 0.0),
        (r"\tilde\sigma_z = D\sigma_z = O(1)", 1.0 if ratio > 2 else np.nan),
        share(data.outcome.isel(residual=-1) == Outcome.DIVERGED),
        0.1,
        "all or none; by Laplace's rule",
        note=f"With a standard deviation of one the first step is {ratio:.0f} times more nonlinear than linear, and "
        "all models diverge. The rescaled size, D times as large, is of order one at the edge.",
        where="text on figure 3",
    )


def _weakest(key: str, name: str, bound: float, repeats: xr.DataArray) -> Finding:
    """The claim that a mean over models is above a bound at every size, judged where it is least above it."""
    repeats = repeats.dropna("draw")
    if repeats.sizes["draw"] < 2 or not repeats.size:
        few = "too few sizes, or models that do not diverge at any of them"
        return claim(key, name).undecided(bound, few, "at least")
    worst = repeats.isel(residual=weakest(repeats.values, bound))
    note = f"at residuals of {float(worst.residual):g}"
    return claim(key, name).at_least(bound, estimate(worst), "an inequality, over models", note=note)


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    from matplotlib import colormaps

    left, right = sheet.panels(figure, (10, 4.2), 2)
    shades = colormaps["viridis"](np.linspace(0, 0.9, len(config.residuals)))
    for i, (shade, size) in enumerate(zip(shades, config.residuals, strict=True)):
        one = data.isel(draw=0, residual=i)
        end = int(one.stopped_at) if one.outcome == Outcome.DIVERGED else config.steps + 1
        for axes, line in ((left, one.loss), (right, one.top.rename(step_2="step"))):
            shown = line[line.step < end]
            axes.plot(np.maximum(shown.step, 0.7), shown, color=shade, lw=1.3, label=f"{size:g}")
    legend, logs = {"title": r"$\tilde\sigma_z$", "loc": "lower left", "ncols": 2}, {"xscale": "log", "yscale": "log"}
    sheet.label(left, "Loss", "step", r"$\frac{1}{2}|z|^2$", legend, ylim=(1e-12, 1e2), **logs)
    sheet.mark(right, y=2, lw=1.0)
    sheet.label(right, "Curvature", "step", r"$\eta\lambda_{\max}$", xscale="log", ylim=(0, 3))
    right.text(config.steps, 2.04, r"$\eta\lambda_{\max} = 2$", va="bottom", ha="right")
