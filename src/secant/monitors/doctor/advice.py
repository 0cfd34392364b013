r"""What a record advises: the largest safe step, with its error, and the batch size against the critical batch.

Along a direction of curvature $\lambda$ that varies from batch to batch, with relative variance $\kappa$, heavy-ball
momentum $\theta' = \theta - \eta m'$, $m' = \beta m + g$, keeps the mean square bounded while

$$\eta\lambda < \frac{2(1 - \beta^2)}{(1 + \beta)\kappa + (1 - \beta)},$$

The right side is $2(1 + \beta)$ without noise and $2/(1 + \kappa)$ without momentum. Noise therefore takes little from
plain SGD, but it can take from momentum everything that momentum gains. Below this edge noise multiplies the mean
square by $1/(1 - m)$ with $m = \frac{(1 + \beta)\kappa\,\eta\lambda}{(1 - \beta)(2(1 + \beta) - \eta\lambda)}$, so
noise has the share $m$ of the mean square. With momentum a safe step keeps this share at one third or less, which is
the same edge with $3\kappa$ in place of $\kappa$.

For the sharpest direction $v$, $\kappa = E|H_bv|^2/\lambda^2 - 1$. The scatter of the sharpness from look to look is a
lower bound. Where the gradient points along $v$, as it often does at the start, an upper bound is the relative variance
of the batch's gradient: the critical batch over the batch.

Beyond the edge plain gradient descent does not diverge at once. Up to $4/\lambda$ its curvature falls and the loss
comes back: the catapult. The safe step uses this room as far as the loss at most doubles in one step,
$(\eta\lambda - 1)^2 = 2$, which is 1.21 times the edge. With momentum or a second moment the safe step is the edge.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from secant.monitors.doctor.reading import loads_of, looks_of, rule_of, spread_of
from secant.monitors.records.record import Watched

DOUBLING = (1 + math.sqrt(2)) / 2
"""The load at which gradient descent on a quadratic doubles the loss in one step."""
NOISE = 1 / 3
"""Share of the mean square along the sharpest direction that may be noise."""
ALIGNED = 0.5
"""A gradient points along the sharpest direction if its curvature is at least this share of the largest one."""
LATEST = 5
"""Number of last looks that describe the run now."""


@dataclass(frozen=True)
class SafeStep:
    r"""The largest step size at which a run does not diverge, according to its record.

    Attributes:
        lr: the step size; NaN where the record does not tell.
        error: the error of `lr`.
        edge: the largest step size at which nothing grows; with momentum, at which noise is at most a third of the
            mean square.
        bare: the edge without noise.
        scatter: $\kappa$, the relative variance of the curvature from batch to batch.
        looks: the number of looks behind `lr`.
        whole: whether the looks measured the sharpest direction, rather than gradient or update only.
    """

    lr: float
    error: float
    edge: float
    bare: float
    scatter: float
    looks: int
    whole: bool

    @property
    def known(self) -> bool:
        """Whether the record gives a safe step."""
        return math.isfinite(self.lr)


def safe_step(watched: Watched, at: str = "now", *, fading: bool = False) -> SafeStep:
    """The largest safe step size, with its error.

    Args:
        watched: the record.
        at: `now` takes the last looks. `start` takes the first looks, for the same run started again.
        fading: whether the curvature of the loss fades as samples are fitted. A small curvature now may then be large
            for the next sample, so the sharpest of all looks counts.

    Example:
        ```python
        from pathlib import Path
        from secant.monitors import Watched
        from secant.monitors.doctor.advice import safe_step

        rows = [{"step": t, "lr": 0.1, "sharpness": 16.0, "sharpness_error": 0.1, "threshold": 20.0} for t in range(9)]
        found = safe_step(Watched(Path("run"), {"optimiser": "sgd"}, rows, []))
        print(f"{found.edge:.3f} {found.lr:.3f} {found.error:.3f}")
        ```
        ```text
        0.125 0.151 0.001
        ```
    """
    if at not in ("now", "start"):
        raise ValueError(f"safe_step: `at` must be 'now' or 'start', got {at!r}.")
    rule, loads = rule_of(watched), loads_of(watched)
    usable = (loads.values > 0) & (loads.lr > 0)
    values, errors, lr, steps = (part[usable] for part in (loads.values, loads.errors, loads.lr, loads.steps))
    scatter = max(spread_of(values / lr), _noise_along_top(watched))
    if at == "now" and fading and len(values):
        chosen = slice((sharpest := int(np.argmax(values / lr))), sharpest + 1)
    elif at == "now":
        chosen = slice(-LATEST, None)
    elif rule.plain:  # its curvature moves slowly, so several batches can be taken together
        chosen = slice(0, LATEST)
    elif rule.b2 is None:
        chosen = slice(0, 1)
    else:  # an average of squares is next to nothing in the first steps, and it divides them
        begin = int(np.searchsorted(steps, 1 / (1 - rule.beta)))
        chosen = slice(begin, begin + LATEST)
    critical, share = lr[chosen] / values[chosen], errors[chosen] / values[chosen]
    if not len(critical):
        return SafeStep(math.nan, math.nan, math.nan, math.nan, math.nan, 0, False)
    bare = float(np.median(critical))
    if at == "start" and rule.plain:  # the first look alone, if it is sharper than scatter explains: curvature fell
        bare = min(bare, float(critical[0]) * (1 + math.sqrt(scatter)))
    edge = bare * noisy_share(rule.beta, scatter if rule.plain else scatter / NOISE)
    step = edge * (DOUBLING if rule.plain else 1.0)
    relative = math.hypot(float(np.median(share)), math.sqrt(scatter / len(critical)))
    return SafeStep(step, step * relative, edge, bare, scatter, len(critical), bool(loads.whole.any()))


def _noise_along_top(watched: Watched) -> float:
    """The smallest upper bound on the scatter that gradients along the sharpest direction give; 0 without any.

    The noise of a look is at least the noise along the sharpest direction, so each such look gives an upper bound.
    """
    bounds = [0.0]
    for row in looks_of(watched):
        if row.get("sharpness", 0) > 0 and row.get("batch", 0) > 0 and row.get("noise_scale", 0) > 0:
            along = row.get("batch_sharpness", 0) / row["sharpness"]
            if along >= ALIGNED and math.isfinite(row["noise_scale"]):
                bounds.append(row["noise_scale"] / row["batch"] / min(along, 1.0))
    return min(bounds[1:], default=0.0)


def noisy_share(beta: float, scatter: float) -> float:
    r"""The share of the edge that noise leaves, $(1 - \beta)/((1 + \beta)\kappa + (1 - \beta))$."""
    return (1 - beta) / ((1 + beta) * scatter + 1 - beta)


def gain(batch: float, critical: float) -> float:
    r"""The share of a step's progress that batch noise leaves, $B/(B + B^*)$ with the critical batch $B^*$."""
    return batch / (batch + critical) if batch + critical > 0 else math.nan
