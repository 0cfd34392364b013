"""Figure 3.1: the regimes of a linear model, a quadratic model and a network."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.core.device import jit
from secant.dynamics import Outcome, Stop, simulate
from secant.lab import Figure, Findings, Seeded, Tolerance, claim, fits_memory, option, options, scaled, sheet, study
from secant.studies.shared.two_layer.models import Kind, descent, model, one_sample, tangent_kernel
from secant.theory.catapult import one_sample as ct
from secant.theory.catapult import scaling as cs
from secant.theory.regression.quadratic_model import TwoLayer

DEAD, UNKNOWN = 3, 4
"""Codes of two more regimes: every neuron has switched off, and the loss has not come back yet."""

PANELS: dict[str, tuple[Kind, str, str]] = {
    "linear": ("linear", "linear", "Linear model"),
    "quadratic": ("quadratic", "quadratic", "Quadratic model"),
    "network": ("network", "network", "ReLU network"),
    "pair": ("network", "network on two opposed samples", "ReLU network, two samples"),
}
"""The three models on one sample, and the network on an input and its opposite: what findings and figure call them."""


class Config(Seeded):
    width: int = options.width(500, 2_000, 5_000, at_least=100)
    dim: int = options.dim(5)
    target: float = option(0.5, at_least=0.1, at_most=2, help="label of the sample")
    points: int = scaled(smoke=36, laptop=80, paper=240, at_least=20, at_most=10_000, help="step sizes")
    largest: float = option(4.0, at_least=2.5, at_most=10, help="largest step size over the critical one")
    steps: int = options.steps(300, 300, 2_000, at_least=100, at_most=10**6)

    def check(self) -> None:
        """Refuses what no memory holds."""
        fits_memory(64.0 * self.points * (self.width * self.dim + self.steps), "width, dim, points or steps")


@study("thesis/fig-3.1", section="3.1", title="Three models, three regimes")
def run(config: Config) -> xr.Dataset:
    r"""A linear model converges monotonically for $\eta < \eta_{\mathrm{crit}}$ and diverges above. A quadratic model
    and a finite network have a third regime between: for $\eta_{\mathrm{crit}} < \eta < \eta_{\max}$ the loss first
    rises, then converges. On one sample $\eta_{\mathrm{crit}} = 2/\lambda_0$, and for the quadratic model $\eta_{\max}$
    is known exactly, $4/\lambda_0$ up to $O(1/m)$.

    On one sample a network does not diverge: a large step switches all neurons off. On an input and its opposite no
    neuron can be off for both, and the network has the three regimes of the figure.
    """
    sample = one_sample(jax.random.key(config.seed), config.width, config.dim)
    ratios, single = np.linspace(0.1, config.largest, config.points), 2 / float(sample.curvature)
    # Inner weights move along the input alone, and their other components do not matter: one input entry is enough.
    along = np.asarray(sample.params.u) @ np.asarray(sample.x) / np.sqrt(config.dim)
    params, pair = TwoLayer(jnp.asarray(along[:, None]), sample.params.v), jnp.asarray([[1.0], [-1.0]])
    double = 2 / np.linalg.eigvalsh(np.asarray(tangent_kernel("network", params, pair, params)))[-1]
    found = []
    for panel, (kind, *_) in PANELS.items():
        x, critical = (pair, double) if panel == "pair" else (jnp.asarray([1.0]), single)
        found.append(_sweep(kind, params, x, config, ratios * critical))
    losses, ends = map(np.stack, zip(*found, strict=True))
    regime = np.array(jit(partial(cs.classify_run, rise=1 + 1e-9), quick=True)(losses))
    regime[(regime == cs.DIVERGENT) & (ends != Outcome.DIVERGED)] = UNKNOWN
    # When all neurons are off, a network has output 0 and keeps it.
    dead = np.abs(losses[:, :, -1] - config.target**2 / 2) < 1e-9
    regime[dead & (np.array(list(PANELS)) == "network")[:, None]] = DEAD
    border = jit(ct.max_step, quick=True)(sample.output, sample.curvature, config.width, config.target) / single
    edge = cs.rising_edge(sample.output, sample.curvature, config.width, config.target, config.steps)
    data = {
        "loss": (("model", "ratio", "step"), losses, {"long_name": "training loss"}),
        "regime": (("model", "ratio"), regime),
        "border": float(border),
        "edge": edge,
    }
    return xr.Dataset(data, {"model": list(PANELS), "ratio": ratios, "step": np.arange(config.steps + 1)})


def _sweep(kind: Kind, params: TwoLayer, x: jax.Array, config: Config, lrs: np.ndarray) -> tuple[np.ndarray, ...]:
    """Losses along the runs with some step sizes, and how they end."""
    outputs, y = model(kind, params, x), jnp.full(x.shape[:-1], config.target)

    def loss(p: Any) -> jax.Array:
        return jnp.sum((outputs(p) - y) ** 2) / 2

    data = simulate(
        lambda lr: descent(kind, params, x, y, lr),
        params,
        config.steps,
        over={"lr": lrs},
        probes={"loss": loss},
        stop=Stop(converged=lambda p: loss(p) < 1e-14, diverged=lambda p: loss(p) > 1e10),
    ).dataset
    losses = np.pad(data.loss.values, ((0, 0), (0, config.steps + 1 - data.sizes["step"])), mode="edge")
    return losses, data.outcome.values


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    spacing = float(data.ratio[1] - data.ratio[0])
    # In units of the critical step the theorems keep half of log m / sqrt m away from the borders.
    margin = float(np.log(config.width) / np.sqrt(config.width)) / 2
    grid = Tolerance(spacing, why="spacing of the step sizes")
    blur = Tolerance(spacing + margin, why=r"spacing of the step sizes, and $\log m/\sqrt m$ in $\eta\lambda$")
    regime = {panel: data.regime.sel(model=panel) for panel in PANELS}
    starts = {"linear": (1.0, grid), "quadratic": (data.edge, grid), "network": (1.0, blur), "pair": (1.0, blur)}
    for panel, (predicted, near) in starts.items():
        first = data.ratio.where(regime[panel] != cs.MONOTONE).min()
        name = f"{PANELS[panel][1]}: smallest step over the critical one that is not monotone"
        yield claim(f"{panel}-edge", name).equal(predicted, first, near)
    for panel, predicted in (("linear", 1.0), ("quadratic", data.border)):
        last = data.ratio.where(regime[panel].isin((cs.MONOTONE, cs.CATAPULT))).max()
        name = f"{panel}: largest convergent step over the critical one"
        yield claim(f"{panel}-border", name).equal(predicted, last, grid)
    catapults = data.regime == cs.CATAPULT
    none = catapults.sel(model="linear").sum()
    yield claim("linear-catapults", "linear: step sizes with a catapult").zero(none, 0, "a linear model cannot")
    middle = (data.ratio >= 1 + margin) & (data.ratio <= 1.5)
    none = r"no step size lies between 1 and 1.5, $\log m/\sqrt m$ from the edge"
    why = r"the first half of the quadratic model's range, $\log m/\sqrt m$ from the edge"
    for panel in ("network", "pair"):
        name = f"{PANELS[panel][1]}: share of the step sizes up to 1.5 critical ones that catapult"
        share = (catapults.sel(model=panel) & middle).sum() / middle.sum()
        yield claim(f"{panel}-catapults", name, given=middle, otherwise=none).equal(1.0, share, 0, why)
    order = [int(code) for code in regime["pair"].values if code != UNKNOWN]
    seen, note = (len(set(order)), "") if order == sorted(order) else (0, "they come in another order")
    regimes = claim("pair-regimes", "network on two opposed samples: number of regimes, in the figure's order")
    yield regimes.equal(3.0, seen, 0, "monotone, catapult, divergent", note=note)
    why = "on one sample a large step switches neurons off; with none left the output stays 0"
    note, diverged = (
        "the figure shows divergence for networks too: that takes two samples",
        regime["network"] == cs.DIVERGENT,
    )
    yield claim("network-divergence", "network: step sizes at which it diverges").zero(
        diverged.sum(), 0, why, note=note
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    panels = sheet.panels(figure, (12, 3.6), 4, sharey=True)
    shades = {cs.MONOTONE: "C2", cs.CATAPULT: "C1", cs.DIVERGENT: "C5", DEAD: "C7"}
    names, half = (*cs.REGIMES, "all neurons off"), float(data.ratio[1] - data.ratio[0]) / 2
    for axes, (panel, (_, _, title)) in zip(panels, PANELS.items(), strict=True):
        one = data.sel(model=panel)
        peak = np.minimum(one.loss.max("step"), 1e12) / one.loss.isel(step=0)
        for code, colour in shades.items():
            where = one.regime.values == code
            axes.semilogy(data.ratio[where], np.clip(peak[where], 1, 1e8), "o", ms=4, color=colour)
            for ratio in data.ratio.values[where]:
                axes.axvspan(ratio - half, ratio + half, color=colour, alpha=0.13, lw=0)
            if where.any():
                centre = float(data.ratio[where].mean())
                axes.text(centre, 3e8 if code != DEAD else 3e7, names[code], ha="center", color=colour, fontsize=9)
        sheet.mark(axes, x=(1, data.border) if panel == "quadratic" else 1, lw=1)
        axes.set(title=title, xlabel=r"$\eta/\eta_{\mathrm{crit}}$", ylim=(0.5, 2e9), xlim=(0, config.largest))
    panels[0].set_ylabel(r"largest over initial loss (capped)")
