"""Figures 4.10 and C.23: with a small step size the batch size does not matter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from secant.lab import Finding, Tolerance, option, scaled, study
from secant.studies.thesis._batch_claims import draw_by_size, draw_curves, goal_finding, measures
from secant.studies.thesis._batch_sizes import Setting, batch_sizes, rising
from secant.studies.thesis._feature_tasks import Sizes, feature_task

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Config:
    """Network, data, batch sizes and step sizes."""

    batches: tuple[int, ...] = scaled(
        smoke=(4, 40), laptop=(5, 50), paper=(5, 10, 50, 100), at_least=1, help="batch sizes, rising"
    )
    width: int = scaled(smoke=96, laptop=256, paper=1_024, at_least=8, help="hidden neurons")
    samples: int = scaled(smoke=200, laptop=600, paper=2_000, at_least=8, help="training samples")
    held_out: int = scaled(smoke=200, laptop=1_000, paper=5_000, at_least=10, help="for validation, and for testing")
    dim: int = scaled(smoke=20, laptop=50, paper=100, at_least=2, help="features")
    large: float = option(0.5, above=0, help="the larger step size over the critical one of all samples")
    small: float = option(0.025, above=0, help="the smaller one")
    goal: float = scaled(smoke=0.1, laptop=5e-2, paper=1e-3, above=0, help="training loss at which a run ends")
    epochs: int = scaled(smoke=150, laptop=200, paper=300, at_least=1, help="passes over the data at most")
    steps: int = scaled(smoke=6_000, laptop=24_000, paper=120_000, at_least=20, help="or so many steps, if more")
    pause: int = scaled(smoke=5, laptop=10, paper=5, at_least=1, help="passes between two looks")
    seeds: int = scaled(smoke=6, laptop=3, paper=3, at_least=2, help="draws of data and weights")
    seed: int = option(0, at_least=0, help="of the first draw")


@study(
    "thesis/fig-4.10",
    section="4.4",
    title="With small steps the batch size does not matter",
    statement=r"""
    Smaller batches learn better features because their steps exceed the critical step of their batch. With a step size
    of a fortieth of the critical one of all samples none does, and batch size has little effect on test loss and
    alignment; with half the critical one it has (figure 4.10, on the task of table 4.1, $f^*(x) = x_1x_2$).
    Nor do the validation losses on the way differ, step by step (figure C.23).""",
    precision="float32",
)
def run(config: Config) -> xr.Dataset:
    rising(config.batches, config.samples)
    if config.small >= config.large:
        raise ValueError(f"small, large: shares that rise, got {config.small} and {config.large}.")
    return batch_sizes(
        feature_task("rank-2", Sizes(config.width, config.samples, config.held_out, config.dim)),
        Setting(config.goal, config.epochs, config.steps, config.pause),
        config.batches,
        range(config.seed, config.seed + config.seeds),
        shares=(config.large, config.small),
        count=False,
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Iterator[Finding]:
    few, many = config.batches[0], config.batches[-1]
    for name, sign, what in measures("loss"):
        gain = sign * (data[name].sel(batch=few) - data[name].sel(batch=many))
        error = gain.std("seed", ddof=1) / np.sqrt(gain.sizes["seed"])
        large, small = (gain.sel(share=share).mean() for share in (config.large, config.small))
        yield Finding(
            f"{what}: gain of batches of {few} over {many} with {config.large:g} of the critical step",
            predicted=0.0,
            measured=float(large),
            relation="at least",
            tolerance=Tolerance(0.0, why="smaller batches, better features"),
            uncertainty=float(error.sel(share=config.large)),
        )
        yield Finding(
            f"{what}: that with {config.small:g} of it, over that with {config.large:g}",
            predicted=0.0,
            measured=float(abs(small) / abs(large)),
            tolerance=Tolerance(
                2 * config.small / config.large + 0.15,
                why="the noise of batches acts in proportion to the step size; twice that, and room for the seeds",
            ),
            uncertainty=float(error.sel(share=config.small) / abs(large)),
        )
    yield _on_the_way(data, config)
    if (config.samples, config.dim, config.width) == (2_000, 100, 1_024):
        means = data.test.mean("seed").sel(share=config.small)
        apart = data.test.sel(share=config.small, batch=few) - data.test.sel(share=config.small, batch=many)
        yield Finding(
            f"test loss with batches of {few} less that with {many}, the smaller step size",
            predicted=0.0,
            measured=float(apart.mean()),
            tolerance=Tolerance(0.03, why="a tenth of the difference with the larger step size"),
            uncertainty=float(apart.std(ddof=1) / np.sqrt(apart.size)),
            note="by size " + ", ".join(f"{float(value):.3f}" for value in means),
        )
    yield goal_finding(data)


def _on_the_way(data: xr.Dataset, config: Config) -> Finding:
    """The largest distance of two validation curves at the same step, which all batch sizes look at now and then."""
    few, many = (data.sel(batch=size, share=config.small) for size in (config.batches[0], config.batches[-1]))
    steps = np.intersect1d(few["at"], many["at"])  # NaN, where one has more looks than the other, is not in both
    apart = []
    for seed in range(data.sizes["seed"]):
        both = steps[steps <= min(float(one.stopped_at[seed]) for one in (few, many))]
        lines = [one.curve[seed].values[np.isin(one["at"], both)] for one in (few, many)]
        apart.append(np.abs(np.subtract(*lines)).max() / lines[0][0])
    return Finding(
        f"validation loss with {config.small:g} of the critical step: largest distance of batches of"
        f" {config.batches[0]} and {config.batches[-1]} at the same step, over the loss at the start",
        predicted=0.0,
        measured=float(np.mean(apart)),
        tolerance=Tolerance(0.05, why="the curves coincide: to a twentieth, about the width of a line"),
        uncertainty=float(np.std(apart, ddof=1) / np.sqrt(len(apart))),
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    figure.set_size_inches(12, 3.6)
    panels = figure.subplots(1, 3)
    for axes, (name, _, what) in zip(panels, measures("loss"), strict=False):
        for share, colour in ((config.large, "C0"), (config.small, "C1")):
            label = rf"$\eta = {share:g}\,\eta_{{\mathrm{{crit}}}}$"
            draw_by_size(axes, data[name].sel(share=share), colour, label)
        axes.set_title(what.capitalize(), loc="left")
    draw_curves(panels[2], data.sel(share=config.small))
    panels[2].set_title("Validation loss, the smaller step size", loc="left")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2)
