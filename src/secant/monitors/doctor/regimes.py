r"""In which regime a run is, from the looks of its last third.

With the load $q$, the curvature over that at which the optimiser is unstable, and the batch $B$ against the critical
one $B^*$:

| regime | what is seen |
|---|---|
| diverging | the loss is not finite, or rose and stayed above where it began |
| catapult | a spike over the edge that is not yet back |
| edge | $q \geq 0.8$, at the edge or beyond it without diverging |
| stochastic edge | plain SGD, $B < B^*$: batches along their own gradients, $\eta s_b/2 \geq 0.8$ within its error |
| noise-dominated | below the edge, and $B < B^*$ |
| lazy | below the edge, the loss has halved and the tangent kernel has moved by less than a tenth |
| step far too small | at the start and at nine looks of ten a step makes less than half of the progress it could |
| stable | below the edge, none of these |

Looks see a batch and not all samples. Its largest curvature is above that of all of them, the more the smaller it is,
so that for plain SGD whose batches are noisy the edge is judged by the curvature along their own gradients, which is
what settles at $2/\eta$ there. Where every look saw the same samples there is no noise of batches.

A step of $r$ times the best along a direction makes $2r - r^2$ of the best progress, to second order; the best is half
of the edge, so $r = 2q$, and half of the progress is made at $q = \frac12(1 - \sqrt{1/2}) = 0.146$. That is said only
while the loss falls. A loss that is not known to be squared may lose its curvature as it is fitted: there a small load
counts only if the loss does not halve between the second and the last quarter of the record.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from secant.monitors.doctor.advice import safe_step
from secant.monitors.doctor.reading import along_of, loads_of, rule_of
from secant.monitors.doctor.spikes import Spike, spikes
from secant.monitors.records.record import Watched

REGIMES = (
    "stable",
    "edge",
    "stochastic edge",
    "noise-dominated",
    "lazy",
    "catapult",
    "diverging",
    "step far too small",
    "unknown",
)
NEAR = 1.25
"""At the edge is what is within this factor of it, or beyond."""
HALF_PROGRESS = (1 - math.sqrt(0.5)) / 2
"""The load at which a step makes half of the progress it could."""
LAZY = 0.1
"""How far, over its length, a kernel may have moved that counts as standing still."""
FEWEST = 10
"""Looks below which a record is too short to call a step too small."""


@dataclass(frozen=True)
class Level:
    """A number with its error, over some looks.

    Attributes:
        value: their median, or mean; NaN where nothing was measured.
        error: of it, from the scatter of the looks and the error of each.
        looks: how many.
    """

    value: float
    error: float
    looks: int

    @property
    def known(self) -> bool:
        """Whether there is one."""
        return self.looks > 0 and math.isfinite(self.value)


NOTHING = Level(math.nan, math.nan, 0)


def level(values: np.ndarray, errors: np.ndarray | None = None) -> Level:
    r"""The median of some looks, and its error $1.2533\cdot1.4826\,\mathrm{median}|x - m|/\sqrt n$ beside theirs."""
    good = np.isfinite(values)
    if not good.any():
        return NOTHING
    kept = values[good]
    middle = float(np.median(kept))
    scatter = 1.2533 * 1.4826 * float(np.median(np.abs(kept - middle))) / math.sqrt(len(kept))
    own = 0.0 if errors is None else float(np.median(errors[good]))
    return Level(middle, math.hypot(scatter, own), len(kept))


@dataclass(frozen=True)
class State:
    """Where a run is.

    Attributes:
        regime: one of `REGIMES`.
        load: curvature over the edge, over the last third of the looks.
        along: the same along the update, or the gradient; a mean.
        batch: samples of a batch.
        noise: the critical batch; infinite where noise was all that looks saw.
        drift: how far the kernel has moved.
        room: the load that nine looks of ten stay below, and that of the largest step size at the start.
        halvings: how often the loss halved between the second and the last quarter of the record.
        whole: whether the load is that of the sharpest direction.
    """

    regime: str
    load: Level
    along: Level
    batch: Level
    noise: Level
    drift: Level
    room: float
    halvings: float
    whole: bool


def state_of(watched: Watched, found: list[Spike] | None = None, *, late: bool = False, squared: bool = False) -> State:
    """The regime of a record, with the numbers that say so.

    Args:
        watched: the record.
        found: its spikes, where they are known already.
        late: whether the curvature of the loss fades by itself, as that of the cross-entropy does late in training:
            nothing is then concluded from a small load.
        squared: whether the loss is known to be a squared one, whose curvature does not fade: a step can then be called
            too small while the loss falls.
    """
    found = spikes(watched) if found is None else found
    loads, (when, values) = loads_of(watched), along_of(watched)
    steps, loss = watched.column("loss")
    since = (float(steps[0]) + 2 * float(steps[-1])) / 3 if len(steps) else 0.0
    now = loads.steps >= since
    load = level(loads.values[now], loads.errors[now])
    along = _mean(values[when >= since])
    batch, drift = (_late(watched, name, since) for name in ("batch", "kernel_drift"))
    noise = _noise(watched, since)
    room, halvings = _room(watched), _halvings(loss)
    whole = bool(loads.whole[now].all()) if now.any() else False
    noisy = batch.known and noise.looks > 0 and batch.value < noise.value
    stochastic = noisy and along.known and rule_of(watched).plain
    last = found[-1] if found else None
    if diverged(watched, found):
        regime = "diverging"
    elif last is not None and last.end is None and last.load >= 1:
        regime = "catapult"
    elif not load.known and not along.known:
        regime = "unknown"
    elif along.value + along.error >= 1 / NEAR if stochastic else load.known and load.value >= 1 / NEAR:
        regime = "stochastic edge" if stochastic else "edge"
    elif not late and room < HALF_PROGRESS and (halvings < 1 or squared) and falls(loss):
        regime = "step far too small"
    elif drift.known and drift.value < LAZY and len(loss) and loss[-1] < loss[0] / 2:
        regime = "lazy"
    else:
        regime = "noise-dominated" if noisy else "stable"
    return State(regime, load, along, batch, noise, drift, room, halvings, whole)


def diverged(watched: Watched, found: list[Spike]) -> bool:
    """Whether the loss ends where it is not finite, or after a rise from which it is not back, above where it began."""
    _, loss = watched.column("loss")
    if not len(loss):
        return False
    if not math.isfinite(loss[-1]):
        return True
    ends = np.median(loss[-5:])
    return bool(found and found[-1].end is None and not ends < np.median(loss[: min(5, found[0].onset + 1)]))


def _late(watched: Watched, name: str, since: float) -> Level:
    steps, values = watched.column(name)
    return level(values[steps >= since])


def _noise(watched: Watched, since: float) -> Level:
    """The critical batch; infinite where half of the looks saw no gradient behind the noise."""
    steps, values = watched.column("noise_scale")
    late = values[(steps >= since) & ~np.isnan(values)]
    if len(late) and np.isinf(np.median(late)):
        return Level(math.inf, math.inf, len(late))
    return level(late)


def _mean(values: np.ndarray) -> Level:
    """The mean over looks, as batch sharpness is one over batches, and its error from their scatter."""
    kept = values[np.isfinite(values)]
    if not len(kept):
        return NOTHING
    return Level(float(kept.mean()), float(kept.std() / math.sqrt(max(len(kept) - 1, 1))), len(kept))


def falls(loss: np.ndarray) -> bool:
    """Whether the last quarter of the losses is below the second, by a rank test: noise passes once in a thousand."""
    quarter = len(loss) // 4
    if quarter < FEWEST or not np.isfinite(loss).all():
        return False
    before, after = loss[quarter : 2 * quarter], loss[-quarter:]
    below = np.searchsorted(np.sort(after), before).sum()  # pairs of which the later one is the smaller
    spread = math.sqrt(quarter * quarter * (2 * quarter + 1) / 12)
    return bool((below - quarter * quarter / 2) / spread > 3.1)


def _room(watched: Watched) -> float:
    """The load that nine looks of ten stay below, and that of the largest step size at the start; infinite without.

    A direction that momentum steps along is no measure of its edge: its updates add up many gradients.
    """
    loads, (when, values) = loads_of(watched), along_of(watched)
    rule = rule_of(watched)
    if rule.beta > 0 and rule.b2 is None and loads.whole.any():
        when, values = when[:0], values[:0]
    largest = dict(zip(loads.steps.tolist(), loads.values + loads.errors, strict=True))
    for step, value in zip(when.tolist(), values, strict=True):
        largest[step] = max(largest.get(step, 0.0), value)
    if len(largest) < FEWEST:
        return math.inf
    first, (_, lr) = safe_step(watched, "start"), watched.column("lr")
    begun = float(np.nanmax(lr)) / first.bare if first.known and len(lr) else 0.0
    return max(float(np.quantile(list(largest.values()), 0.9)), begun)


def _halvings(loss: np.ndarray) -> float:
    """How often the loss halved between the second and the last quarter; infinite where that cannot be said."""
    if len(loss) < 4 * FEWEST or not np.isfinite(loss).all():
        return math.inf
    quarter = len(loss) // 4
    before, after = np.median(loss[quarter : 2 * quarter]), np.median(loss[-quarter:])
    return float(np.log2(before / after)) if before > 0 and after > 0 else math.inf
