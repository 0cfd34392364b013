"""Table 4.1 and figure 4.9: smaller batches, more catapults, better features."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from secant import nets
from secant.lab import Finding, Tolerance, option, scaled, study
from secant.studies.thesis._batch_sizes import Setting, batch_sizes, ended_well

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PRINTED = {2_000: (0.81, 0.74), 50: (0.84, 0.71), 10: (0.89, 0.59), 5: (0.95, 0.42)}
"""Alignment and test loss of the table, means of three runs, by batch size."""

RUNS = 3
"""Runs behind each number of the table."""


@dataclass(frozen=True)
class Config:
    """Network, data and batch sizes."""

    batches: tuple[int, ...] = scaled(
        smoke=(4, 300), laptop=(5, 10, 50, 2_000), paper=(5, 10, 50, 100, 2_000), at_least=1, help="batch sizes, rising"
    )
    width: int = scaled(smoke=128, laptop=1_024, paper=1_024, at_least=8, help="hidden neurons")
    samples: int = scaled(smoke=300, laptop=2_000, paper=2_000, at_least=8, help="training samples")
    held_out: int = scaled(smoke=200, laptop=5_000, paper=5_000, at_least=10, help="for validation, and for testing")
    dim: int = scaled(smoke=25, laptop=100, paper=100, at_least=2, help="features")
    share: float = option(0.5, above=0, help="step size over the critical one of all samples")
    goal: float = scaled(smoke=1e-2, laptop=1e-3, paper=1e-3, above=0, help="training loss at which a run ends")
    epochs: int = scaled(smoke=40, laptop=40, paper=60, at_least=1, help="passes over the data at most")
    steps: int = scaled(smoke=900, laptop=4_000, paper=6_000, at_least=20, help="or so many steps, if that is more")
    seeds: int = scaled(smoke=8, laptop=3, paper=6, at_least=2, help="draws of data and weights")
    seed: int = option(0, at_least=0, help="of the first draw")


@study(
    "thesis/table-4.1",
    section="4.4",
    title="Smaller batches, better features",
    statement=r"""
    A two-layer ReLU network of width 1024 learns $f^*(x) = x_1x_2$ from 2,000 noisy samples in 100 dimensions by
    stochastic gradient descent with a constant step, half the critical one of all samples. A batch of $b$ samples has a
    critical step of its own, $b/\lambda_{\max}(K_b)$, which is smaller for smaller batches: the smaller the batch, the
    more steps exceed it, each a catapult. With it grows the alignment of the network's average gradient outer product
    with that of the target, and the test loss falls (table 4.1, figure 4.9a).

    Batches are drawn without replacement, epoch by epoch. A run ends at a training loss of $10^{-3}$; what is reported
    is from the look with the smallest validation loss, after each epoch, for the full batch every 20 steps. Catapults
    are counted up to there.""",
    precision="float32",
)
def run(config: Config) -> xr.Dataset:
    if (np.diff(config.batches) <= 0).any() or len(config.batches) < 2:
        raise ValueError(f"batches: at least two sizes, rising; got {config.batches}.")
    if config.batches[-1] > config.samples:
        raise ValueError(f"batches: {config.batches[-1]} is larger than the data, {config.samples} samples.")
    setting = Setting(
        "rank-2",
        config.samples,
        config.held_out,
        config.dim,
        config.share,
        config.goal,
        config.epochs,
        config.steps,
    )
    return batch_sizes(
        nets.mlp([config.width]), setting, config.batches, range(config.seed, config.seed + config.seeds)
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Iterator[Finding]:
    small, large = config.batches[0], config.batches[-1]
    for name, sign, what in (("aligned", 1, "alignment"), ("test", -1, "test loss")):
        low, high = (_interval(sign * data[name].sel(batch=size)) for size in (small, large))
        yield Finding(
            f"{what}: gap between the intervals of batches of {small} and {large:,}, where better is positive",
            predicted=0.0,
            measured=low[0] - high[1],
            relation="at least",
            tolerance=Tolerance(0.0, why="intervals of two standard errors that do not overlap"),
        )
    for smaller, larger in zip(config.batches, config.batches[1:], strict=False):
        for name, sign, what in (("aligned", 1, "alignment"), ("test", -1, "test loss")):
            gain = sign * (data[name].sel(batch=smaller) - data[name].sel(batch=larger))
            yield Finding(
                f"{what} with batches of {smaller} against {larger:,}, mean gain over draws",
                predicted=0.0,
                measured=float(gain.mean()),
                relation="at least",
                tolerance=Tolerance(0.0, why="the order of the table"),
                uncertainty=float(gain.std(ddof=1) / np.sqrt(gain.size)),
            )
    counts = data.over.mean("seed")
    yield Finding(
        "share of steps beyond the critical step of their batch: smallest fall from one size to the next larger",
        predicted=0.0,
        measured=float((counts.values[:-1] - counts.values[1:]).min()),
        relation="at least",
        tolerance=Tolerance(0.0, why="smaller batches have smaller critical steps"),
        note="by size " + ", ".join(f"{float(value):.3g}" for value in counts),
    )
    yield Finding(
        "runs that reach the goal",
        predicted=float(data.outcome.size),
        measured=float(ended_well(data).sum()),
        tolerance=Tolerance(0.0, why="otherwise runs of different training losses would be compared"),
    )
    if (config.samples, config.dim, config.width) == (2_000, 100, 1_024) and config.share == 0.5:
        yield from _against_the_table(data)


def _against_the_table(data: xr.Dataset) -> Iterator[Finding]:
    for size in data.batch.values.tolist():
        for name, printed in zip(("aligned", "test"), PRINTED.get(size, ()), strict=False):
            values = data[name].sel(batch=size)
            spread = float(values.std(ddof=1))
            yield Finding(
                f"{'alignment' if name == 'aligned' else 'test loss'} with batches of {size:,}, against the table",
                predicted=printed,
                measured=float(values.mean()),
                tolerance=Tolerance(
                    3 * spread * np.sqrt(1 / RUNS + 1 / values.size) + 0.005,
                    why="three standard errors of a difference of means, with our spread for both, and its rounding",
                ),
            )


def _interval(values: xr.DataArray) -> tuple[float, float]:
    mean, error = float(values.mean()), float(values.std(ddof=1) / np.sqrt(values.size))
    return mean - 2 * error, mean + 2 * error


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    figure.set_size_inches(11, 3.5)
    panels = figure.subplots(1, 3)
    places = np.arange(len(config.batches))
    for axes, name, title in zip(
        panels, ("over", "aligned", "test"), ("Steps beyond critical", "Alignment", "Test loss"), strict=True
    ):
        values = data[name].transpose("batch", "seed")
        mean, error = values.mean("seed"), values.std("seed", ddof=1) / np.sqrt(values.sizes["seed"])
        axes.plot(places, values, "o", ms=3, color="C0", alpha=0.35)
        axes.errorbar(places, mean, 2 * error, fmt="o-", color="C0", capsize=3, label="ours, two standard errors")
        axes.set_xticks(places, [f"{size:,}" for size in config.batches])
        axes.set_xlabel("batch size")
        axes.set_title(title, loc="left")
        if name != "over" and config.samples == 2_000:
            column = ("aligned", "test").index(name)
            shown = [
                (place, PRINTED[size][column])
                for place, size in zip(places, config.batches, strict=True)
                if size in PRINTED
            ]
            axes.plot(*zip(*shown, strict=True), "x", color="C1", ms=8, mew=2, zorder=4, label="the thesis's table")
            axes.legend()
