r"""Catapults and spikes in the records of a run: where they are, how many, and whether the critical step foretold them.

A step is *over the edge* if its size exceeds the critical step of the data that it sees, $\eta > \eta_{\mathrm{crit}}$.
A loss *rises* at a step if it is larger after the step than before. A *spike* is a rise of the loss above a multiple of
its value before, followed by a return.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

MARGIN = 1e-8
"""How far a step must exceed the critical step to count as over the edge."""


class MatchRates(NamedTuple):
    """How well steps over the edge and rises of the loss coincide.

    Attributes:
        foretold: share of the rises that happened at a step over the edge; NaN without rises.
        followed: share of the steps over the edge at which the loss rose; NaN without such steps.
        rises: the number of rises.
        over: the number of steps over the edge.
    """

    foretold: float
    followed: float
    rises: int
    over: int


class Spike(NamedTuple):
    """One spike of a loss.

    Attributes:
        start: the last step before the rise.
        peak: the step at which the loss is largest.
        end: the first step at which the loss is back; None if the records end earlier.
        height: the loss at the peak divided by the loss at the start.
    """

    start: int
    peak: int
    end: int | None
    height: float


def over_edge(lr: Any, critical: Any, *, margin: float = MARGIN) -> Bool[np.ndarray, " steps"]:
    r"""The steps over the edge, at which $\eta - \eta_{\mathrm{crit}}$ exceeds a margin.

    Args:
        lr: step size, one number or one for each step.
        critical: critical step size of the data that the step sees, one for each step; NaN where it was not measured.
        margin: how far $\eta$ must exceed $\eta_{\mathrm{crit}}$.
    """
    return np.asarray(lr, float) - np.asarray(critical, float) > margin


def rises(loss: Any) -> Bool[np.ndarray, " steps"]:
    """The steps at which the loss rises: $T$ truth values from $T + 1$ losses."""
    values = _losses("rises", loss)
    return values[1:] > values[:-1]


def match_rates(loss: Any, lr: Any, critical: Any, *, margin: float = MARGIN) -> MatchRates:
    r"""How well $\eta > \eta_{\mathrm{crit}}$ foretells a rise of the loss, and how often a rise follows.

    Args:
        loss: $T + 1$ losses, of all samples.
        lr: step size, one number or $T$ numbers.
        critical: $T$ critical step sizes, each measured before the step on the data that the step sees.
        margin: how far a step must exceed the critical step to count as over the edge.

    Example:
        ```python
        from secant.measure import events

        print(events.match_rates([1.0, 2.0, 1.5, 1.6], 0.5, [0.4, 0.3, 0.6]))
        ```
        ```text
        MatchRates(foretold=0.5, followed=0.5, rises=2, over=2)
        ```
    """
    rose = rises(loss)
    above = np.broadcast_to(over_edge(lr, critical, margin=margin), rose.shape)
    both = int((rose & above).sum())
    count, over = int(rose.sum()), int(above.sum())
    return MatchRates(both / count if count else np.nan, both / over if over else np.nan, count, over)


def spikes(loss: Any, *, factor: float = 1.5, tolerance: float = 0.0) -> list[Spike]:
    """The spikes of a loss: rises above `factor` times the value at which they began, until the loss is back.

    Args:
        loss: the losses, one for each step.
        factor: how many times the loss must grow for a rise to count as a spike; above 1.
        tolerance: a spike has ended once the loss is at most `1 + tolerance` times the value at which it began.
    """
    values = _losses("spikes", loss)
    if not (np.isfinite(factor) and factor > 1):
        raise ValueError(f"spikes: `factor` must be above 1, got {factor!r}.")
    if not (np.isfinite(tolerance) and tolerance >= 0):
        raise ValueError(f"spikes: `tolerance` must be at least 0, got {tolerance!r}.")
    found: list[Spike] = []
    step, low = 1, 0  # `low` is the last step before the loss began to rise
    while step < len(values):
        # A loss that is not finite is a rise without a return.
        if values[step] <= values[low]:
            low = step
        elif not values[step] <= factor * values[low]:
            back = np.flatnonzero(values[step:] <= (1 + tolerance) * values[low])
            end = step + int(back[0]) if back.size else None
            inside = values[step:end]
            peak = step + int(np.argmax(np.where(np.isnan(inside), np.inf, inside)))
            found.append(Spike(low, peak, end, float(values[peak] / values[low])))
            if end is None:
                break
            step = low = end
        step += 1
    return found


def _losses(caller: str, loss: Any) -> Float[np.ndarray, " steps"]:
    values = np.asarray(loss, float)
    if values.ndim != 1 or len(values) < 2:
        raise ValueError(f"{caller}: `loss` must hold the losses of one run, at least two, got shape {values.shape}.")
    return values
