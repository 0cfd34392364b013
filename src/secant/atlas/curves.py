"""Curves on a page: paths in a square that is stretched to whatever room there is, with ticks beside it as text."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from secant.atlas.numbers import number
from secant.monitors.display import Panel, Series, above_edge, thinned

SIZE = 1000
"""Side of the square; coordinates are rounded to whole units."""

POINTS = 300
"""The steps are cut into this many stretches; a curve shows the smallest and the largest value of each."""


@dataclass(frozen=True)
class Tick:
    """A mark of an axis: its place, as a share of the axis, and its text."""

    place: float
    text: Markup


@dataclass(frozen=True)
class Curve:
    """A quantity as it is drawn.

    Attributes:
        name: the quantity, in words.
        path: the line in the square, from the upper left; empty where there is nothing to draw.
        last: the last value.
        look: `edge`, or the number of the colour.
        points: pairs `[step, value]`, for a reader who points at one; None replaces a value that is not a number.
    """

    name: str
    path: str
    last: float
    look: str
    points: list[list[float | None]]


@dataclass(frozen=True)
class Chart:
    """A panel as it is drawn."""

    panel: Panel
    curves: list[Curve]
    ticks_x: list[Tick]
    ticks_y: list[Tick]
    span: tuple[int, int]

    @property
    def above(self) -> tuple[int, int] | None:
        """The number of looks at which the first quantity was above its edge, and the number of all looks."""
        return above_edge(self.panel) if "edge" in self.panel.title else None

    @property
    def described(self) -> str:
        """The chart in a sentence, for a reader who cannot see it."""
        low, high = self.panel.limits
        last = ", ".join(f"{curve.name} {_word(curve.last)} at last" for curve in self.curves)
        return f"{self.panel.title}, from {_word(low)} to {_word(high)}: {last}."

    @property
    def data(self) -> dict[str, Any]:
        """The numbers for the script that shows values where a reader points."""
        curves = [{"name": curve.name, "points": curve.points} for curve in self.curves]
        return {"first": self.span[0], "last": self.span[1], "curves": curves}

    def across(self, step: int) -> float:
        """The horizontal place of a step in the square."""
        first, last = self.span
        return round(SIZE * min(max((step - first) / max(last - first, 1), 0.0), 1.0), 1)


def chart(panel: Panel, span: tuple[int, int]) -> Chart:
    """A panel along the steps from the first to the last of `span`."""
    curves = []
    for index, series in enumerate(panel.series):
        few = thinned(series, POINTS)
        points = [[int(step), _plain(value)] for step, value in zip(few.steps, few.values, strict=True)]
        look = "edge" if series.edge else str(index % 3)
        curves.append(Curve(series.name, _path(panel, few, span), float(series.values[-1]), look, points))
    return Chart(panel, curves, _steps(*span), _heights(panel), span)


def spark(series: Series) -> str:
    """The path of a quantity alone, for a picture of a few pixels."""
    panel = Panel("", "", (series,))
    return _path(panel, thinned(series, 60), (int(series.steps[0]), int(series.steps[-1])))


def _path(panel: Panel, series: Series, span: tuple[int, int]) -> str:
    first, last = span
    x = np.clip((series.steps - first) / max(last - first, 1), 0, 1) * SIZE
    y = (1 - panel.heights(series.values)) * SIZE
    words, pen = [], False
    for across, down in zip(x, y, strict=True):
        if not np.isfinite(down):
            pen = False
            continue
        words.append(f"{'L' if pen else 'M'}{across:.0f} {down:.0f}")
        if not pen:
            words.append("h0")  # a point alone is a dot
        pen = True
    return "".join(words)


def _heights(panel: Panel) -> list[Tick]:
    low, high = panel.limits
    if not panel.finite.size:
        return []
    if panel.logarithmic:
        bottom, top = math.ceil(math.log10(low)), math.floor(math.log10(high))
        apart = max(1, math.ceil((top - bottom + 1) / 4))
        values = [10.0**power for power in range(bottom, top + 1, apart)]
        values = values if len(values) > 1 else [low, high]
    else:
        values = _round_numbers(low, high)
    places = panel.heights(np.array(values))
    return [Tick(float(place), number(value, 3)) for place, value in zip(places, values, strict=True)]


def _steps(first: int, last: int) -> list[Tick]:
    if first == last:
        return [Tick(0.0, Markup(f"{first:,}"))]
    values = sorted({int(value) for value in _round_numbers(first, last) if value == int(value)} | {first, last})
    width = last - first
    inner = [value for value in values[1:-1] if min(value - first, last - value) > 0.17 * width]
    return [Tick((value - first) / width, Markup(f"{value:,}")) for value in [first, *inner, last]]


def _round_numbers(low: float, high: float, count: int = 4) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten between two numbers, about so many."""
    rough = high / count - low / count
    if not (math.isfinite(rough) and rough > 1e-300):
        return [low, high]
    power = 10.0 ** math.floor(math.log10(rough))
    unit = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= 0.999 * rough)
    start, end = math.ceil(low / unit - 1e-9), math.floor(high / unit + 1e-9)
    found = [multiple * unit for multiple in range(start, end + 1)] if end - start < 20 else []
    return found if len(found) > 1 else [low, high]


def _plain(value: float) -> float | None:
    return float(f"{value:.6g}") if math.isfinite(value) else None


def _word(value: float) -> str:
    return f"{value:.4g}"
