"""The sheet that a study draws on: panels, labels, and colours for everything that is not data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

    from secant.lab.verdicts.estimate import Estimate


def panels(figure: Figure, size: tuple[float, float], columns: int = 1, rows: int = 1, **grid: Any) -> Any:
    """Axes side by side on a figure of this size, in inches; `grid` goes to `Figure.subplots`."""
    figure.set_size_inches(*size)
    return figure.subplots(rows, columns, **grid)


def guide(axes: Any, x: Any, y: Any, label: str | None = None, **line: Any) -> None:
    """Draws what the theory predicts: a dashed line in ink. `line` goes to `Axes.plot`."""
    axes.plot(x, y, **{"ls": "--", "color": ink(), "lw": 1.2, "label": label, **line})


def mark(axes: Any, *, x: Any = (), y: Any = (), label: str | None = None, **line: Any) -> None:
    """Draws a border from the theory, at values of `x`, of `y`, or both: dashed across the panel, in ink."""
    look = {"ls": "--", "color": ink(), "lw": 1.2, **line}
    for draw, places in ((axes.axvline, x), (axes.axhline, y)):
        for place in np.atleast_1d(places):
            draw(float(place), label=label, **look)
            label = None  # once in the legend


def spread(axes: Any, values: xr.DataArray, over: str, label: str | None = None, **line: Any) -> None:
    """Draws mean and standard deviation over one axis of a table, along the other. `line` goes to `Axes.errorbar`."""
    (along,) = set(values.dims) - {over}
    look = {"fmt": "o-", "ms": 4, "label": label, **line}
    axes.errorbar(values[along], values.mean(over), values.std(over), **look)


def errors(axes: Any, x: Any, found: Sequence[Estimate], label: str | None = None, **line: Any) -> None:
    """Estimates, each with two standard errors. `line` goes to `Axes.errorbar`."""
    values, sizes = [one.value for one in found], [2 * one.error for one in found]
    axes.errorbar(x, values, sizes, **{"fmt": "o", "ms": 5, "capsize": 3, "label": label, **line})


def ticks(axes: Any, values: Any) -> None:
    """Ticks to the right at these values alone, such as the widths of a logarithmic axis."""
    axes.set_xticks(values, [f"{value:g}" for value in values])
    axes.set_xticks([], minor=True)


def label(
    axes: Any,
    title: str | None = None,
    x: str | None = None,
    y: str | None = None,
    legend: str | dict[str, Any] | None = None,
    **settings: Any,
) -> None:
    """Labels a panel: its title, its axes, and a legend of what has been drawn.

    Args:
        axes: the panel. Draw everything that the legend should name first.
        title: what the panel shows.
        x: label of the horizontal axis.
        y: label of the vertical axis.
        legend: place of the legend, such as `"best"`; a mapping goes to `Axes.legend`. By default there is no legend.
        settings: scales, limits and ticks, for `Axes.set`.
    """
    named = {"title": title, "xlabel": x, "ylabel": y}
    axes.set(**{name: text for name, text in named.items() if text is not None}, **settings)
    if legend is not None:
        axes.legend(**({"loc": legend} if isinstance(legend, str) else legend))


def ink() -> str:
    """The colour of text, light or dark, for what the theory predicts."""
    return _colour("text.color")


def faint() -> str:
    """The colour of grids, for the background."""
    return _colour("grid.color")


def _colour(name: str) -> str:
    import matplotlib as mpl  # a study is imported without it

    return str(mpl.rcParams[name])
