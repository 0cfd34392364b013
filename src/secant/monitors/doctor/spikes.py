r"""Spikes of the loss in a record, and what came before each.

A *spike* is a loss far above the losses before it: at least twice as large, and beyond what noise reaches once in a
hundred records. The noise is $e_t$, the logarithm of the loss minus the median logarithm of the losses before it. Its
tails are taken as exponential, $P(e > x) = \frac12e^{-x/b}$, which is heavier than normal. Among $n$ losses the limit
is then $b\log(n/0.02)$. The scale $b$ is the lower quartile of $|e|$ over $\log\frac43$, because a run may spend half
of its time in spikes.

The cause is read from what the record shows before the spike:

* *bad batch*: the loss jumps in one step, by more than the curvature seen before can explain.
* *catapult*: the load was above 1: the curvature was beyond the optimiser's edge, and a direction grew step by step.
* *stale second moment*: a catapult of an optimiser that divides by a second moment. The second moment was falling,
  because it remembered gradients larger than the recent ones, and the division by it took the run over the edge.
* *overflow*: numbers that are not finite while a scaler of mixed precision was falling, or from one step to the next.

A scaler leaves out every step whose gradients are not finite, and lowers the loss scale. Now and then this is how it
finds the largest scale. A run that loses more than half of its steps in this way makes less than half of its progress.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from secant.monitors.doctor.reading import Loads, Rule, loads_of, rule_of
from secant.monitors.records.record import Watched

FACTOR = 2.0
"""A spike is at least this factor above the usual loss."""
FALSE_ALARMS = 0.01
"""Number of spikes that noise alone makes in a record, on average."""
WINDOW = 25
"""The usual loss is the median of this many losses before."""
NO_RETURN = 2.0
"""The load at which a catapult does not come back: a step of four over the curvature, twice the edge."""
FORGETTING = 0.5
"""A second moment is stale if the squared gradients are below this share of it: it falls at half its fastest rate."""

LOST = 0.5
"""A run that loses more than this share of its steps, because numbers are not finite, has an overflow."""

CAUSES = ("catapult", "stale second moment", "bad batch", "overflow", "unknown")


@dataclass(frozen=True)
class Spike:
    """A spike, and what came before it.

    Attributes:
        onset: the last step before the spike.
        peak: the step of the largest loss.
        end: the first step at which the loss is back below twice its usual level; None where the record ends before.
        height: the largest loss over the usual loss; infinite where the loss is not finite.
        cause: one of `CAUSES`.
        load: the load before the spike, curvature over the optimiser's edge; NaN without a look.
        error: the error of the load.
        look: the step of the look that measured the load; -1 without a look.
        harmful: False for a bad batch, or an overflow, whose trace is gone by the time the optimiser's momentum has
            forgotten the spike.
        jump: the loss at the first step of the spike over the usual loss.
        explained: the largest growth of the loss in that step that curvature and noise can explain.
        numbers: other numbers that support the cause, by name.
    """

    onset: int
    peak: int
    end: int | None
    height: float
    cause: str = "unknown"
    load: float = math.nan
    error: float = math.nan
    look: int = -1
    harmful: bool = True
    jump: float = math.nan
    explained: float = math.nan
    numbers: dict[str, float] = field(default_factory=dict)


def spikes(watched: Watched) -> list[Spike]:
    """The spikes of a record, in order, each with its cause.

    Example:
        ```python
        from pathlib import Path
        from secant.monitors import Watched
        from secant.monitors.doctor.spikes import spikes

        rows = [{"step": t, "loss": 0.9**t, "gradient_norm": 0.9**t, "lr": 0.1} for t in range(40)]
        for row in rows[::10]:
            row["sharpness"], row["threshold"] = 8.0, 20.0
        rows[25] |= {"loss": 3.0, "gradient_norm": 9.0}
        run = Watched(Path("run"), {"optimiser": "gd"}, rows, [])
        (found,) = spikes(run)
        print(found.cause, found.onset, found.peak, found.load)
        ```
        ```text
        bad batch 24 25 0.4
        ```
    """
    steps, loss = watched.column("loss")
    if len(loss) < 2:
        return []
    rule, loads = rule_of(watched), loads_of(watched)
    shares = dict(zip(*(part.tolist() for part in watched.column("sharpest_share")), strict=True))
    found: list[Spike] = []
    for low, first, peak, end, usual, limit in _intervals(loss):
        height = loss[peak] / usual if math.isfinite(loss[peak]) else math.inf
        jump = loss[first] / max(usual, loss[first - 1]) if math.isfinite(loss[first]) else math.inf
        spike = Spike(
            int(steps[low]),
            int(steps[peak]),
            None if end is None else int(steps[end]),
            float(height),
            jump=float(jump),
        )
        explained = _explained(watched, rule, loads, spike, int(steps[first]), limit)
        share = shares.get(explained.look, math.nan)
        if math.isfinite(share):
            explained.numbers["sharpest_share"] = share
        _join(found, explained, rule)
    return found


def _join(found: list[Spike], spike: Spike, rule: Rule) -> None:
    """Adds a spike. If it has no cause and begins while momentum still carries a bad batch, it joins that spike."""
    last = found[-1] if found else None
    if (
        last is None
        or last.end is None
        or last.cause != "bad batch"
        or spike.cause != "unknown"
        or spike.onset - last.end > 1 / (1 - rule.beta)
    ):
        found.append(spike)
    else:
        higher = max(last, spike, key=lambda one: one.height)
        found[-1] = replace(last, peak=higher.peak, height=higher.height, end=spike.end, harmful=True)


def limits(loss: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The logarithm of the usual loss before each loss, `(n,)`, and by how much a loss may exceed it, `(n,)`."""
    y = np.log(np.maximum(np.where(np.isnan(loss), np.inf, loss), np.finfo(float).tiny))
    usual = np.array([np.median(y[max(0, t - WINDOW) : t]) if t else y[0] for t in range(min(WINDOW, len(y)))])
    usual = np.concatenate([usual, *(np.median(part, axis=1) for part in _before(y, WINDOW))])
    with np.errstate(invalid="ignore"):
        rest = y - usual
    sound = np.isfinite(rest)
    sound[:WINDOW] = False  # a median of fewer losses follows the trend, not the noise
    if sound.sum() < WINDOW:
        return usual, np.full(len(y), max(_short(y, len(y)), math.log(FACTOR)))
    centred = np.abs(np.where(sound, rest, 0.0) - np.median(rest[sound]))
    whole = np.quantile(centred[sound], 0.25)
    scale = np.full(len(y), whole)
    near = [_quartiles(part) for part in _before(np.where(sound, centred, np.inf), 4 * WINDOW)]
    if near:  # noise may grow along a run
        late = np.concatenate(near)
        scale[4 * WINDOW :] = np.maximum(whole, np.where(np.isfinite(late), late, whole))
    return usual, np.maximum(_tail(scale, len(y)), math.log(FACTOR))


