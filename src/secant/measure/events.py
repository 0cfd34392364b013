r"""Catapults and spikes in the records of a run: where they are, how many, and whether the critical step foretold them.

A step is *over the edge* if its size exceeds the critical one of what it sees, $\eta > \eta_{\mathrm{crit}}$. A loss
*rises* at a step if it is larger after than before. A *spike* is a rise above a multiple of where it began that comes
back.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

MARGIN = 1e-8
"""By how much a step must exceed the critical one."""


class MatchRates(NamedTuple):
    """How well steps over the edge and rises of the loss go together.

    Attributes:
        foretold: share of the rises that happened at a step over the edge; NaN without rises.
        followed: share of the steps over the edge at which the loss rose; NaN without such steps.
        rises: how many rises.
        over: how many steps over the edge.
    """

    foretold: float
    followed: float
    rises: int
    over: int


class Spike(NamedTuple):
    """One spike.

    Attributes:
        start: the last step before it.
        peak: the step at which the loss is largest.
        end: the first step at which it is back; None where the records end before.
        height: the loss at the peak over that at the start.
    """

    start: int
    peak: int
    end: int | None
    height: float


def over_edge(lr: Any, critical: Any, *, margin: float = MARGIN) -> Bool[np.ndarray, " steps"]:
    r"""At which steps $\eta - \eta_{\mathrm{crit}}$ exceeds a margin.

    Args:
        lr: step size, one number or one a step.
        critical: critical step size of what the step sees, one a step; NaN where it was not measured.
        margin: by how much at least.
    """
    return np.asarray(lr, float) - np.asarray(critical, float) > margin


def rises(loss: Any) -> Bool[np.ndarray, " steps"]:
    """At which of $T$ steps the loss rises, from $T + 1$ losses."""
    values = _losses("rises", loss)
    return values[1:] > values[:-1]


def match_rates(loss: Any, lr: Any, critical: Any, *, margin: float = MARGIN) -> MatchRates:
    r"""How well $\eta > \eta_{\mathrm{crit}}$ foretells that the loss rises, both ways round.

    Args:
        loss: $T + 1$ losses, of all samples.
        lr: step size, one number or $T$.
        critical: $T$ critical step sizes, each of what the step sees, before it is made.
        margin: by how much a step must exceed the critical one.

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
    """The spikes of a loss: rises above `factor` times where they began, until it is back.

    Args:
        loss: one a step.
        factor: a rise by less is none; above 1.
        tolerance: a spike has ended where the loss is at most 1 + this times where it began.
    """
    values = _losses("spikes", loss)
    if not (np.isfinite(factor) and factor > 1):
        raise ValueError(f"spikes: `factor` must be above 1, got {factor!r}.")
    if not (np.isfinite(tolerance) and tolerance >= 0):
        raise ValueError(f"spikes: `tolerance` must be at least 0, got {tolerance!r}.")
    found: list[Spike] = []
    step, low = 1, 0  # `low` is the last step before the loss began to rise
    while step < len(values):
        # What is not finite is a rise that does not come back.
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
