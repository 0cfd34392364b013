"""Definition 12.1.3 and section 12.1.1: with a constant gradient the scaling rule keeps the law exactly."""

import math
from typing import Any

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Seeded, claim, estimate, option, options, sheet, study
from secant.studies.shared.parabolas import normal


class Config(Seeded):
    lr: float = options.lr(0.01, at_most=1)
    sigma: float = option(2.0, above=0, at_most=100, help="standard deviation of the gradient's noise")
    slope: float = option(-1.5, at_least=-100, at_most=100, help="mean gradient")
    steps: int = options.steps(64, at_most=256)
    factors: tuple[int, ...] = option(
        (1, 2, 4, 8), at_least=1, at_most=512, longest=6, ascending=True, help="factors of batch and step size"
    )
    draws: int = options.draws(20_000, 100_000, at_least=1_000, at_most=10**5)

    def check(self) -> None:
        """Every factor reaches the same time in whole steps."""
        if any(self.steps % factor for factor in self.factors):
            raise ValueError(f"steps: must be a multiple of every factor, {self.factors}, got {self.steps}.")


@study("book/def-12.1.3", section="12.1", title="The linear scaling rule, where it is exact")
def run(config: Config) -> xr.Dataset:
    r"""With a constant gradient $\bar g$ and noise $N(0, \sigma^2I)$, $k$ steps from 0 end in $N(-\eta\bar gk,
    \eta^2\sigma^2kI)$. The noise falls with the batch, $\sigma \sim 1/\sqrt B$. The law at a time $t = k\eta$ stays the
    same if $\eta \sim 1/\sigma^2$ and $k \sim 1/\eta$: a batch $\kappa$ times as large needs a step $\kappa$ times as
    large, and $\kappa$ times fewer steps. Here this rule is exact. At the same step size the spread falls.
    """
    random = np.random.default_rng(config.seed)
    found = np.empty((2, len(config.factors), config.draws))
    for i, k in enumerate(config.factors):
        for rule, lr, steps in ((0, config.lr * k, config.steps // k), (1, config.lr, config.steps)):
            x = np.zeros(config.draws)
            for _ in range(steps):
                x -= lr * (config.slope + config.sigma / math.sqrt(k) * random.standard_normal(config.draws))
            found[rule, i] = x
    return xr.Dataset(
        {"x": (("rule", "factor", "draw"), found)},
        coords={"rule": ["scaled", "same step"], "factor": [*config.factors]},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    mean, variance = -config.lr * config.slope * config.steps, config.lr**2 * config.sigma**2 * config.steps
    for k in config.factors:
        for rule, wanted in (("scaled", variance), ("same step", variance / k)):
            x, name = data.x.sel(rule=rule, factor=k), rf"{rule}, $\kappa = {k}$"
            yield claim(f"{rule}-{k}-mean", rf"{name}: mean less $-\eta\bar gk$, over the standard deviation").equal(
                0, estimate((x - mean) / math.sqrt(wanted)), 1e-12, "sampling error alone"
            )
            law = r"\eta^2\sigma^2k" + f"/{k}" * (rule != "scaled" and k > 1)
            yield claim(f"{rule}-{k}-variance", f"{name}: variance over ${law}$").equal(
                1, estimate((x - mean) ** 2 / wanted), 0, "sampling error alone"
            )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10, 4.2), 2, sharey=True)
    mean, spread = -config.lr * config.slope * config.steps, config.lr * config.sigma * math.sqrt(config.steps)
    bins = mean + spread * np.linspace(-4, 4, 60)
    for axes, rule in ((left, "scaled"), (right, "same step")):
        for i, k in enumerate(config.factors):
            look: dict[str, Any] = {"histtype": "step", "color": f"C{i}", "label": rf"$\kappa = {k}$"}
            axes.hist(data.x.sel(rule=rule, factor=k), bins, density=True, **look)
    places = np.linspace(bins[0], bins[-1], 200)
    sheet.guide(left, places, normal(places, mean, spread**2), r"$N(-\eta\bar gk, \eta^2\sigma^2k)$")
    sheet.label(left, "Step and batch scaled together", "$x$ at one time", "density", "upper left")
    sheet.label(right, "Batch alone", "$x$ at one time", None, "upper left")
