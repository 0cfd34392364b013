"""The panels of a watched run, for a terminal or a page: each quantity beside its edge, thinned and scaled."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from secant.monitors.doctor.spikes import spikes
from secant.monitors.records.columns import COLUMNS
from secant.monitors.records.record import Watched

WIDE = 30.0
"""An axis is logarithmic if its largest value is more than this times its smallest."""

FACTS = 40
"""Largest number of facts about a run that are shown."""

SMALL = 1e-290
"""Numbers below this count as zero, because a quotient of such numbers has no digits."""

TOLD = (
    "framework",
    "optimiser",
    "model",
    "parameters",
    "samples",
    "precision",
    "device",
    "budget",
    "resumed",
    "secant",
)
"""Facts about a run that are shown first, in this order."""


@dataclass(frozen=True)
class Series:
    """A quantity along a run.

    Attributes:
        name: the quantity in words.
        steps: steps of the optimiser, `(n,)`, growing.
        values: `(n,)`; NaN and infinity are gaps.
        edge: whether the other quantities are compared with this one.
    """

    name: str
    steps: np.ndarray
    values: np.ndarray
    edge: bool = False


@dataclass(frozen=True)
class Panel:
    """Quantities on common axes.

    Attributes:
        title: its title.
        meaning: its meaning, in a sentence.
        series: the quantities; edges come last.
    """

    title: str
    meaning: str
    series: tuple[Series, ...]

    @property
    def finite(self) -> np.ndarray:
        """All values that can be drawn."""
        values = np.concatenate([one.values for one in self.series])
        return values[np.isfinite(values)]

    @property
    def logarithmic(self) -> bool:
        """Whether the values span so much that the axis is logarithmic."""
        finite = self.finite
        return bool(finite.size and finite.min() > 0 and finite.max() / WIDE > finite.min())

    @property
    def limits(self) -> tuple[float, float]:
        """Smallest and largest value of the axis."""
        finite = self.finite
        if not finite.size:
            return 0.0, 1.0
        low, high = float(finite.min()), float(finite.max())
        if high / 2 - low / 2 <= SMALL:
            room = abs(high) / 2 if abs(high) > SMALL else 1.0
            return max(low - room, -1.7e308), min(high + room, 1.7e308)
        return low, high

    def heights(self, values: np.ndarray) -> np.ndarray:
        """Where values are between the limits, from 0 to 1; NaN where they are not finite."""
        low, high = self.limits
        values = np.where(np.isfinite(values), values, np.nan)
        if self.logarithmic:
            low, high, values = math.log10(low), math.log10(high), np.log10(values)
        # Halves, because the largest float minus the smallest would overflow.
        return np.clip((values / 2 - low / 2) / (high / 2 - low / 2), 0.0, 1.0)


@dataclass(frozen=True)
class Last:
    """The last value of a quantity, with its smallest and largest value."""

    name: str
    label: str
    meaning: str
    step: int
    value: float
    least: float
    most: float
    looks: int


def panels(run: Watched) -> list[Panel]:
    """All measured quantities as panels, each beside the edge that it is compared with."""
    found = [
        _panel(run, "Loss", "The loss of the batch, as the loop has it.", loss="loss"),
        _panel(
            run,
            "Sharpness against the edge",
            "Above the edge the optimiser is unstable, in its own measure.",
            sharpness="sharpness",
            edge=_column(run, "threshold"),
        ),
        _panel(
            run,
            "Batch sharpness against the edge",
            "Curvature of a batch along its own gradient; SGD hovers at 2 over the step size.",
            batch_sharpness="batch sharpness",
            edge=_two_over_lr(run),
        ),
        _panel(
            run,
            "Noise scale against the batch",
            "The batch size at which noise and gradient are equally large; a larger batch gains little.",
            noise_scale="noise scale",
            edge=_column(run, "batch"),
        ),
        _panel(
            run,
            "How much longer a step could be",
            "Factor up to which the update could be longer and still lower the batch's loss; below 1 it overshoots.",
            stable_multiple="stable multiple",
            edge=_one(run, "stable_multiple"),
        ),
        _panel(
            run,
            "Step size against the critical one",
            "The step at which the sharpness, or the tangent kernel, is at the edge.",
            critical_lr="critical step",
            kernel_critical_lr="critical step of the kernel",
            edge=_column(run, "lr"),
        ),
        _panel(run, "Step size", "The step size that the optimiser used last.", lr="step size"),
        _panel(
            run,
            "Lengths",
            "Lengths of the gradient, the update and the parameters.",
            gradient_norm="gradient",
            update_norm="update",
            parameter_norm="parameters",
        ),
        _panel(
            run,
            "Lazy or learning",
            "How far the tangent kernel and the features have moved.",
            kernel_drift="kernel",
            agop_change="features",
        ),
        _panel(run, "Dead units", "Share of units without a gradient on the batch.", dead_units="dead units"),
        _panel(run, "Loss scale", "The factor by which mixed precision multiplies the loss.", scaler="loss scale"),
        _panel(run, "Time of looks", "Share of the run's time so far.", share="looks", edge=_budget(run)),
    ]
    shown = [panel for panel in found if panel is not None]
    if any(panel.title.startswith("Step size against") for panel in shown):
        shown = [panel for panel in shown if panel.title != "Step size"]
    return shown


def last_values(run: Watched, at_most: int = 60) -> list[Last]:
    """The last value of every quantity; columns of Secant come first."""
    measured = dict.fromkeys(run.names)
    known = [name for name in COLUMNS if name in measured]
    others = [name for name in measured if name not in COLUMNS]
    found = []
    for name in (known + others)[:at_most]:
        steps, values = run.column(name)
        finite = values[np.isfinite(values)]
        column = COLUMNS.get(name)
        bounds = (float(finite.min()), float(finite.max())) if finite.size else (math.nan, math.nan)
        found.append(
            Last(
                name=name,
                label=column.label if column else name,
                meaning=column.meaning if column else "",
                step=int(steps[-1]),
                value=float(values[-1]),
                least=bounds[0],
                most=bounds[1],
                looks=len(steps),
            )
        )
    return found


def thinned(series: Series, count: int) -> Series:
    """At most `2 * count` points: the smallest and the largest of each stretch of steps, so that no spike is lost."""
    if len(series.steps) <= 2 * count:
        return series
    first, last = series.steps[0], series.steps[-1]
    stretch = np.minimum(((series.steps - first) / max(last - first, 1) * count).astype(int), count - 1)
    starts = np.flatnonzero(np.diff(stretch, prepend=-1))
    kept = []
    for begin, end in zip(starts, [*starts[1:], len(stretch)], strict=True):
        part = series.values[begin:end]
        if np.isfinite(part).any():
            kept += sorted({begin + int(np.nanargmin(_finite(part))), begin + int(np.nanargmax(_finite(part)))})
        else:
            kept.append(begin)
    return Series(series.name, series.steps[kept], series.values[kept], series.edge)


def above_edge(panel: Panel) -> tuple[int, int] | None:
    """The number of looks at which the first quantity was above the edge, and the number of looks with an edge."""
    edge = next((one for one in panel.series if one.edge), None)
    first = panel.series[0]
    if edge is None or first.edge:
        return None
    at = np.searchsorted(edge.steps, first.steps, side="right") - 1
    known = (at >= 0) & np.isfinite(first.values)
    limits = edge.values[np.maximum(at, 0)]
    known &= np.isfinite(limits)
    return int((first.values > limits)[known].sum()), int(known.sum())


def last_step(run: Watched) -> int | None:
    """The last step that has a row; None without rows."""
    return max((row["step"] for row in run.rows), default=None)


def facts(about: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The facts about a run as words, without the plan."""
    names = [*(name for name in TOLD if name in about), *(name for name in about if name not in TOLD)]
    skipped = ("format", "plan")
    kept = [name for name in names if name not in skipped and about[name] is not None][:FACTS]
    told = [(name[:80], _words(about[name])) for name in kept]
    share = budget_of(about)
    return [
        (name, f"{100 * share:.3g} % of the time" if name == "budget" and share is not None else words)
        for name, words in told
    ]


