r"""The regime of a run, from the looks of its last third.

The load $q$ is the curvature over the curvature at which the optimiser becomes unstable. $B$ is the batch size and
$B^*$ the critical batch.

| regime | what is seen |
|---|---|
| diverging | the loss is not finite, or rose and stayed above where it began |
| catapult | a spike beyond the edge, from which the loss is not yet back |
| edge | $q \geq 0.8$, at the edge or beyond it without diverging |
| stochastic edge | plain SGD, $B < B^*$; along the batches' own gradients $\eta s_b/2 \geq 0.8$ within its error |
| noise-dominated | below the edge, and $B < B^*$ |
| lazy | below the edge, the loss has halved and the tangent kernel has moved by less than a tenth |
| step far too small | at the start and at nine looks of ten a step makes less than half of the progress it could |
| stable | below the edge, none of these |

A look sees one batch, not all samples. The largest curvature of a batch is above that of all samples, and the smaller
the batch, the larger the difference. For plain SGD with noisy batches the edge is therefore judged by the curvature of
batches along their own gradients, which settles at $2/\eta$. If every look saw the same samples, there is no batch
noise.

A step of $r$ times the best step along a direction makes $2r - r^2$ of the best progress, to second order. The best
step is half of the edge, so $r = 2q$, and half of the progress is made at $q = \frac12(1 - \sqrt{1/2}) = 0.146$. The
regime is "step far too small" only while the loss falls. A loss that is not known to be squared may lose its curvature
as it is fitted. For such a loss a small load counts only if the loss does not halve between the second and the last
quarter of the record.
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
"""A run is at the edge if its curvature is within this factor of the edge, or beyond the edge."""
HALF_PROGRESS = (1 - math.sqrt(0.5)) / 2
"""The load at which a step makes half of the progress it could."""
LAZY = 0.1
"""A run is lazy while its kernel has moved by less than this share of its length."""
FEWEST = 10
"""With fewer looks a record is too short to call a step too small."""


@dataclass(frozen=True)
class Level:
    """A number with its error, over several looks.

    Attributes:
        value: the median or the mean of the looks; NaN where nothing was measured.
        error: the error of `value`, from the scatter of the looks and the error of each.
        looks: the number of looks.
    """

    value: float
    error: float
    looks: int

    @property
    def known(self) -> bool:
        """Whether there is a finite number."""
        return self.looks > 0 and math.isfinite(self.value)


NOTHING = Level(math.nan, math.nan, 0)


def level(values: np.ndarray, errors: np.ndarray | None = None) -> Level:
    r"""The median $m$ of some looks, with its error.

    The error is $1.2533\cdot1.4826\,\mathrm{median}|x - m|/\sqrt n$, added in quadrature to the median of `errors`.
    """
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
    """The regime of a run, with the numbers behind it.

    Attributes:
        regime: one of `REGIMES`.
        load: the load, over the last third of the looks.
        along: the load along the update, or along the gradient; a mean.
        batch: the number of samples in a batch.
        noise: the critical batch; infinite where looks saw nothing but noise.
        drift: how far the kernel has moved.
        room: the larger of two loads: the one that nine looks of ten stay below, and the load of the largest step size
            at the start.
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
    """The regime of a record, with the numbers behind it.

    Args:
        watched: the record.
        found: its spikes, where they are known already.
        late: whether the curvature of the loss fades by itself, as it does for the cross-entropy late in training. A
            small load then means nothing.
        squared: whether the loss is known to be squared, so that its curvature does not fade. A step can then be too
            small although the loss falls fast.
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
    """Whether the last loss is not finite, or the loss rose, has not come back, and ends above its start."""
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
    """The mean over looks, because batch sharpness is a mean over batches, and its error from their scatter."""
    kept = values[np.isfinite(values)]
    if not len(kept):
        return NOTHING
    return Level(float(kept.mean()), float(kept.std() / math.sqrt(max(len(kept) - 1, 1))), len(kept))


def falls(loss: np.ndarray) -> bool:
    """Whether the last quarter of the losses is below the second, by a rank test that noise passes once in 1,000."""
    quarter = len(loss) // 4
    if quarter < FEWEST or not np.isfinite(loss).all():
        return False
    before, after = loss[quarter : 2 * quarter], loss[-quarter:]
    below = np.searchsorted(np.sort(after), before).sum()  # pairs whose later loss is the smaller one
    spread = math.sqrt(quarter * quarter * (2 * quarter + 1) / 12)
    return bool((below - quarter * quarter / 2) / spread > 3.1)


def _room(watched: Watched) -> float:
    """The load that nine looks of ten stay below, or that of the largest step size at the start if that is larger.

    It is infinite with too few looks. The direction of a momentum step does not measure the edge, because the update
    adds up many gradients.
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
    """How often the loss halved between the second and the last quarter; infinite where the losses do not tell."""
    if len(loss) < 4 * FEWEST or not np.isfinite(loss).all():
        return math.inf
    quarter = len(loss) // 4
    before, after = np.median(loss[quarter : 2 * quarter]), np.median(loss[-quarter:])
    return float(np.log2(before / after)) if before > 0 and after > 0 else math.inf