def _before(y: np.ndarray, width: int) -> list[np.ndarray]:
    """The `width` numbers before each place, `(places, width)`, for some thousand places at a time."""
    if len(y) <= width:
        return []
    every = np.lib.stride_tricks.sliding_window_view(y[:-1], width)
    return np.array_split(every, -(-len(every) // 4096))


def _quartiles(rows: np.ndarray) -> np.ndarray:
    """The lower quartile of the finite numbers of each row; not finite where a row has none."""
    ordered, many = np.sort(rows, axis=1), np.isfinite(rows).sum(1)
    place = 0.25 * np.maximum(many - 1, 0)
    low = place.astype(int)
    at = np.arange(len(rows))
    below, above = ordered[at, low], ordered[at, np.minimum(low + 1, np.maximum(many - 1, 0))]
    with np.errstate(invalid="ignore"):
        return below + (above - below) * (place - low)


def _tail(quartile: Any, n: int) -> Any:
    """The limit that exponential noise with this lower quartile exceeds in one of a hundred records of `n` losses."""
    return quartile / math.log(4 / 3) * math.log(n / (2 * FALSE_ALARMS))


def _short(y: np.ndarray, n: int) -> float:
    r"""The limit of a short record, from second differences: no trend changes them, noise enters $\sqrt6$-fold."""
    bends = np.diff(y[np.isfinite(y)], 2)
    return float(_tail(np.quantile(np.abs(bends), 0.25) / math.sqrt(6), n)) if len(bends) >= 8 else 0.0


def _intervals(loss: np.ndarray) -> list[tuple[int, int, int, int | None, float, float]]:
    """`(onset, first, peak, end, usual, limit)` of every spike; the first four are places in the list of losses."""
    usual, limit = limits(loss)
    finite = np.isfinite(loss)
    # A loss below single-precision rounding of the first loss is noise of arithmetic.
    floor = float(np.finfo(np.float32).eps) * float(loss[finite][0] if finite.any() else 0.0)
    y = np.log(np.maximum(np.where(finite, loss, np.inf), max(floor, np.finfo(float).tiny)))
    usual = np.maximum(usual, math.log(max(floor, np.finfo(float).tiny)))
    found: list[tuple[int, int, int, int | None, float, float]] = []
    t = 1
    while t < len(y):
        if not y[t] > usual[t] + limit[t]:
            t += 1
            continue
        base, rise = usual[t], limit[t]
        low = t - 1
        while low > 0 and y[low] > base and (not found or low > (found[-1][3] or 0)):
            low -= 1
        back = np.flatnonzero(y[t:] <= base + math.log(FACTOR))
        end = t + int(back[0]) if back.size else None
        peak = t + int(np.argmax(y[t:end]))
        found.append((low, t, peak, end, float(np.exp(base)), float(rise)))
        if end is None:
            break
        t = end + 1
    return found


def _explained(watched: Watched, rule: Rule, loads: Loads, spike: Spike, first: int, limit: float) -> Spike:
    """The spike with its cause."""
    load, error, look = _load_before(watched, loads, spike, first)
    known = math.isfinite(load)
    explained = math.exp(min(limit, 700.0)) * max(rule.growth(load + error) if known else 1.0, 1.0)
    over = known and load + error >= 1
    sudden = spike.jump > explained and not (known and load >= NO_RETURN)
    numbers: dict[str, float] = {}
    if not math.isfinite(spike.height):
        fallen = _scaler(watched, spike)
        if fallen > 1:
            numbers["scaler_fell"] = fallen
    if "scaler_fell" in numbers and not over:
        cause = "overflow"
    elif sudden:
        numbers["gradient_jump"] = _gradient_jump(watched, first)
        cause = "overflow" if not math.isfinite(spike.jump) else "bad batch"
        numbers |= {"scaler": scale} if cause == "overflow" and (scale := _scale_at(watched, first)) > 0 else {}
    elif over:
        stale = staleness(watched, rule, spike.onset)
        cause = "catapult"
        if math.isfinite(stale):
            numbers["second_moment"] = stale
            if 1 / stale**2 < FORGETTING:
                cause = "stale second moment"
    else:
        cause = "unknown"
    lasted = math.inf if spike.end is None else spike.end - first
    harmful = cause not in ("bad batch", "overflow") or lasted > max(2.0, 1 / (1 - rule.beta))
    return replace(
        spike,
        cause=cause,
        load=load,
        error=error,
        look=look,
        harmful=harmful,
        explained=explained,
        numbers=numbers,
    )


def _load_before(watched: Watched, loads: Loads, spike: Spike, first: int) -> tuple[float, float, int]:
    """The largest load of the looks before a spike, at the step sizes of the spike; with its error and its step.

    Looks during the rise count as well, because they see the direction that grows. The look at the first step of a
    jump does not count, because it sees the batch that made the jump.
    """
    before = loads.steps < first
    if not before.any():
        return math.nan, math.nan, -1
    apart = int(np.median(np.diff(loads.steps))) if len(loads.steps) > 1 else 1
    last = int(loads.steps[before][-1])
    near = before & (loads.steps >= min(last, spike.onset - apart))
    scale = np.ones(len(loads.steps))
    steps, lr = watched.column("lr")
    inside = lr[(steps >= spike.onset) & (steps <= max(first, spike.onset))]
    if len(inside) and np.nanmax(inside) > 0:
        usable = loads.lr > 0
        scale[usable] = np.nanmax(inside) / loads.lr[usable]
    values = np.where(near, loads.values * scale, -np.inf)
    best = int(np.argmax(values))
    return float(values[best]), float(loads.errors[best] * scale[best]), int(loads.steps[best])


def staleness(watched: Watched, rule: Rule, step: int) -> float:
    r"""How much larger the gradients are that the second moment remembers than the recent ones, $\sqrt{\hat\nu}/|g|$.

    $\hat\nu$ is the optimiser's own average of $|g|^2$ before the step, with the corrections of its start. $|g|$ is the
    median length over the last tenth of its memory $1/(1 - \beta_2)$. NaN without a second moment or gradients.
    """
    steps, norms = watched.column("gradient_norm")
    keep = (steps <= step) & np.isfinite(norms)
    steps, norms = steps[keep], norms[keep]
    if rule.b2 is None or len(norms) < 3:
        return math.nan
    age = (step - steps).astype(float)
    weight = rule.b2**age * np.diff(steps, prepend=steps[0] - 1)
    remembered = math.sqrt(float(weight @ norms**2 / weight.sum()))
    late = norms[age <= max(0.1 / (1 - rule.b2), age[-3])]
    now = float(np.median(late))
    return remembered / now if now > 0 else math.inf


def _gradient_jump(watched: Watched, first: int) -> float:
    """The length of the gradient at the first step of a spike over the median length before."""
    steps, norms = watched.column("gradient_norm")
    at = np.flatnonzero(steps == first)
    before = norms[(steps < first) & np.isfinite(norms)][-WINDOW:]
    return float(norms[at[0]] / np.median(before)) if len(at) and len(before) and np.median(before) > 0 else math.nan


def lost_steps(watched: Watched) -> float:
    """The share of the last third of the steps that a scaler of mixed precision left out; 0 without a scaler.

    A step is lost if its loss is not finite, or if the loss scale falls after it. Where rows are several steps apart,
    every halving between two rows counts as one lost step.
    """
    steps, scale = watched.column("scaler")
    if len(steps) < 2:
        return 0.0
    losses = dict(zip(*(part.tolist() for part in watched.column("loss")), strict=True))
    gaps = np.diff(steps)
    with np.errstate(divide="ignore", invalid="ignore"):
        halvings = np.ceil(np.log2(scale[:-1] / scale[1:]) - 1e-9)
    fallen = np.clip(np.nan_to_num(halvings, nan=1.0, posinf=1.0, neginf=0.0), 0, gaps)
    broken = [not math.isfinite(losses.get(step, 0.0)) for step in steps[:-1].tolist()]
    late = steps[:-1] >= (steps[0] + 2 * steps[-1]) / 3
    lost = np.where(broken, gaps, fallen)
    return float(lost[late].sum() / gaps[late].sum()) if late.any() else 0.0


def _scale_at(watched: Watched, step: int) -> float:
    """The loss scale just before a step; 0 where none is recorded."""
    steps, scale = watched.column("scaler")
    before = scale[steps < step]
    return float(before[-1]) if len(before) else 0.0


def _scaler(watched: Watched, spike: Spike) -> float:
    """The factor by which the loss scale fell before the peak of a spike; 1 where it did not fall."""
    steps, scale = watched.column("scaler")
    scale = scale[(steps <= spike.peak) & (scale > 0)]
    return float(scale.max() / scale[-1]) if len(scale) else 1.0
