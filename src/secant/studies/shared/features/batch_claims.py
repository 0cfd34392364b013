"""The thesis's statements about batch sizes, as findings and as figures."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from secant.lab import Finding, claim, estimate
from secant.studies.shared.features.batch_sizes import ended_well

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def measures(score: str) -> tuple[tuple[str, float, str], ...]:
    """The quantities that are judged: name in the data, the sign of better, and name in words."""
    return ("aligned", 1.0, "alignment"), ("test", -1.0, f"test {score}")


def order_findings(data: xr.Dataset, score: str = "loss") -> Iterator[Finding]:
    """The claims that smaller batches have more steps beyond critical, better alignment and better test scores.

    Runs with batches of two sizes begin with the same weights and data. Their difference is judged draw by draw, for
    the draws in which both have reached the goal.
    """
    sizes = data.batch.values.tolist()
    trained = data.where(ended_well(data))
    pairs = list(itertools.pairwise(sizes)) + ([(sizes[0], sizes[-1])] if len(sizes) > 2 else [])
    for small, large in pairs:
        yield _more_catapults(trained, small, large)
        for name, sign, what in measures(score):
            sentence = f"{what} with batches of {small:,} against {large:,}, mean gain over draws"
            yield claim(f"{name}-{small}-{large}", sentence).at_least(
                0.0,
                estimate(gains(trained[name], sign, small, large)),
                "the smaller the batch, the better",
                note=_means(trained[name], small, large),
            )
    yield goal_finding(data)


def gains(values: xr.DataArray, sign: float, small: int, large: int) -> xr.DataArray:
    """How much better the smaller batches are in each draw; NaN if one of the two has no value."""
    return sign * (values.sel(batch=small) - values.sel(batch=large))


def _more_catapults(trained: xr.Dataset, small: int, large: int) -> Finding:
    shares = " and ".join(f"{float(trained.over.sel(batch=size).mean()):.0%}" for size in (small, large))
    return claim(
        f"catapults-{small}-{large}",
        f"catapults up to the best look, batches of {small:,} less {large:,}, mean over draws",
        given=trained.catapults.sel(batch=[small, large]).fillna(0).any(),
        otherwise="up to there no step is beyond the critical one of its batch",
    ).at_least(
        0.0,
        lambda: estimate(gains(trained.catapults, 1.0, small, large)),
        "smaller batches have smaller critical steps",
        note=f"{_means(trained.catapults, small, large)}; {shares} of all steps of a run are beyond the critical one",
    )


def _means(values: xr.DataArray, small: int, large: int) -> str:
    both = values.sel(batch=[small, large])
    means = " and ".join(f"{float(mean):.3g}" for mean in both.mean("seed"))
    return f"{means} on average; {int(both.notnull().all('batch').sum())} pairs of trained runs"


def goal_finding(data: xr.Dataset, note: str = "") -> Finding:
    """The finding that most runs reach the goal: the others are left out, and the comparison must be no selection."""
    reached = ended_well(data).values
    return claim("goal", "share of the runs that reach the goal, and are compared").at_least(
        0.5,
        estimate(reached),
        "runs of different training losses are not compared; most are trained as far",
        note=f"{int(reached.sum())} of {reached.size}" + (f"; {note}" if note else ""),
    )


def draw_sizes(data: xr.Dataset, figure: Figure, score: str = "loss", *, curves: bool = False) -> list[Axes]:
    """Draws steps beyond the critical one, alignment and test score against the batch size, optionally validation."""
    figure.set_size_inches(14 if curves else 11, 3.5)
    panels = list(figure.subplots(1, 4 if curves else 3))
    titles = ("Share of steps beyond critical", "Alignment", f"Test {score}")
    for axes, name, title in zip(panels, ("over", "aligned", "test"), titles, strict=False):
        draw_by_size(axes, data[name], "C0", "ours, two standard errors")
        axes.set_title(title, loc="left")
    if curves:
        draw_curves(panels[3], data)
        panels[3].set_title(f"Validation {score}", loc="left")
    return panels


def draw_curves(axes: Axes, data: xr.Dataset) -> None:
    """Draws validation scores against steps, with a line for each draw and a colour for each batch size."""
    for colour, size in enumerate(data.batch.values):
        one = data.sel(batch=size)
        for seed in range(one.sizes["seed"]):
            line = one.curve.isel(seed=seed)
            # Step 0 has no place on this axis. After a run's end the score of its last step is repeated.
            shown = (one["at"] > 0) & (one["at"] <= one.stopped_at.isel(seed=seed)) & np.isfinite(line)
            label = f"batches of {int(size):,}" if seed == 0 else None
            axes.loglog(one["at"][shown], line[shown], color=f"C{colour}", lw=1.2, alpha=0.8, label=label)
    axes.set_xlabel("step")
    axes.legend(loc="center left", bbox_to_anchor=(1.02, 0.5))


def draw_by_size(axes: Axes, values: xr.DataArray, colour: str, label: str) -> None:
    """Draws every draw, and means with two standard errors, with batch sizes at equal distances."""
    values, places = values.transpose("batch", "seed"), np.arange(values.sizes["batch"])
    mean, error = values.mean("seed"), values.std("seed", ddof=1) / np.sqrt(values.sizes["seed"])
    axes.plot(places, values, "o", ms=3, color=colour, alpha=0.35)
    axes.errorbar(places, mean, 2 * error, fmt="o-", color=colour, capsize=3, label=label)
    axes.set_xticks(places, [f"{size:,}" for size in values.batch.values])
    axes.set_xlabel("batch size")
