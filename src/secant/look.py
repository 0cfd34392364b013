"""The look of every figure, light or dark: colours, settings of matplotlib, and axes to draw in."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

COLOURS = {
    "light": ["#2563eb", "#dc6803", "#0d9488", "#c026d3", "#65a30d", "#e11d48", "#7c3aed", "#64748b"],
    "dark": ["#60a5fa", "#fb923c", "#2dd4bf", "#e879f9", "#a3e635", "#fb7185", "#a78bfa", "#94a3b8"],
}
"""Colours of lines, in order."""

_INK = {"light": "#1e293b", "dark": "#e2e8f0"}
_FAINT = {"light": "#cbd5e1", "dark": "#475569"}
_PAPER = {"light": "#ffffff", "dark": "#0f172a"}


def theme(name: str) -> dict[str, Any]:
    """Matplotlib settings of the light or the dark look."""
    from cycler import cycler

    ink, faint, paper = _INK[name], _FAINT[name], _PAPER[name]
    return {
        "axes.prop_cycle": cycler(color=COLOURS[name]),
        "figure.facecolor": paper,
        "axes.facecolor": "none",
        "savefig.facecolor": paper,
        "text.color": ink,
        "axes.labelcolor": ink,
        "axes.edgecolor": faint,
        "axes.titlecolor": ink,
        "xtick.color": ink,
        "ytick.color": ink,
        "grid.color": faint,
        "axes.grid": True,
        "grid.alpha": 0.4,
        "grid.linewidth": 0.6,
        "axes.axisbelow": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlesize": 11,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.labelsize": 10,
        "xtick.labelsize": 9,
        "ytick.labelsize": 9,
        "legend.fontsize": 9,
        "legend.frameon": False,
        "legend.labelcolor": ink,
        "lines.linewidth": 1.6,
        "font.size": 10,
        "mathtext.fontset": "cm",
        "image.cmap": "viridis",
        "svg.hashsalt": "secant",
        "figure.constrained_layout.use": True,
    }


def number(value: float) -> str:
    """The text of a number in a figure: three digits, with a power of ten if it is very large or small."""
    mantissa, _, exponent = f"{value:.3g}".partition("e")
    if not exponent:
        return mantissa
    factor = {"1": "", "-1": "-"}.get(mantissa, rf"{mantissa}\times")
    return rf"${factor}10^{{{int(exponent)}}}$"


@contextlib.contextmanager
def panels(
    ax: Any, look: str, count: int = 1, size: tuple[float, float] = (6.0, 3.6), columns: int = 3
) -> Iterator[list[Any]]:
    """Axes to draw in: the user's own axes, unchanged, or `count` axes of a new figure in Secant's look.

    The figure belongs to pyplot, so that notebooks show it and `plt.show()` and `plt.savefig()` find it.

    Args:
        ax: the user's axes, or None.
        look: `light` or `dark`.
        count: how many axes are needed.
        size: the size of each, in inches.
        columns: the most axes side by side.
    """
    import matplotlib
    from matplotlib import pyplot

    if look not in COLOURS:
        raise ValueError(f"plot: `look` must be one of {', '.join(map(repr, COLOURS))}, got {look!r}.")
    if ax is not None:
        yield [ax]
        return
    with matplotlib.rc_context(theme(look)):
        down = -(-count // columns)
        across = -(-count // down)
        figure = pyplot.figure(figsize=(size[0] * across, size[1] * down), layout="constrained")
        figure.get_layout_engine().set(w_pad=0.08, h_pad=0.06)
        yield [figure.add_subplot(down, across, index + 1) for index in range(count)]


__all__ = ["COLOURS", "number", "panels", "theme"]
