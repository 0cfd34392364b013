r"""The largest step size by trial: short runs of the model itself, at several multiples of its own step size.

For a cross-entropy, for Adam, or for momentum on small batches, no theory gives a largest step, but runs can. A trial
run is *lost* if one of its losses is not finite, or if it ends above its start: the median of its last tenth exceeds
the median loss of as many batches at the first parameters by more than their scatter. A run that is not lost is *kept*.
The multiple is doubled until a run is lost, or halved until one is kept. The gap between the two is then halved in
powers. That takes about ten runs of a few hundred steps.

A longer run may be lost at a step that a short run keeps, and kept and lost steps may alternate. The safe step is the
largest over $\sqrt 2$. If the largest is right within $\sqrt 2$, the safe step is right within a factor of two. The
safe step is tried too, and if its run is lost, smaller steps are tried.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from secant.monitors.doctor.wording import Sentence, shown
from secant.monitors.records.record import Watched

HALVINGS = 4
"""Halvings, in powers, of the gap between the kept and the lost step: the largest step is right to 2^(1/16)."""
WIDEST = 2.0**12
"""Trials stay within this factor of the own step size, up and down."""
STUDY = "thesis/max-step"
"""The study of the largest step: it exists, and theory comes this close."""
SAFE = tuple(2.0**-power for power in (0.5, 0.625, 0.75, 0.875, 1.0))
"""Shares of the largest step; the first one whose run is kept is the safe step."""
SURE = 3.0
"""A run is lost if it ends this many standard errors above its start."""

Runs = Callable[[float], np.ndarray]
"""`multiple of the step size -> losses of a run`; the run may stop at the first loss that is not finite."""


@dataclass(frozen=True)
class Trial:
    """The largest step size that trial runs of a model kept, and the safe one.

    Attributes:
        multiple: the largest multiple of the own step size whose run was not lost; 0 where all runs were lost.
        lost: the next larger multiple whose run was lost; infinity where no run was lost.
        safe_multiple: the safe multiple, at least half of `multiple`.
        lr: the own step size; NaN where the optimiser does not tell.
        steps: the number of steps of a run.
        tried: all multiples that were tried, in order.
        best: the multiple whose run ended lowest; NaN where all runs were lost.
    """

    multiple: float
    lost: float
    safe_multiple: float
    lr: float
    steps: int
    tried: tuple[float, ...]
    best: float = math.nan

    def facts(self) -> dict[str, Any]:
        """The trial in plain numbers, as a record keeps it under `trial`."""
        names = ("multiple", "lost", "safe_multiple", "lr", "steps", "best")
        return {name: getattr(self, name) for name in names}

    @property
    def largest(self) -> float:
        """The largest step size whose run was not lost."""
        return self.multiple * self.lr

    @property
    def safe(self) -> float:
        """The safe step size."""
        return self.safe_multiple * self.lr


def bracketed(
    runs: Runs,
    level: np.ndarray,
    *,
    lr: float = math.nan,
    steps: int,
    progress: Callable[[str], None] = lambda text: None,
) -> Trial:
    """The largest multiple of the step size whose run is not lost, and the safe one.

    Args:
        runs: makes one run.
        level: losses of batches at the parameters from which runs begin.
        lr: the own step size.
        steps: the number of steps of a run.
        progress: called with one line for every run.
    """
    if not np.isfinite(level).all():
        raise ValueError(
            "largest_step: `loss` is not finite at the given `params`, before the first step. Give parameters and a "
            "batch with a finite loss."
        )
    tried: list[float] = []
    ends: dict[float, float] = {}

    def kept(multiple: float) -> bool:
        tried.append(multiple)
        losses = runs(multiple)
        found = survives(losses, level, steps)
        if found:
            ends[multiple] = _end(losses, steps)
        progress(f"{multiple:.3g} times the step size: {'kept' if found else 'lost'}")
        return found

    def done(low: float, high: float, safe: float) -> Trial:
        return Trial(low, high, safe, lr, steps, tuple(tried), min(ends, key=ends.__getitem__, default=math.nan))

    low = high = 1.0
    if kept(1.0):
        while (high := 2 * low) <= WIDEST and kept(high):
            low = high
    else:
        low, high = _down(high, kept)
    while low > 0:
        if high <= WIDEST:
            low, high = _closed(low, high, kept)
        safe = next((part * low for part in SAFE if kept(part * low)), None)
        if safe is not None:
            return done(low, high if high <= WIDEST else math.inf, safe)
        low, high = _down(low / 2, kept)  # the kept steps were an island among lost ones
    return done(0.0, high, 0.0)


def _down(lost: float, kept: Callable[[float], bool]) -> tuple[float, float]:
    """The first half, quarter, ... of a multiple that is kept, or 0; and the last multiple that is lost."""
    while (half := lost / 2) >= 1 / WIDEST:
        if kept(half):
            return half, lost
        lost = half
    return 0.0, lost


def _closed(low: float, high: float, kept: Callable[[float], bool]) -> tuple[float, float]:
    """A multiple that is kept and one that is lost, within 2^(1/16) of each other."""
    while high / low > 2**0.5**HALVINGS * (1 + 1e-9):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if kept(middle) else (low, middle)
    return low, high


def survives(losses: np.ndarray, level: np.ndarray, steps: int) -> bool:
    """Whether a run is not lost: all its losses are finite, and its last tenth is no higher than its start.

    Args:
        losses: the losses of its steps; fewer than `steps` where the run stopped early.
        level: losses of batches at the parameters from which the run began.
        steps: the number of steps that the run should have.
    """
    if len(losses) < steps or not np.isfinite(losses).all():
        return False
    middle = float(np.median(level))
    # The standard error of a median, from the median distance to it.
    error = 1.2533 * 1.4826 * float(np.median(np.abs(level - middle))) / math.sqrt(len(level))
    return _end(losses, steps) < middle + SURE * math.sqrt(2) * error


def _end(losses: np.ndarray, steps: int) -> float:
    """The loss at which a run ends: the median of its last tenth."""
    return float(np.median(losses[-max(steps // 10, 1) :]))


def of_trial(watched: Watched) -> list[Sentence]:
    """The sentences on trial runs; none where the record has no trial."""
    facts = watched.about.get("trial")
    if not isinstance(facts, dict):
        return []
    numbers = (facts.get(name) for name in ("multiple", "lost", "safe_multiple", "lr", "steps", "best"))
    multiple, lost, safe, lr, steps, best = (
        float(one) if isinstance(one, int | float) else math.nan for one in numbers
    )
    if not (multiple >= 0 and lost > 0 and safe >= 0):
        return []
    tried = f"In trial runs of {shown(steps)} steps"
    if multiple == 0:
        text = f"{tried} the model diverges at its own step size, and at {shown(lost)} times that step."
        return [Sentence("step", text, lost, 0.0, STUDY)]
    lowest = f" The run at {shown(best)} times the step size ended lowest." if best > 0 else ""
    if math.isinf(lost):
        text = f"{tried} the model diverges at no multiple of its step size up to {shown(multiple)}."
        return [Sentence("step", text + lowest, multiple, math.nan, STUDY)]
    text = f"{tried} the model bears {shown(multiple)} times its step size and diverges at {shown(lost)} times."
    if not lr > 0:
        return [Sentence("step", text + lowest, multiple, lost - multiple, STUDY)]
    safely = f" A step of {shown(lr * safe)} is safe: {shown(safe / multiple)} of the largest, {shown(lr * multiple)}."
    return [Sentence("step", text + safely + lowest, lr * safe, lr * (lost - multiple), STUDY)]
