"""Figure 3.1: the regimes of a linear model, a quadratic model and a network."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.dynamics import Stop, simulate
from secant.lab import Erratum, Finding, Tolerance, option, scaled, study
from secant.studies.thesis._models import KINDS, descent, model, one_sample, tangent_kernel
from secant.theory import catapult as ct
from secant.theory import catapult_scaling as cs
from secant.theory.quadratic_model import two_layer_init

if TYPE_CHECKING:
    from matplotlib.figure import Figure


DEAD = 3
"""Code of the regime in which every neuron of the network has switched off."""


@dataclass(frozen=True)
class Config:
    """Network, sample and sweep."""

    width: int = scaled(smoke=500, laptop=2_000, paper=5_000, at_least=10, help="hidden neurons")
    dim: int = option(5, at_least=1, help="input dimension")
    target: float = option(0.5, above=0, help="label of the sample")
    points: int = scaled(smoke=36, laptop=80, paper=240, at_least=10, help="step sizes")
    largest: float = option(4.0, above=1, help="largest step size over the critical one")
    steps: int = option(300, at_least=10, help="gradient-descent steps")
    seed: int = option(0, help="random seed")


@study(
    "thesis/fig-3.1",
    section="3.1",
    title="Three models, three regimes",
    statement=r"""
    On one sample. A linear model converges monotonically for $\eta < \eta_{\mathrm{crit}}$ and diverges
    above. A quadratic model and a finite network have a third regime between: for
    $\eta_{\mathrm{crit}} < \eta < \eta_{\max}$ the loss first rises, then converges. For one sample
    $\eta_{\mathrm{crit}} = 2/\lambda_0$, and for the quadratic model $\eta_{\max}$ is known exactly,
    $4/\lambda_0$ up to $O(1/m)$.""",
)
def run(config: Config) -> xr.Dataset:
    sample = one_sample(jax.random.key(config.seed), config.width, config.dim)
    critical = 2 / sample.curvature
    ratios = np.linspace(0.1, config.largest, config.points)
    runs, finals = [], []
    for kind in KINDS:
        outputs = model(kind, sample.params, sample.x)

        def loss(p: Any, outputs: Any = outputs) -> jax.Array:
            return (outputs(p) - config.target) ** 2 / 2

        data = simulate(
            lambda lr, kind=kind: descent(kind, sample.params, sample.x, config.target, lr),
            sample.params,
            config.steps,
            over={"lr": jnp.asarray(ratios) * critical},
            probes={"loss": loss},
            stop=Stop(converged=lambda p, loss=loss: loss(p) < 1e-14, diverged=lambda p, loss=loss: loss(p) > 1e10),
        ).dataset
        runs.append(np.pad(data.loss.values, ((0, 0), (0, config.steps + 1 - data.sizes["step"])), mode="edge"))
        finals.append(data.outcome.values)
    losses = np.stack(runs)
    regime = np.array(cs.classify_run(jnp.asarray(losses), rise=1 + 1e-9))
    # a network all of whose neurons are off has output 0 and stays there
    dead = np.abs(losses[:, :, -1] - config.target**2 / 2) < 1e-9
    regime[dead & (np.asarray(KINDS) == "network")[:, None]] = DEAD
    border = ct.max_step(sample.output, sample.curvature, config.width, config.target) / critical
    # several samples, linear model: what a step just past the critical size does to the loss
    key_x, key_y, key = jax.random.split(jax.random.key(config.seed), 3)
    x = jax.random.normal(key_x, (8, config.dim))
    params = two_layer_init(key, 200, config.dim)
    kernel = np.asarray(tangent_kernel("linear", params, x, params))
    start = np.asarray(model("linear", params, x)(params) - jnp.sign(jax.random.normal(key_y, (8,))))
    values, vectors = np.linalg.eigh(kernel)
    start = start - vectors[:, -1] * (vectors[:, -1] @ start) * 0.9
    step = 2.1 / values[-1]
    after = start - step * kernel @ start
    predicted = (((1 - step * values) * (vectors.T @ start)) ** 2).sum() / (start**2).sum()
    return xr.Dataset(
        {
            "loss": (("model", "ratio", "step"), losses, {"long_name": "training loss"}),
            "regime": (("model", "ratio"), regime),
            "outcome": (("model", "ratio"), np.stack(finals)),
            "border": float(border),
            "first_step": float((after**2).sum() / (start**2).sum()),
            "first_step_predicted": float(predicted),
        },
        coords={"model": list(KINDS), "ratio": ratios, "step": np.arange(config.steps + 1)},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Iterator[Finding | Erratum]:
    spacing = float(data.ratio[1] - data.ratio[0])
    grid = Tolerance(spacing, why="spacing of the step sizes")
    blur = Tolerance(
        spacing + np.log(config.width) / np.sqrt(config.width), why="spacing of the step sizes, and log m / sqrt m"
    )
    regime = {kind: data.regime.sel(model=kind) for kind in KINDS}
    for kind in KINDS:
        first = float(data.ratio.where(regime[kind] != cs.MONOTONE).min())
        yield Finding(
            f"{kind}: smallest step over the critical one that is not monotone",
            1.0,
            first,
            grid if kind == "linear" else blur,
        )
    last = {kind: float(data.ratio.where(regime[kind] != cs.DIVERGENT).max()) for kind in KINDS}
    yield Finding("linear: largest convergent step over the critical one", 1.0, last["linear"], grid)
    yield Finding(
        "quadratic: largest convergent step over the critical one", float(data.border), last["quadratic"], grid
    )
    middle = (data.ratio > 1.1) & (data.ratio < 1.6)
    yield Finding(
        "network: share of the step sizes between 1.1 and 1.6 critical ones that catapult",
        1.0,
        float((regime["network"] == cs.CATAPULT).where(middle).sum() / middle.sum()),
        Tolerance(0.0, why="the claim, away from both borders"),
    )
    yield Finding(
        "network: step sizes at which it diverges",
        0.0,
        float((regime["network"] == cs.DIVERGENT).sum()),
        Tolerance(0.0, why="on one sample a large step switches neurons off; with none left the output stays 0"),
        note="the figure shows divergence for networks too: that takes several samples",
    )
    yield Finding(
        "linear: step sizes with a catapult",
        0.0,
        float((regime["linear"] == cs.CATAPULT).sum()),
        Tolerance(0.0, why="a linear model cannot"),
    )
    yield Erratum(
        "linear model just past the critical step: loss after one step over loss before",
        printed=r"\eta > \eta_{\mathrm{crit}} \Rightarrow \mathcal L(t + 1) \ge \mathcal L(t)",
        corrected=r"\frac{\sum_i (1 - \eta\lambda_i)^2 r_i^2}{\sum_i r_i^2}\ \text{may be below one at first}",
        printed_value=1.0,
        corrected_value=float(data.first_step_predicted),
        measured=float(data.first_step),
        tolerance=Tolerance(1e-10, why="rounding"),
        why="With several samples the loss can fall at first, while components along small eigenvalues shrink.",
        where="section 3.2, after equation (3.8)",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    import matplotlib.pyplot as plt

    figure.set_size_inches(11, 3.8)
    ink = plt.rcParams["text.color"]
    titles = {"linear": "Linear model", "quadratic": "Quadratic model", "network": "ReLU network"}
    shades = {cs.MONOTONE: "C2", cs.CATAPULT: "C1", cs.DIVERGENT: "C5", DEAD: "C7"}
    names = (*cs.REGIMES, "all neurons off")
    panels = figure.subplots(1, 3, sharey=True)
    for axes, kind in zip(panels, KINDS, strict=True):
        one = data.sel(model=kind)
        peak = np.minimum(one.loss.max("step"), 1e12) / one.loss.isel(step=0)
        half = float(data.ratio[1] - data.ratio[0]) / 2
        for code, colour in shades.items():
            where = one.regime.values == code
            axes.semilogy(data.ratio[where], np.clip(peak[where], 1, 1e8), "o", ms=4, color=colour)
            for r in data.ratio.values[where]:
                axes.axvspan(r - half, r + half, color=colour, alpha=0.13, lw=0)
            if where.any():
                centre = float(data.ratio[where].mean())
                axes.text(centre, 3e8 if code != DEAD else 3e7, names[code], ha="center", color=colour, fontsize=9)
        axes.axvline(1, color=ink, ls="--", lw=1)
        if kind == "quadratic":
            axes.axvline(float(data.border), color=ink, ls="--", lw=1)
        axes.set(title=titles[kind], xlabel=r"$\eta/\eta_{\mathrm{crit}}$", ylim=(0.5, 2e9), xlim=(0, config.largest))
    panels[0].set_ylabel(r"largest over initial loss (capped)")
