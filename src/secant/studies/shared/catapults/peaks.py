"""Shared parts of both halves of figure B.4: catapults by bend or width, and by step size, around a default of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import xarray as xr

from secant.lab import Figure, sheet


def refuse_strangers(config: Any, *names: str) -> None:
    """Raises an error for defaults that are not among the values: `lr` must be one of `lrs`.

    Raises:
        ValueError: names the default, what was given, and what would work.
    """
    for name in names:
        value, among = getattr(config, name), getattr(config, f"{name}s")
        if value not in among:
            raise ValueError(f"{name}: {value:g} is not one of `{name}s`, {among}. Give one of them.")


def draw_peaks(
    figure: Figure,
    size: tuple[float, float],
    columns: Sequence[Sequence[tuple[str, xr.Dataset]]],
    titles: Sequence[str],
    lr: float,
) -> Any:
    r"""Draws losses above and kernels below, with one set of runs on the left and one on the right.

    Args:
        figure: the figure to draw on.
        size: its size in inches.
        columns: for each side the runs with their labels, `loss` and `kernel` over `step`.
        titles: titles of the four panels, row by row.
        lr: the step size $\eta$ of the runs on the left, whose curvature should end below $2/\eta$.

    Returns:
        The panels, two by two.
    """
    grid = sheet.panels(figure, size, 2, 2, sharex=True, sharey="row")
    for (above, below), runs in zip(grid.T, columns, strict=True):
        for label, one in runs:
            above.semilogy(one.step, one.loss, label=label)
            below.plot(one.step, one.kernel)
        above.legend(fontsize=8, loc="upper right", ncols=2 if len(runs) > 6 else 1)
        below.set_xlabel("step")
    for axes, title in zip(grid.flat, titles, strict=True):
        axes.set_title(title)
    grid[0, 0].set_ylabel("loss")
    edge = grid[1, 0]
    sheet.mark(edge, y=2 / lr, lw=0.8, ls=":")
    look = {"textcoords": "offset points", "ha": "right", "va": "bottom", "color": sheet.ink()}
    edge.annotate(r"$2/\eta$", (edge.dataLim.x1, 2 / lr), xytext=(0, 3), **look)
    return grid
