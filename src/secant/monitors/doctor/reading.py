r"""A record as a diagnosis reads it: what is known of the optimiser, and how near the edge each look found the run.

The *load* of a look is its curvature divided by the curvature at which the optimiser becomes unstable. A load of 1 is
the edge. Few records have all columns, so the load comes from the best column that is there: the sharpness over the
optimiser's own threshold, or else the curvature along the update or the gradient, which is at most as large.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from secant.monitors.records.record import Watched

ADAPTIVE = ("adam", "rmsprop", "adagrad", "adadelta", "yogi", "amsgrad", "lamb")
"""Parts of the names of optimisers that divide by a second moment."""
SIGNED = ("lion", "sign", "muon")
"""Parts of the names of optimisers whose steps do not depend on the length of the gradient."""


@dataclass(frozen=True)
class Rule:
    """What a record says about the optimiser.

    Attributes:
        name: the name in the record, in small letters; empty where the record has none.
        beta: decay of the momentum; 0 without momentum, and where the record has no number.
        b2: decay of the second moment; None without a second moment.
        known: whether the name is that of a known optimiser.
    """

    name: str
    beta: float
    b2: float | None
    known: bool

    @property
    def plain(self) -> bool:
        """Whether the optimiser is gradient descent without momentum, whose edge is at 2/eta for every batch."""
        return self.known and self.beta == 0 and self.b2 is None and not any(word in self.name for word in SIGNED)

    def growth(self, load: float) -> float:
        r"""The factor by which the loss grows in one step along a direction of this load, on a quadratic.

        The factor is the square of the larger root of $z^2 - (1 + \beta - \eta\lambda)z + \beta$, where $\eta\lambda$
        is $2(1 + \beta)$ times the load: $(\eta\lambda - 1)^2$ without momentum, and 1 at the edge.
        """
        middle = abs(1 + self.beta - 2 * (1 + self.beta) * load)
        inside = middle**2 - 4 * self.beta
        root = (middle + math.sqrt(inside)) / 2 if inside > 0 else math.sqrt(self.beta)
        return root**2


def rule_of(watched: Watched) -> Rule:
    """The optimiser of a record, read from `about.json`: a name, or a mapping with `name` and its settings."""
    said = watched.about.get("optimiser") or ""
    facts: dict[str, Any] = dict(said) if isinstance(said, dict) else {"name": said}
    settings = facts.get("settings")
    facts |= settings if isinstance(settings, dict) else {}
    name = str(facts.get("name") or "").lower()
    betas = facts.get("betas")
    first, second = betas if isinstance(betas, list | tuple) and len(betas) == 2 else (None, None)
    adaptive = any(word in name for word in ADAPTIVE)
    told = {"lr", "schedule", "b2"} & set(facts)  # a record with settings leaves out those that are zero
    usual = 0.9 if not told and any(word in name for word in ("adam", "momentum", "nesterov", "lamb")) else 0.0
    beta = _share(facts.get("beta", facts.get("momentum", facts.get("b1", facts.get("beta1", first)))), usual)
    b2 = _share(facts.get("b2", facts.get("beta2", facts.get("decay", facts.get("alpha", second)))), 0.999)
    plain = any(word in name for word in ("gd", "sgd", "momentum", "nesterov", "gradient"))
    known = bool(name) and (adaptive or plain or any(word in name for word in SIGNED))
    return Rule(name, beta, b2 if adaptive else None, known)


def _share(value: Any, usual: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
        return usual
    return float(value)


class Loads(NamedTuple):
    """The load of every look: how near the edge the run was; each array is `(looks,)`.

    Attributes:
        steps: the steps of the looks.
        values: the loads; 1 at the edge.
        errors: the errors of the loads; 0 for a load along gradient or update.
        lr: the step size at the look; NaN where it is not recorded.
        whole: whether the look measured the sharpest direction, rather than gradient or update only.
    """

    steps: np.ndarray
    values: np.ndarray
    errors: np.ndarray
    lr: np.ndarray
    whole: np.ndarray


POSITIVE = ("lr", "batch", "noise_scale", "threshold", "update_norm", "gradient_norm")
"""Columns that mean nothing unless they are above zero."""

LARGEST = 1e100
"""A loss beyond this has overflown, whatever its type. Other numbers beyond it, or below its inverse, are dropped."""


def one_batch(watched: Watched) -> bool:
    """Whether every look saw the same samples: two halves of them still differ, but the steps have no batch noise."""
    return watched.about.get("same_batch") is True


def sound(watched: Watched) -> Watched:
    """The record without numbers that make no sense for their column; a loss beyond bounds becomes infinite.

    A critical batch may be infinite: the look then saw noise alone. A run on the same samples throughout has no
    critical batch.
    """
    rows, alone = [], one_batch(watched)
    for row in watched.rows:
        kept = {"step": row["step"]}
        for name, value in row.items():
            if name == "loss":
                kept[name] = value if abs(value) <= LARGEST else math.copysign(math.inf, value)
            elif name == "noise_scale" and (alone or value == math.inf):
                kept |= {} if alone else {name: value}
            elif name == "scaler":  # a scale that fell below the smallest number is zero
                kept |= {name: value} if 0 <= value <= LARGEST else {}
            elif name in POSITIVE:
                kept |= {name: value} if 1 / LARGEST <= value <= LARGEST else {}
            elif abs(value) <= LARGEST:
                kept[name] = value
        rows.append(kept)
    return dataclasses.replace(watched, rows=rows)


def looks_of(watched: Watched) -> list[dict[str, Any]]:
    """The rows of a record in the order of steps; rows of the same step are merged."""
    found: dict[int, dict[str, Any]] = {}
    for row in watched.rows:
        found.setdefault(row["step"], {}).update(row)
    return [found[step] for step in sorted(found)]


def loads_of(watched: Watched) -> Loads:
    """The load of every look: of the sharpest direction if any look measured it, else along the step."""
    rule, rows = rule_of(watched), []
    lr = float("nan")
    for row in looks_of(watched):
        lr = row.get("lr", lr)
        usual = 2 * (1 + rule.beta) / lr if lr > 0 and rule.known and rule.b2 is None else math.nan
        edge = row.get("threshold", usual)
        edge = edge if edge > 0 else math.nan
        sharp = row.get("sharpness", math.nan) / edge
        along = [1 / row["stable_multiple"] if row.get("stable_multiple", 0) > 0 else math.nan]
        if rule.plain and "batch_sharpness" in row:
            along.append(row["batch_sharpness"] * lr / 2)
        known = [one for one in along if math.isfinite(one) and one >= 0]
        if math.isfinite(sharp):
            error = row.get("sharpness_error", 0.0) / edge
            rows.append((row["step"], max(sharp, 0.0), error if math.isfinite(error) else 0.0, lr, True))
        elif known:
            rows.append((row["step"], max(known), 0.0, lr, False))
    if any(row[-1] for row in rows):
        rows = [row for row in rows if row[-1]]
    columns = list(zip(*rows, strict=True)) if rows else [()] * 5
    kinds = (int, float, float, float, bool)
    return Loads(*(np.asarray(column, kind) for column, kind in zip(columns, kinds, strict=True)))


def along_of(watched: Watched) -> tuple[np.ndarray, np.ndarray]:
    r"""Steps and loads along the update, $1/$`stable_multiple`, or along the gradient of plain SGD, $\eta s_b/2$."""
    rule, found = rule_of(watched), []
    lr = float("nan")
    for row in looks_of(watched):
        lr = row.get("lr", lr)
        if row.get("stable_multiple", 0) > 0:
            found.append((row["step"], 1 / row["stable_multiple"]))
        elif rule.plain and row.get("batch_sharpness", 0) > 0 and lr > 0:
            found.append((row["step"], row["batch_sharpness"] * lr / 2))
    steps, values = zip(*found, strict=True) if found else ((), ())
    return np.asarray(steps, int), np.asarray(values, float)


def spread_of(values: np.ndarray) -> float:
    r"""Relative variance of positive numbers from look to look, without their slow changes; 0 for fewer than four.

    It is half the square of $1.4826\,\mathrm{median}|y_{i+1} - y_i|$, where $y_i$ are the logarithms.
    """
    y = np.log(values[np.isfinite(values) & (values > 0)])
    if len(y) < 4:
        return 0.0
    return float((1.4826 * np.median(np.abs(np.diff(y)))) ** 2 / 2)
