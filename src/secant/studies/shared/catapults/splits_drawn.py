"""Figures of runs whose loss is split between the top of the tangent kernel and the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import xarray as xr

from secant.lab import Figure, sheet


def draw_splits(figure: Figure, runs: Sequence[tuple[str, int, xr.Dataset]], width: float) -> Any:
    """Draws a column for each run: its loss within the first directions and beyond, and below the kernel's norm.

    Args:
        figure: the figure to draw on.
        runs: title, number of directions and records of each run.
        width: width of a column, in inches.

    Returns:
        The panels in two rows, without legends.
    """
    grid = sheet.panels(figure, (max(5.0, width * len(runs)), 5.6), len(runs), 2, sharex="col", squeeze=False)
    for (top, bottom), (title, s, one) in zip(grid.T, runs, strict=True):
        top.semilogy(one.step, one.within, color="C0", lw=1.4, label=rf"$\mathcal{{L}}_{{\leq {s}}}$")
        top.semilogy(one.step, one.beyond, color="C1", lw=1.6, label=rf"$\mathcal{{L}}_{{> {s}}}$")
        sheet.guide(top, one.step, one.loss, r"$\mathcal{L}$", lw=1)
        top.set_title(title)
        first = float(one.critical[0])
        bottom.plot(one.step, first / one.critical, color="C2", lw=1.6, label=r"$\|K_t\|_2$")
        sheet.guide(bottom, one.step, first / one.lr, "critical", lw=1)
        bottom.set(xlabel="step", ylim=(0, None))
    grid[0, 0].set_ylabel("loss")
    grid[1, 0].set_ylabel(r"$\|K_t\|_2 / \|K_0\|_2$")
    return grid


def legends_beside(grid: Any) -> None:
    """Puts a legend of everything that its panels show on the right of each row."""
    for row in grid:
        shown = {label: handle for axes in row for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
        row[-1].legend(shown.values(), shown.keys(), loc="center left", bbox_to_anchor=(1.02, 0.5))
