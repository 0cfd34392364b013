"""Figures of runs with raised step sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from secant.studies.shared.catapults.raises import CEILING, trained

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_branches(axes: Axes, data: xr.Dataset, name: str, legend: bool = True) -> None:
    """Draws a record of one seed along the tree of runs, with a colour for each number of raises."""
    along = "step" if "step" in data[name].dims else "look"
    whole = trained(data).outcome.notnull().all("raises")
    shown = data.isel(seed=int(whole.argmax("seed")))  # a draw in which no run diverges, if there is one
    for number, colour in zip(data.raises.values, branch_colours(data), strict=True):
        one = shown.sel(raises=number)
        if number and not np.isfinite(float(one.before)):  # the run diverged before this raise
            continue
        lasts = one[along].values <= float(one.ended - one.begin)
        steps = (one.begin + one[along]).values[lasts]
        axes.plot(steps, one[name].values[lasts], color=colour, lw=1.3, label=f"{number}")
    axes.set_xlabel("step")
    if name == "loss":
        axes.set_yscale("log")
        # The legend gets room above the highest catapult; diverging curves leave the picture.
        axes.set_ylim(max(float(shown.loss.min()), 1e-10), 100 * min(float(shown.loss.max()), CEILING))
    if legend:
        axes.legend(title="raises", ncols=2, loc="upper right")


def branch_colours(data: xr.Dataset) -> np.ndarray:
    """One colour for each number of raises."""
    import matplotlib.pyplot as plt

    return plt.get_cmap("viridis")(np.linspace(0.25, 0.9, data.sizes["raises"]))


def draw_ends(axes: Axes, data: xr.Dataset, name: str, xlabel: str = "raises of the step size") -> None:
    """Draws values at the ends of the runs against the number of raises: every draw, means, and a standard error."""
    values = trained(data)[name]
    count = values.count("seed")
    mean, error = values.mean("seed"), values.std("seed") / np.sqrt(np.maximum(count - 1, 1))
    axes.plot(data.raises, values.transpose("raises", "seed"), "o", ms=3, color="C0", alpha=0.35)
    axes.errorbar(data.raises, mean, error, fmt="o-", color="C0", capsize=3, label="ours, standard error")
    axes.set_xlabel(xlabel)
    axes.set_xticks(data.raises.values)
