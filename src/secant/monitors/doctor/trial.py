r"""The largest step size by trial: short runs of the model itself, at several multiples of its own step size.

Where no theory gives a largest step, as for a cross-entropy, for Adam, or for momentum on small batches, it can be
tried. A run is lost if a loss is not finite, or if the median of its last tenth is above that of the same number of
batches at the parameters it began from, by more than their scatter. The multiple is doubled until a run is lost, or
halved until one is not, and the gap between the two is then halved in powers: ten runs or so, of a few hundred steps.

What a short run bears a longer one need not, and steps that are kept and lost may alternate. The safe step is the
largest over $\sqrt 2$, right by a factor of two as long as the largest itself is right by $\sqrt 2$; it is tried too,
and if it is lost, smaller ones are.
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
"""Of the gap between what is kept and what is lost, in powers: the largest step is right to 2^(1/16)."""
WIDEST = 2.0**12
"""Multiples of the own step size beyond which, on both sides, nothing is tried."""
STUDY = "thesis/max-step"
"""That a largest step exists, and how far from theory's it is."""
SAFE = tuple(2.0**-power for power in (0.5, 0.625, 0.75, 0.875, 1.0))
"""Parts of the largest step of which the first that is kept is safe."""
SURE = 3.0
"""Standard errors above where it began that a run must end to be lost."""

Runs = Callable[[float], np.ndarray]
"""`multiple of the step size -> losses of a run`, which may end with the first that is not finite."""


@dataclass(frozen=True)
class Trial:
    """What trial runs of a model bore.

    Attributes:
        multiple: the largest multiple of the own step size whose run was not lost; 0 where all were.
        lost: the next above it whose run was; infinity where none was.
        safe_multiple: the one that is safe, at least half of it.
        lr: the own step size; NaN where the optimiser does not tell.
        steps: of a run.
        tried: all multiples that were tried, in order.
        best: the one of them whose run ended lowest; NaN where all were lost.
    """

    multiple: float
    lost: float
    safe_multiple: float
    lr: float
    steps: int
    tried: tuple[float, ...]
    best: float = math.nan

    def facts(self) -> dict[str, Any]:
        """In plain numbers, as a record has it under `trial`."""
        names = ("multiple", "lost", "safe_multiple", "lr", "steps", "best")
        return {name: getattr(self, name) for name in names}

    @property
    def largest(self) -> float:
        """The largest step size that was not lost."""
        return self.multiple * self.lr

    @property
    def safe(self) -> float:
        """The safe one."""
        return self.safe_multiple * self.lr


def bracketed(
    runs: Runs,
    level: np.ndarray,
    *,
    lr: float = math.nan,
    steps: int,
    progress: Callable[[str], None] = lambda text: None,
) -> Trial:
    """The largest multiple whose run is not lost.

    Args:
        runs: makes one.
        level: losses of batches at the parameters from which runs begin.
        lr: the own step size.
        steps: of a run.
        progress: told of every run.
    """
    if not np.isfinite(level).all():
        raise ValueError("largest_step: the loss is not finite before the first step.")
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
        low, high = _down(low / 2, kept)  # they were an island of steps that are kept, among others that are lost
    return done(0.0, high, 0.0)


def _down(lost: float, kept: Callable[[float], bool]) -> tuple[float, float]:
    """The first half, quarter, ... of a multiple that is kept, or 0, and the last that is lost."""
    while (half := lost / 2) >= 1 / WIDEST:
        if kept(half):
            return half, lost
        lost = half
    return 0.0, lost


def _closed(low: float, high: float, kept: Callable[[float], bool]) -> tuple[float, float]:
    """A multiple that is kept and one that is lost, nearer to each other."""
    while high / low > 2**0.5**HALVINGS * (1 + 1e-9):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if kept(middle) else (low, middle)
    return low, high


def survives(losses: np.ndarray, level: np.ndarray, steps: int) -> bool:
    """Whether a run is not lost: all losses finite, and the last tenth no higher than where it began.

    Args:
        losses: of its steps; fewer than `steps` where it ended early.
        level: of batches at the parameters from which it began.
        steps: that it should have.
    """
    if len(losses) < steps or not np.isfinite(losses).all():
        return False
    middle = float(np.median(level))
    # The standard error of a median, from the median of distances to it.
    error = 1.2533 * 1.4826 * float(np.median(np.abs(level - middle))) / math.sqrt(len(level))
    return _end(losses, steps) < middle + SURE * math.sqrt(2) * error


def _end(losses: np.ndarray, steps: int) -> float:
    """Where a run ends."""
    return float(np.median(losses[-max(steps // 10, 1) :]))


def of_trial(watched: Watched) -> list[Sentence]:
    """What trial runs said, where the record has them."""
    facts = watched.about.get("trial")
    if not isinstance(facts, dict):
        return []
    numbers = (facts.get(name) for name in ("multiple", "lost", "safe_multiple", "lr", "steps", "best"))
    multiple, lost, safe, lr, steps, best = (
        float(one) if isinstance(one, int | float) else math.nan for one in numbers
    )
    if not (multiple >= 0 and lost > 0 and safe >= 0):
        return []
    tried = f"Tried for {shown(steps)} steps"
    if multiple == 0:
        text = f"{tried}, the run is lost at its own step size, and at {shown(lost)} times it."
        return [Sentence("step", text, lost, 0.0, STUDY)]
    lowest = f" Of those tried, {shown(best)} times ended lowest." if best > 0 else ""
    if math.isinf(lost):
        text = (
            f"{tried}, the run is lost at no multiple of its step size up to {shown(multiple)}: nothing diverges here."
        )
        return [Sentence("step", text + lowest, multiple, math.nan, STUDY)]
    text = f"{tried}, it bears {shown(multiple)} times its step size and not {shown(lost)} times"
    if not lr > 0:
        return [Sentence("step", f"{text}.{lowest}", multiple, lost - multiple, STUDY)]
    text += f": {shown(lr * safe)} is safe, {shown(safe / multiple)} of {shown(lr * multiple)}.{lowest}"
    return [Sentence("step", text, lr * safe, lr * (lost - multiple), STUDY)]
