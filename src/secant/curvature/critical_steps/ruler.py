"""The drawing of critical step sizes on a ruler, for `CriticalStep.plot`."""

from __future__ import annotations

from typing import Any

import numpy as np

from secant.look import COLOURS, number, panels


def draw_ruler(exact: float, ntk: float, sharpness: float, ax: Any = None, look: str = "light") -> Any:
    r"""Draws step sizes from zero up: the stable ones, the tangent kernel's estimate, and $2/\lambda_{\max}$.

    Args:
        exact: the border; infinite where no direction curves upwards.
        ntk: the tangent kernel's estimate of the border.
        sharpness: $\lambda_{\max}$; there is a border if it is positive.
        ax: where to draw; by default in a new figure.
        look: `light` or `dark`.
    """
    plain = 2 / sharpness if sharpness > 0 else np.inf
    marks = [value for value in (exact, ntk, plain) if np.isfinite(value)]
    moved = np.isfinite(exact) and abs(exact - plain) > 1e-6 * plain
    blue, orange, green, *_, red = COLOURS[look][:6]
    with panels(ax, look, size=(6.4, 2.0 if moved else 1.8)) as (ax,):
        end = 1.35 * max(marks, default=1.0)
        border = min(exact, end)
        for left, right, what, color, side in (
            (0.0, border, "stable", green, "left"),
            (border, end, "unstable", red, "right"),
        ):
            ax.barh(0, right - left, left=left, height=0.5, color=color, alpha=0.25, lw=0)
            if right - left > 0.12 * end:
                at, gap = (left, 6) if side == "left" else (right, -6)
                ax.annotate(what, (at, 0), (gap, 0), textcoords="offset points", ha=side, va="center")
        ax.set(xlim=(0, end), ylim=(-1.1, 1.6 if moved else 1.1), yticks=[], xlabel=r"step size $\eta$")
        if np.isfinite(exact):
            _mark(ax, exact, rf"${number(exact * sharpness).strip('$')}/\lambda_{{\max}}(H)$", blue, 0.9)
            if moved:
                _mark(ax, plain, r"$2/\lambda_{\max}(H)$, without momentum", "0.5", 1.45)
        else:
            ax.annotate("no direction curves upwards, and there is no border", (0, 0.45))
        if np.isfinite(ntk):
            _mark(ax, ntk, "tangent kernel", orange, -0.9)
        ax.grid(False)
        ax.spines["left"].set_visible(False)
    return ax


def _mark(ax: Any, at: float, what: str, color: str, reach: float) -> None:
    """A line across the ruler that reaches above or below it by `reach`, with a label at its end."""
    ax.plot([at, at], [min(-0.25, reach), max(0.25, reach)], color=color, lw=2)
    side = "right" if at > 0.6 * ax.get_xlim()[1] else "left"
    ax.annotate(
        f"{what} = {number(at)}",
        (at, reach),
        (-5 if side == "right" else 5, 0),
        textcoords="offset points",
        ha=side,
        va="top" if reach > 0 else "bottom",
        color=color,
    )
