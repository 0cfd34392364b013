"""Figure 3.1: the regimes of a linear model, a quadratic model and a network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.dynamics import Outcome, Stop, simulate
from secant.lab import Figure, Findings, Tolerance, claims, fits_memory, option, scaled, sheet, study
from secant.setups.two_layer.models import KINDS, Kind, descent, model, one_sample, tangent_kernel
from secant.theory import catapult as ct
from secant.theory import catapult_scaling as cs
from secant.theory.quadratic_model import TwoLayer

DEAD, UNKNOWN = 3, 4
"""Codes of two more regimes: every neuron of the network has switched off, and a loss that has not come back yet."""

PANELS = (*KINDS, "pair")
"""The three models on one sample, and the network on an input and its opposite."""


@dataclass(frozen=True)
class Config:
    """Network, sample and sweep."""

    width: int = scaled(smoke=500, laptop=2_000, paper=5_000, at_least=100, help="hidden neurons")
    dim: int = option(5, at_least=1, help="input dimension")
    target: float = option(0.5, at_least=0.1, at_most=2, help="label of the sample")
    points: int = scaled(smoke=36, laptop=80, paper=240, at_least=20, at_most=10_000, help="step sizes")
    largest: float = option(4.0, at_least=2.5, at_most=10, help="largest step size over the critical one")
    steps: int = scaled(smoke=300, laptop=300, paper=2_000, at_least=100, at_most=10**6, help="gradient-descent steps")
    seed: int = option(0, at_least=0, at_most=2**31, help="random seed")

    def check(self) -> None:
        """Refuses what no memory holds."""
        fits_memory(64.0 * self.points * (self.width * self.dim + self.steps), "width, dim, points or steps")


@study(
    "thesis/fig-3.1", section="3.1", title="Three models, three regimes",
    statement=r"""
    A linear model converges monotonically for $\eta < \eta_{\mathrm{crit}}$ and diverges above. A quadratic model and
    a finite network have a third regime between: for $\eta_{\mathrm{crit}} < \eta < \eta_{\max}$ the loss first rises,
    then converges. On one sample $\eta_{\mathrm{crit}} = 2/\lambda_0$, and for the quadratic model $\eta_{\max}$ is
    known exactly, $4/\lambda_0$ up to $O(1/m)$.

    On one sample a network does not diverge: a large step switches all of its neurons off. On an input and its
    opposite no neuron can be off for both, and the network has the three regimes of the figure.""",
)
def run(config: Config) -> xr.Dataset:
    sample = one_sample(jax.random.key(config.seed), config.width, config.dim)
    ratios = np.linspace(0.1, config.largest, config.points)
    pair = jnp.stack([sample.x, -sample.x])
    kernel = tangent_kernel("network", sample.params, pair, sample.params)
    critical = dict.fromkeys(PANELS, 2 / sample.curvature) | {"pair": 2 / jnp.linalg.eigvalsh(kernel)[-1]}
    found = [
        _sweep(
            "network" if panel == "pair" else panel,  # type: ignore[arg-type]
            sample.params, pair if panel == "pair" else sample.x, config, ratios * critical[panel],
        )
        for panel in PANELS
    ]
    losses, ends = np.stack([losses for losses, _ in found]), np.stack([ends for _, ends in found])
    regime = np.array(cs.classify_run(jnp.asarray(losses), rise=1 + 1e-9))
    regime[(regime == cs.DIVERGENT) & (ends != Outcome.DIVERGED)] = UNKNOWN
    # A network all of whose neurons are off has output 0 and stays there.
    dead = np.abs(losses[:, :, -1] - config.target**2 / 2) < 1e-9
    regime[dead & (np.asarray(PANELS) == "network")[:, None]] = DEAD
    border = ct.max_step(sample.output, sample.curvature, config.width, config.target) / critical["quadratic"]
    return xr.Dataset(
        {
            "loss": (("model", "ratio", "step"), losses, {"long_name": "training loss"}),
            "regime": (("model", "ratio"), regime), "border": float(border),
            "edge": _edge(sample.output, sample.curvature, config),
        },
        coords={"model": list(PANELS), "ratio": ratios, "step": np.arange(config.steps + 1)},
    )


def _sweep(kind: Kind, params: TwoLayer, x: jax.Array, config: Config, lrs: jax.Array) -> tuple[np.ndarray, np.ndarray]:
    """Losses along the runs with some step sizes, and how they end."""
    outputs, y = model(kind, params, x), jnp.full(x.shape[:-1], config.target)

    def loss(p: Any) -> jax.Array:
        return jnp.sum((outputs(p) - y) ** 2) / 2

    data = simulate(
        lambda lr: descent(kind, params, x, y, lr), params, config.steps, over={"lr": lrs}, probes={"loss": loss},
        stop=Stop(converged=lambda p: loss(p) < 1e-14, diverged=lambda p: loss(p) > 1e10),
    ).dataset
    losses = np.pad(data.loss.values, ((0, 0), (0, config.steps + 1 - data.sizes["step"])), mode="edge")
    return losses, data.outcome.values


def _edge(output: jax.Array, curvature: jax.Array, config: Config) -> float:
    """The smallest step over the critical one at which the quadratic model's loss rises, by its exact map."""
    ratios = np.linspace(0.5, 1.5, 4_001)
    lrs = jnp.asarray(2 * ratios) / curvature
    state = ct.rescale(output, curvature, lrs, config.width, config.target)
    bend = ct.rescaled_target(lrs, config.width, config.target)
    peak = jax.jit(lambda a, v, b: cs.catapult_outcome(a, v, b, steps=config.steps).peak)(state.a, state.v, bend)
    rises = np.asarray(peak > state.a**2 * (1 + 1e-9))
    return float(ratios[rises][0])


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    spacing = float(data.ratio[1] - data.ratio[0])
    grid = Tolerance(spacing, why="spacing of the step sizes")
    # In units of the critical step the theorems keep half of log m / sqrt m away from the borders.
    margin = float(np.log(config.width) / np.sqrt(config.width)) / 2
    blur = Tolerance(spacing + margin, why="spacing of the step sizes, and log m / sqrt m in eta lambda")
    regime = {panel: data.regime.sel(model=panel) for panel in PANELS}
    for panel, predicted, near in (
        ("linear", 1.0, grid), ("quadratic", float(data.edge), grid), ("network", 1.0, blur), ("pair", 1.0, blur),
    ):
        yield claims.equal(
            f"{NAMES[panel]}: smallest step over the critical one that is not monotone", predicted,
            data.ratio.where(regime[panel] != cs.MONOTONE).min(), near,
        )
    for panel, predicted in (("linear", 1.0), ("quadratic", float(data.border))):
        known = (regime[panel] == cs.MONOTONE) | (regime[panel] == cs.CATAPULT)
        yield claims.equal(
            f"{NAMES[panel]}: largest convergent step over the critical one", predicted, data.ratio.where(known).max(),
            grid,
        )
    yield claims.zero(
        "linear: step sizes with a catapult", (regime["linear"] == cs.CATAPULT).sum(), 0, "a linear model cannot"
    )
    middle = (data.ratio >= 1 + margin) & (data.ratio <= 1.5)
    for panel in ("network", "pair"):
        name = f"{NAMES[panel]}: share of the step sizes up to 1.5 critical ones that catapult"
        if not bool(middle.any()):
            yield claims.undecided(name, 1.0, "no step size lies between 1 and 1.5, log m / sqrt m from the edge")
            continue
        yield claims.equal(
            name, 1.0, ((regime[panel] == cs.CATAPULT) & middle).sum() / middle.sum(), 0,
            "the first half of the quadratic model's range, log m / sqrt m from the edge",
        )
    order = [int(code) for code in regime["pair"].values if code != UNKNOWN]
    yield claims.equal(
        "network on two opposed samples: number of regimes, in the figure's order", 3.0,
        float(len(set(order))) if order == sorted(order) else 0.0, 0, "monotone, catapult, divergent",
        note="" if order == sorted(order) else "they come in another order",
    )
    yield claims.zero(
        "network: step sizes at which it diverges", (regime["network"] == cs.DIVERGENT).sum(), 0,
        "on one sample a large step switches neurons off; with none left the output stays 0",
        note="the figure shows divergence for networks too: that takes two samples",
    )


NAMES = {"linear": "linear", "quadratic": "quadratic", "network": "network", "pair": "network on two opposed samples"}
"""What findings call the panels."""


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    figure.set_size_inches(12, 3.6)
    ink = sheet.ink()
    titles = {"linear": "Linear model", "quadratic": "Quadratic model", "network": "ReLU network"}
    titles["pair"] = "ReLU network, two samples"
    shades = {cs.MONOTONE: "C2", cs.CATAPULT: "C1", cs.DIVERGENT: "C5", DEAD: "C7"}
    names = (*cs.REGIMES, "all neurons off")
    panels = figure.subplots(1, 4, sharey=True)
    for axes, kind in zip(panels, PANELS, strict=True):
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