def plan_rows(about: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """The plan as rows of text: look, steps between two looks, seconds of a look, samples; empty without a plan."""
    plan = about.get("plan")
    looks = plan.get("looks") if isinstance(plan, dict) else None
    rows = []
    for name, look in list(looks.items())[:40] if isinstance(looks, dict) else ():
        look = look if isinstance(look, dict) else {"every": look}
        samples = "all" if look.get("samples") is None else _words(look["samples"])
        samples += f" of {_words(look['of'])}" if look.get("of") is not None else ""
        rows.append((name, _words(look.get("every")), _words(look.get("seconds")), samples))
    return rows


def budget_of(about: Mapping[str, Any]) -> float | None:
    """The share of the time that looks may take; None where the record does not tell."""
    plan = about.get("plan")
    found = plan.get("budget") if isinstance(plan, dict) else None
    found = about.get("budget") if found is None else found
    return float(found) if isinstance(found, int | float) and not isinstance(found, bool) and 0 < found < 1 else None


def _panel(run: Watched, title: str, meaning: str, edge: Series | None = None, **columns: str) -> Panel | None:
    series = []
    for name, words in columns.items():
        one = _column(run, name, words)
        if one is not None:
            series.append(one)
    if not series:
        return None
    if edge is not None:
        series.append(Series(edge.name, edge.steps, edge.values, edge=True))
    return Panel(title, meaning, tuple(series))


def _column(run: Watched, name: str, words: str | None = None) -> Series | None:
    steps, values = run.column(name)
    if not steps.size:
        return None
    order = np.argsort(steps, kind="stable")  # a run that was resumed may have gone back
    label = words or {"threshold": "edge", "batch": "samples of the batch", "lr": "step size"}.get(name, name)
    return Series(label, steps[order], values[order])


def _two_over_lr(run: Watched) -> Series | None:
    """The edge of SGD, 2 over the step size; None if the record has another threshold."""
    lr, threshold = _column(run, "lr"), _column(run, "threshold")
    if lr is None:
        return None
    positive = lr.values > 0
    if not positive.any():
        return None
    with np.errstate(all="ignore"):
        edge = Series("2 / step size", lr.steps[positive], 2.0 / lr.values[positive])
    if threshold is not None:
        at = np.clip(np.searchsorted(edge.steps, threshold.steps, side="right") - 1, 0, None)
        with np.errstate(all="ignore"):
            ratio = threshold.values / edge.values[at]
        if not np.all(np.abs(ratio[np.isfinite(ratio)] - 1) < 0.01):
            return None
    return edge


def _one(run: Watched, name: str) -> Series | None:
    found = _column(run, name)
    return None if found is None else Series("edge", found.steps[[0, -1]], np.ones(2))


def _budget(run: Watched) -> Series | None:
    found, budget = _column(run, "share"), budget_of(run.about)
    return None if found is None or budget is None else Series("budget", found.steps[[0, -1]], np.full(2, budget))


def _finite(values: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(values), values, np.nan)


def _words(value: Any, depth: int = 3) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    if isinstance(value, int):
        return f"{value:,}" if abs(value) < 10**15 else f"{float(min(max(value, -(10**300)), 10**300)):.4g}"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict | list) and not depth:
        return "\u2026"
    if isinstance(value, dict):
        named = [_words(value["name"], depth - 1)] if "name" in value else []
        others = [f"{name} {_words(one, depth - 1)}" for name, one in list(value.items())[:20] if name != "name"]
        return ", ".join(named + others)[:400]
    if isinstance(value, list):
        return ", ".join(_words(one, depth - 1) for one in value[:20])[:400]
    return str(value)[:400]


@dataclass(frozen=True)
class Event:
    """An event of a run: its first step, its last, and a text."""

    step: int
    end: int | None
    text: str


def events(run: Watched, last: int = 20_000) -> list[Event]:
    """The spikes of the loss with their causes, and the first loss that is not finite, in the last rows."""
    run = replace(run, rows=[row for row in run.rows if "loss" in row or "sharpness" in row][-last:])
    steps, losses = run.column("loss")
    broken = np.flatnonzero(~np.isfinite(losses))
    found = [Event(int(steps[broken[0]]), None, f"the loss is {losses[broken[0]]:g}")] if broken.size else []
    with contextlib.suppress(Exception), np.errstate(all="ignore"):  # a record that makes no sense has no spikes
        for spike in spikes(run):
            text = "a spike" if spike.cause == "unknown" else f"a spike ({spike.cause})"
            if math.isfinite(spike.height):
                text += f": the loss rose to {spike.height:.3g} times its usual level"
            if math.isfinite(spike.load):
                text += f"; before, the curvature was {spike.load:.3g} times the edge"
            found.append(Event(int(spike.onset), None if spike.end is None else int(spike.end), text))
    return sorted(found, key=lambda event: event.step)
