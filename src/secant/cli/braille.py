"""Draws curves in a terminal: every character is a field of two by four dots."""

from __future__ import annotations

import itertools

import numpy as np
from rich.text import Text

from secant.monitors.display import Panel, Series, thinned

_DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
_BARS = "▁▂▃▄▅▆▇█"
STYLES = ("cyan", "magenta", "green")
EDGE = "yellow"


def number(value: float) -> str:
    """A number in at most nine characters."""
    if not np.isfinite(value):
        return "nan" if np.isnan(value) else ("inf" if value > 0 else "-inf")
    return f"{value:.3g}"


def chart(panel: Panel, width: int, span: tuple[int, int] | None = None, height: int = 4) -> list[Text]:
    """A panel as lines of text, `width` columns wide: limits at the left, curves over dotted edges, steps below.

    Args:
        panel: the panel to draw.
        width: width of the whole, in columns.
        span: first and last step of the axis; by default those of the panel.
        height: height of the curves, in lines.
    """
    low, high = panel.limits
    margin = 9
    across = max(width - margin - 1, 8)
    steps = np.concatenate([one.steps for one in panel.series])
    first, last = span or (int(steps.min()), int(steps.max()))
    cells = np.zeros((height, across), int)
    owner = np.full((height, across), -1)
    for index in reversed(range(len(panel.series))):  # the first quantity lies over all others
        series = panel.series[index]
        dots = _drawn(panel, series, first, last, 2 * across, 4 * height)
        if series.edge and dots.any(axis=0).sum() > 4:
            dots[:, np.arange(2 * across) % 4 >= 2] = False
        bits = (dots.reshape(height, 4, across, 2) * _DOTS[None, :, None, :]).sum(axis=(1, 3))
        owner[bits > 0] = index
        cells |= bits
    styles = [EDGE if one.edge else STYLES[index % len(STYLES)] for index, one in enumerate(panel.series)]
    lines = []
    for row in range(height):
        label = number(high) if row == 0 else number(low) if row == height - 1 else ""
        line = Text().append(f"{label:>{margin - 1}} ", "dim")
        # An empty field is a character of the same kind, because a font may draw these wider than a blank.
        for which, places in itertools.groupby(range(across), key=owner[row].__getitem__):
            line.append("".join(chr(0x2800 + int(cells[row, column])) for column in places), (*styles, "")[which])
        lines.append(line)
    ends = f"{first:,}", f"{last:,}"
    gap = max(across - len(ends[0]) - len(ends[1]), 1)
    lines.append(Text(" " * margin + ends[0] + " " * gap + ends[1], style="dim"))
    return lines


def spark(values: np.ndarray, width: int) -> str:
    """Values as a row of bars, from the smallest to the largest; a blank where there is no number."""
    panel = Panel("", "", (Series("", np.arange(len(values)), values),))
    heights = panel.heights(values)
    parts = np.array_split(heights, min(width, len(heights))) if len(heights) else []
    bars = []
    for part in parts:
        finite = part[np.isfinite(part)]
        bars.append(_BARS[min(int(finite.max() * len(_BARS)), len(_BARS) - 1)] if finite.size else " ")
    return "".join(bars)


def _drawn(panel: Panel, series: Series, first: int, last: int, across: int, down: int) -> np.ndarray:
    """The dots of a curve, `(down, across)`; neighbouring points are joined, gaps are not."""
    series = thinned(series, 4 * across)
    heights = panel.heights(series.values)
    x = (series.steps - first) / max(last - first, 1) * (across - 1)
    y = (1 - heights) * (down - 1)
    dots = np.zeros((down, across), bool)
    known = np.isfinite(y)
    for index in np.flatnonzero(known):
        following = index + 1 < len(x) and known[index + 1]
        end = index + 1 if following else index
        count = int(max(abs(x[end] - x[index]), abs(y[end] - y[index]))) + 2
        dots[
            np.rint(np.linspace(y[index], y[end], count)).astype(int),
            np.rint(np.linspace(x[index], x[end], count)).astype(int),
        ] = True
    return dots
