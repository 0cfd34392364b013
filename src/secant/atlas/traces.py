"""Curves along a run as SVG. The page sets their colours, so that one drawing serves light and dark pages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup, escape

WIDTH, HEIGHT = 640, 230
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 14, 34
MOST = 600
"""Most points of a curve. A longer curve keeps the smallest and the largest point of each stretch."""


@dataclass(frozen=True)
class Curve:
    """A line, or points.

    Attributes:
        label: in the legend.
        x: steps.
        y: values; what is not finite is left out.
        style: a number of a colour, 0 to 3.
        dashed: whether it is what the theory says.
        points: whether single looks are marked.
    """

    label: str
    x: np.ndarray
    y: np.ndarray
    style: int = 0
    dashed: bool = False
    points: bool = False


@dataclass(frozen=True)
class Trace:
    """One panel of a figure.

    Attributes:
        title: the title of the panel.
        curves: in the order of drawing.
        marks: `(first, last, text)`, ranges of steps that the panel highlights.
        logarithmic: whether the vertical axis is logarithmic.
    """

    title: str
    curves: list[Curve]
    marks: Sequence[tuple[float, float, str]] = ()
    logarithmic: bool = True

    @property
    def svg(self) -> Markup:
        """The drawing, with all text escaped."""
        return _drawn(self)


def _drawn(trace: Trace) -> Markup:
    curves = [(one, *_kept(one, trace.logarithmic)) for one in trace.curves]
    curves = [(one, x, y) for one, x, y in curves if len(x)]
    if not curves:
        return Markup("")
    left, right = min(x.min() for _, x, _ in curves), max(x.max() for _, x, _ in curves)
    low, high = min(y.min() for *_, y in curves), max(y.max() for *_, y in curves)
    right, pad = max(right, left + 1), max(0.06 * (high - low), 0.03)
    low, high = low - pad, high + pad

    def across(x: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (x - left) / (right - left)

    def up(y: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (y - low) / (high - low)

    parts = [
        f'<svg class="trace" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(trace.title)}">',
        f"<title>{escape(trace.title)}</title>",
    ]
    for first, last, text in trace.marks:
        a, b = across(min(max(first, left), right)), across(min(max(last, left), right))
        parts.append(
            f'<rect class="mark" x="{a:.1f}" y="{TOP}" width="{max(b - a, 2):.1f}" height="{HEIGHT - TOP - BOTTOM}">'
            f"<title>{escape(text)}</title></rect>"
        )
    for value, text in _ticks(low, high, trace.logarithmic):
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{up(value):.1f}" y2="{up(value):.1f}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{up(value) + 4:.1f}" text-anchor="end">{escape(text)}</text>')
    for value, text in _ticks(left, right, False):
        parts.append(
            f'<text x="{across(value):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{escape(text)}</text>'
        )
    parts.append(f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 2}" text-anchor="end">step</text>')
    for one, x, y in curves:
        places = [(f"{across(a):.1f}", f"{up(b):.1f}") for a, b in zip(x, y, strict=True)]
        look = f"c{one.style}" + (" dashed" if one.dashed else "")
        parts.append(f'<polyline class="{look}" points="{" ".join(map(",".join, places))}"/>')
        if one.points:
            parts += [f'<circle class="{look}" cx="{a}" cy="{b}" r="2"/>' for a, b in places]
    parts.append("</svg>")
    return Markup("".join(parts))


def _kept(curve: Curve, logarithmic: bool) -> tuple[np.ndarray, np.ndarray]:
    x, y = np.asarray(curve.x, float), np.asarray(curve.y, float)
    good = np.isfinite(x) & np.isfinite(y) & ((y > 0) | (not logarithmic))
    x, y = x[good], y[good]
    if logarithmic:
        y = np.log10(y)
    if len(x) > MOST:
        parts = np.array_split(np.arange(len(x)), MOST // 2)
        inner = [part[f(y[part])] for part in parts for f in (np.argmin, np.argmax)]
        chosen = np.unique([0, *inner, len(x) - 1])
        x, y = x[chosen], y[chosen]
    return x, y


def _ticks(low: float, high: float, logarithmic: bool) -> list[tuple[float, str]]:
    if logarithmic and high - low > 1.2:
        every = max(1, math.ceil((high - low) / 6))
        first = math.ceil(low / every) * every
        return [(float(k), _power(k)) for k in range(first, math.floor(high) + 1, every)]
    if logarithmic:
        ends = 10**low, 10**high
        return [(math.log10(v), f"{v:.4g}") for v in _round(*ends) if v > 0]
    return [(v, f"{v:.6g}") for v in _round(low, high)]


def _power(k: int) -> str:
    return f"{10.0**k:g}" if -3 <= k <= 4 else f"1e{k}"


def _round(low: float, high: float) -> list[float]:
    raw = (high - low) / 5
    if not 0 < raw < math.inf:
        return [low]
    unit = 10 ** math.floor(math.log10(raw))
    step = next(unit * k for k in (1, 2, 5, 10) if unit * k >= raw)
    return [k * step for k in range(math.ceil(low / step), math.floor(high / step) + 1)]
