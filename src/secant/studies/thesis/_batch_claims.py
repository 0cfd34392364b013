"""What the thesis says of batch sizes, as findings, and how they are drawn."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from secant.lab import Finding, Tolerance
from secant.studies.thesis._batch_sizes import ended_well

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def measures(score: str) -> tuple[tuple[str, float, str], ...]:
    """What is judged: its name in the data, the sign of better, and what it is called."""
    return ("aligned", 1.0, "alignment"), ("test", -1.0, f"test {score}")


def order_findings(data: xr.Dataset, score: str = "loss") -> Iterator[Finding]:
    """The smaller the batch, the more steps beyond its critical one, the better alignment and test score."""
    sizes = data.batch.values.tolist()
    small, large = sizes[0], sizes[-1]
    for name, sign, what in measures(score):
        low, high = (_interval(sign * data[name].sel(batch=size)) for size in (small, large))
        yield Finding(
            f"{what}: gap between the intervals of batches of {small} and {large:,}, where better is positive",
            predicted=0.0,
            measured=low[0] - high[1],
            relation="at least",
            tolerance=Tolerance(0.0, why="intervals of two standard errors that do not overlap"),
        )
    for smaller, larger in itertools.pairwise(sizes):
        for name, sign, what in measures(score):
            gain = sign * (data[name].sel(batch=smaller) - data[name].sel(batch=larger))
            yield Finding(
                f"{what} with batches of {smaller} against {larger:,}, mean gain over draws",
                predicted=0.0,
                measured=float(gain.mean()),
                relation="at least",
                tolerance=Tolerance(0.0, why="the smaller the batch, the better"),
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
    yield goal_finding(data)


def goal_finding(data: xr.Dataset) -> Finding:
    """All runs have been trained as far."""
    return Finding(
        "runs that reach the goal",
        predicted=float(data.outcome.size),
        measured=float(ended_well(data).sum()),
        tolerance=Tolerance(0.0, why="otherwise runs of different training losses would be compared"),
    )


def draw_sizes(data: xr.Dataset, figure: Figure, score: str = "loss", *, curves: bool = False) -> list[Axes]:
    """Steps beyond the critical one, alignment and test score against the batch size; also validation on the way."""
    figure.set_size_inches(14 if curves else 11, 3.5)
    panels = list(figure.subplots(1, 4 if curves else 3))
    titles = ("Steps beyond critical", "Alignment", f"Test {score}")
    for axes, name, title in zip(panels, ("over", "aligned", "test"), titles, strict=False):
        draw_by_size(axes, data[name], "C0", "ours, two standard errors")
        axes.set_title(title, loc="left")
    if curves:
        draw_curves(panels[3], data)
        panels[3].set_title(f"Validation {score}", loc="left")
    return panels


def draw_curves(axes: Axes, data: xr.Dataset) -> None:
    """Validation scores against steps, a line a draw, a colour a batch size."""
    for colour, size in enumerate(data.batch.values):
        one = data.sel(batch=size)
        for seed in range(one.sizes["seed"]):
            line = one.curve.isel(seed=seed)
            # Step 0 has no place on this axis; after a run's end its score is that of its last step.
            shown = (one["at"] > 0) & (one["at"] <= one.stopped_at.isel(seed=seed)) & np.isfinite(line)
            label = f"batches of {int(size):,}" if seed == 0 else None
            axes.loglog(one["at"][shown], line[shown], color=f"C{colour}", lw=1.2, alpha=0.8, label=label)
    axes.set_xlabel("step")
    axes.legend(loc="center left", bbox_to_anchor=(1.02, 0.5))


def draw_by_size(axes: Axes, values: xr.DataArray, colour: str, label: str) -> None:
    """Every draw, and means with two standard errors, batch sizes at equal distances."""
    values, places = values.transpose("batch", "seed"), np.arange(values.sizes["batch"])
    mean, error = values.mean("seed"), values.std("seed", ddof=1) / np.sqrt(values.sizes["seed"])
    axes.plot(places, values, "o", ms=3, color=colour, alpha=0.35)
    axes.errorbar(places, mean, 2 * error, fmt="o-", color=colour, capsize=3, label=label)
    axes.set_xticks(places, [f"{size:,}" for size in values.batch.values])
    axes.set_xlabel("batch size")


def _interval(values: xr.DataArray) -> tuple[float, float]:
    mean, error = float(values.mean()), float(values.std(ddof=1) / np.sqrt(values.size))
    return mean - 2 * error, mean + 2 * error
