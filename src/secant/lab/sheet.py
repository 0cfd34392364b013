"""The sheet that a study draws on: its panels, and the colours that the look of the moment has for what is not data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def panels(figure: Figure, size: tuple[float, float], columns: int = 1, rows: int = 1, **grid: Any) -> Any:
    """Axes side by side on a figure of this size, in inches; `grid` goes to `Figure.subplots`."""
    figure.set_size_inches(*size)
    return figure.subplots(rows, columns, **grid)


def ink() -> str:
    """The colour of text, light or dark: what the theory says is drawn in it."""
    return _colour("text.color")


def faint() -> str:
    """The colour of grids, for what should stay in the background."""
    return _colour("grid.color")


def _colour(name: str) -> str:
    import matplotlib as mpl  # a study is imported without it

    return str(mpl.rcParams[name])
