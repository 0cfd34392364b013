r"""What a record advises: the largest safe step, with its error, and the batch against the critical one.

Along a direction of curvature $\lambda$ that varies from batch to batch, with relative variance $\kappa$, heavy-ball
momentum $\theta' = \theta - \eta m'$, $m' = \beta m + g$, keeps the mean square bounded while

$$\eta\lambda < \frac{2(1 - \beta^2)}{(1 + \beta)\kappa + (1 - \beta)},$$

which is $2(1 + \beta)$ without noise and $2/(1 + \kappa)$ without momentum: noise takes little from plain SGD, and from
momentum as much as it has to give. Short of that the mean square is $1/(1 - m)$ times what it would be without noise,
$m = \frac{(1 + \beta)\kappa\,\eta\lambda}{(1 - \beta)(2(1 + \beta) - \eta\lambda)}$, noise has the share $m$.
With momentum a safe step leaves noise a third at most, which is the same border with $3\kappa$ in place of $\kappa$.

$\kappa = E|H_bv|^2/\lambda^2 - 1$ for the sharpest direction $v$. Where the gradient points along it, as it often does
at the start, that is at most the relative variance of the batch's gradient, critical batch over batch; and it is at
least what the sharpness scatters from look to look.

Beyond that edge plain gradient descent does not diverge at once: its curvature falls and the loss comes back, up to
$4/\lambda$, the catapult. Of that room a step takes as much as lets the loss at most double a step,
$(\eta\lambda - 1)^2 = 2$, 1.21 times the edge. With momentum or a second moment nothing is taken beyond the edge.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from secant.monitors.doctor.reading import loads_of, looks_of, rule_of, spread_of
from secant.monitors.records.record import Watched

DOUBLING = (1 + math.sqrt(2)) / 2
"""The load at which gradient descent on a quadratic doubles the loss in a step."""
NOISE = 1 / 3
"""Of the mean square along the sharpest direction, the share that may be noise."""
ALIGNED = 0.5
"""Of the largest curvature, what a gradient must meet that is said to point along the sharpest direction."""
LATEST = 5
"""Looks that say what is so now."""


@dataclass(frozen=True)
class SafeStep:
    r"""The largest step size from which a run does not diverge, as its record has it.

    Attributes:
        lr: the step size; NaN where the record does not say.
        error: of it.
        edge: the largest at which nothing grows; with momentum, at which at most a third of what is there is noise.
        bare: the same, were there no noise.
        scatter: $\kappa$, the relative variance of the curvature from batch to batch.
        looks: how many it rests on.
        whole: whether it is by the sharpest direction, rather than along gradient or update only.
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
        """Whether there is one."""
        return math.isfinite(self.lr)


def safe_step(watched: Watched, at: str = "now", *, fading: bool = False) -> SafeStep:
    """The largest safe step size.

    Args:
        watched: the record.
        at: `now`, by the last looks, or `start`, by the first: for the same run begun again.
        fading: whether the curvature of the loss fades as it is fitted, so that what is small now may be large for the
            next sample: then the sharpest of all looks counts.

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
    elif rule.plain:  # whose curvature moves little by little, so that several batches can be taken together
        chosen = slice(0, LATEST)
    elif rule.b2 is None:
        chosen = slice(0, 1)
    else:  # the first steps of an average of squares are divided by next to nothing
        begin = int(np.searchsorted(steps, 1 / (1 - rule.beta)))
        chosen = slice(begin, begin + LATEST)
    critical, share = lr[chosen] / values[chosen], errors[chosen] / values[chosen]
    if not len(critical):
        return SafeStep(math.nan, math.nan, math.nan, math.nan, math.nan, 0, False)
    bare = float(np.median(critical))
    if at == "start" and rule.plain:  # unless the first was sharper than batches scatter: a curvature that fell at once
        bare = min(bare, float(critical[0]) * (1 + math.sqrt(scatter)))
    edge = bare * noisy_share(rule.beta, scatter if rule.plain else scatter / NOISE)
    step = edge * (DOUBLING if rule.plain else 1.0)
    relative = math.hypot(float(np.median(share)), math.sqrt(scatter / len(critical)))
    return SafeStep(step, step * relative, edge, bare, scatter, len(critical), bool(loads.whole.any()))


def _noise_along_top(watched: Watched) -> float:
    """The smallest bound on the scatter by the noise of gradients that point along the sharpest direction, or 0.

    The noise of a look is at least that part which comes from the sharpest direction: each look bounds it from above.
    """
    bounds = [0.0]
    for row in looks_of(watched):
        if row.get("sharpness", 0) > 0 and row.get("batch", 0) > 0 and row.get("noise_scale", 0) > 0:
            along = row.get("batch_sharpness", 0) / row["sharpness"]
            if along >= ALIGNED and math.isfinite(row["noise_scale"]):
                bounds.append(row["noise_scale"] / row["batch"] / min(along, 1.0))
    return min(bounds[1:], default=0.0)


def noisy_share(beta: float, scatter: float) -> float:
    r"""What noise leaves of the edge, $(1 - \beta)/((1 + \beta)\kappa + (1 - \beta))$."""
    return (1 - beta) / ((1 + beta) * scatter + 1 - beta)


def gain(batch: float, critical: float) -> float:
    """What of a step's progress is left by the noise of a batch, one over one and the critical batch over this one."""
    return batch / (batch + critical) if batch + critical > 0 else math.nan
