r"""How often each look comes: from its cost, and from the time that all looks together may take.

A budget $b$ is the share of a run's time that all looks may take. Each look $i$ has a part $w_i$ of the budget, with
$\sum_iw_i = 1$, and an account. Every second of the run pays $w_ib$ seconds into the account, and the look is due when
the account holds the cost of the look. The time that the look really took is then paid out. The share therefore
converges to the budget, whatever looks and steps cost and however their costs change. Look $i$ comes every
$c_i/(w_ibT)$ steps, where $c_i$ is its cost and $T$ the time of a step with the looks that fall on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

AIM = 0.95
"""Share of the budget that is spent, so that looks stay within a tenth of the budget and not above it."""

WARM = 3
"""Calls before the account begins, because the loop compiles its own step in the first calls."""

HELD = 4.0
"""An account holds at most the cost of this many looks, so that no burst of looks follows a long pause."""

RECENT = 0.3
"""Weight of the last look in the estimated cost of a look."""

RARE = 200
"""Steps. A look that would come less often than this on whole batches is taken on a part of each batch."""

PARTS, LEAST = 4, 8
"""A batch is cut into this many parts at most, of this many samples at least."""


class Look(NamedTuple):
    """A measurement that is made now and then, and what is known of it beforehand.

    Attributes:
        name: its first column.
        columns: the columns that it records, names of [`COLUMNS`][secant.monitors.COLUMNS].
        price: its cost in steps of the loop, before it has been timed.
        weight: its part of the budget, relative to the weights of the other looks.
        after: whether it also needs the parameters after the step; the next call then finishes it.
        samples: how many samples of a batch it uses; None for all.
        of: the size of the batch if the monitor chose `samples`; else None.
    """

    name: str
    columns: tuple[str, ...]
    price: float = 1.0
    weight: float = 1.0
    after: bool = False
    samples: int | None = None
    of: int | None = None


class Entry(NamedTuple):
    """A line of a plan: a look, its cost in seconds, and the steps from one such look to the next."""

    look: Look
    seconds: float
    every: float


@dataclass(frozen=True)
class Plan:
    """How often each look comes, and why; `print` it.

    Attributes:
        budget: the share of the time, or None where `every` was given.
        step_seconds: the time of a step of the loop without looks; NaN before it was measured.
        setup_seconds: the time that compiling and timing the looks took, once; it is no part of the budget.
        entries: one line for each look.
    """

    budget: float | None
    step_seconds: float
    setup_seconds: float
    entries: tuple[Entry, ...]

    def facts(self) -> dict[str, Any]:
        """The plan in plain numbers, as a record keeps it."""
        looks = {
            entry.look.name: {
                "columns": list(entry.look.columns),
                "seconds": entry.seconds,
                "every": entry.every,
                "samples": entry.look.samples,
                **({} if entry.look.of is None else {"of": entry.look.of}),
            }
            for entry in self.entries
        }
        return {
            "budget": self.budget,
            "step_seconds": self.step_seconds,
            "setup_seconds": self.setup_seconds,
            "looks": looks,
        }

    def __str__(self) -> str:
        timed = math.isfinite(self.step_seconds)
        told = "cadences given by hand" if self.budget is None else f"looks take {self.budget:.1%} of the time"
        step = f"a step takes {_duration(self.step_seconds)}" if timed else "no step has been timed yet"
        lines = [f"{told}; {step}; setting up took {_duration(self.setup_seconds)}"]
        table = [("look", "costs", "in steps", "every", "samples")]
        for look, seconds, every in self.entries:
            known = timed and self.step_seconds > 0 and math.isfinite(seconds)
            steps = seconds / self.step_seconds if known else look.price
            often = f"{every:.0f}" if math.isfinite(every) else "never"
            sampled = "all" if look.samples is None else f"{look.samples}"
            sampled += "" if look.of is None else f" of {look.of}"
            table.append((look.name, _duration(seconds), f"{steps:.2g}", often, sampled))
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        for row in table:
            cells = [
                row[0].ljust(widths[0]),
                *(text.rjust(width) for text, width in zip(row[1:], widths[1:], strict=True)),
            ]
            lines.append("  ".join(cells).rstrip())
        return "\n".join(lines)


def cadences(costs: Mapping[str, float], weights: Mapping[str, float], step: float, budget: float) -> dict[str, float]:
    """Steps between two looks of each kind, so that all looks take `budget` of the time.

    A look comes at most once a step. What it leaves of its part of the budget goes to the others.

    Args:
        costs: the cost of each look, in seconds.
        weights: the parts of the budget; only their ratios count.
        step: seconds of a step without looks.
        budget: the share of the time, above 0 and below 1.

    Example:
        ```python
        from secant.monitors.plan import cadences

        costs = {"batch_sharpness": 1.0, "sharpness": 6.8}
        print(cadences(costs, {"batch_sharpness": 1.0, "sharpness": 1.0}, step=1.0, budget=0.05))
        ```
        ```text
        {'batch_sharpness': 38.0, 'sharpness': 259.0}
        ```
    """
    whole = step / (1 - budget)  # a step with the looks that fall on it
    found: dict[str, float] = {}
    left, rest = budget * whole, dict(costs)
    while rest:
        total = sum(weights[name] for name in rest)
        parts = {name: left * weights[name] / total for name in rest}
        every_step = [name for name, cost in rest.items() if cost <= parts[name]]
        if not every_step:
            return {
                name: found[name] if name in found else float(math.ceil(costs[name] / parts[name])) for name in costs
            }
        for name in every_step:
            found[name] = 1.0
            left -= rest.pop(name)
    return {name: found[name] for name in costs}


def parts(every: float, samples: int) -> int:
    """Into how many parts batches are cut, so that a look comes every `RARE` steps, or as often as possible.

    Batches are halved, and the cost of a look is assumed to fall with the number of its samples.

    Args:
        every: steps between two looks on whole batches.
        samples: samples of a batch.

    Example:
        ```python
        from secant.monitors.plan import parts

        print(parts(150, 64), parts(367, 64), parts(900, 64), parts(900, 16))
        ```
        ```text
        1 2 4 2
        ```
    """
    number = 1
    while every > RARE * number and number < PARTS and samples >= 2 * number * LEAST:
        number *= 2
    return number


def part(samples: int, number: int) -> int:
    """How many samples one part of a batch has, of `number` parts."""
    return min(samples, max(-(-samples // number), LEAST))


class Account:
    """An account of seconds: what looks may take, what they took, and which look is due.

    Args:
        looks: all looks.
        budget: share of the time, above 0 and below 1; unused where `every` is given.
        every: name -> steps between two looks; a look without a number never comes. Nothing depends on the clock then.
        clock: the time in seconds, such as `time.perf_counter`.
    """

    def __init__(
        self,
        looks: Sequence[Look],
        budget: float,
        every: Mapping[str, int] | None,
        clock: Callable[[], float],
    ) -> None:
        self.looks = {look.name: look for look in looks}
        self.every, self.clock = every, clock
        self.budget = None if every is not None else budget
        self.costs: dict[str, float] = {}
        self.credit = dict.fromkeys(self.looks, 0.0)
        self.spent = self.setup = self.elapsed = 0.0
        self.calls = self.counted = 0
        self.cut = dict.fromkeys(self.looks, 1)
        self._last: float | None = None
        self._aside = 0.0
        self._wakes = -math.inf  # no look is due before so much time has passed
        self._settled = self._other = 0.0

    def tick(self) -> None:
        """Begins a call of the loop: pays in for the time since the last one."""
        now = self.clock()
        self.calls += 1
        if self._last is not None:
            passed = max(0.0, now - self._last - self._aside)
            self.elapsed += passed
            self.counted += 1
        if self.calls >= WARM:
            self._last, self._aside = now, 0.0

    def due(self, step: int) -> list[str]:
        """The looks that are due at this step."""
        if self.every is not None:
            return [name for name in self.looks if (cadence := self.every.get(name, 0)) and step % cadence == 0]
        if self.elapsed < self._wakes:  # most calls end here
            return []
        self._settle()
        return [name for name in self.looks if name not in self.costs or self.costs[name] <= self.credit[name]]

    def prepared(self, name: str, seconds: float | None) -> None:
        """Notes the time of a look that was set up; None if it was not timed."""
        if seconds is not None:
            self.costs[name] = max(seconds, 1e-9)

    def aside(self, seconds: float) -> None:
        """Notes time of setting up, which is no part of the budget."""
        self.setup += seconds
        if self._last is not None:
            self._aside += seconds

    def pay(self, name: str, seconds: float) -> None:
        """Pays for a look that took so many seconds."""
        self._wakes = -math.inf
        self.spent += seconds if self._last is not None else 0.0
        self.credit[name] -= seconds
        known = self.costs.get(name, seconds)
        self.costs[name] = max((1 - RECENT) * known + RECENT * seconds, 1e-9)

    def charge(self, name: str, seconds: float) -> float:
        """Pays for a look that is not waited for, at its last known cost; returns that cost."""
        cost = max(seconds, self.costs.get(name, 0.0))
        self._wakes = -math.inf
        self.spent += cost if self._last is not None else 0.0
        self.credit[name] -= cost
        return cost

    def overhead(self, seconds: float) -> None:
        """Notes time of the monitor that belongs to no look."""
        if self._last is not None:
            self.spent += seconds
            self._other += seconds

    def shrink(self, name: str, number: int, of: int) -> None:
        """From now on a look uses one of `number` parts of a batch; its cost is assumed to fall as much."""
        self.costs[name] /= number
        self.looks[name] = self.looks[name]._replace(samples=part(of, number), of=of)
        self.cut[name], self._wakes = number, -math.inf

    def grow(self, name: str, seconds: float) -> None:
        """From now on a look uses all samples again, at its old cost."""
        self.looks[name] = self.looks[name]._replace(samples=None, of=None)
        self.cut[name], self.costs[name], self._wakes = 1, seconds, -math.inf

    def drop(self, name: str) -> None:
        """Gives up a look; the others get its part of the budget."""
        self.looks.pop(name, None)
        self._wakes = -math.inf
        left = self.credit.pop(name, 0.0)
        self.costs.pop(name, None)
        if self.looks and left > 0:
            for other in self.credit:
                self.credit[other] += left / len(self.looks)

    @property
    def share(self) -> float:
        """Time of all looks so far over the time of the run; NaN before the account began."""
        return self.spent / self.elapsed if self.elapsed > 0 else math.nan

    @property
    def step_seconds(self) -> float:
        """Seconds of a step without looks."""
        return (self.elapsed - self.spent) / self.counted if self.counted else math.nan

    def plan(self) -> Plan:
        """How often each look comes, from the times measured so far."""
        step = self.step_seconds
        timed = math.isfinite(step) and step > 0
        unit = step if timed else 1.0
        costs = {name: self.costs.get(name, look.price * unit) for name, look in self.looks.items()}
        if self.every is not None:
            often = {name: float(self.every.get(name, 0)) or math.inf for name in self.looks}
        elif timed:
            weights = {name: look.weight for name, look in self.looks.items()}
            often = cadences(costs, weights, step, AIM * (self.budget or 0.0))
        else:
            weights = {name: look.weight for name, look in self.looks.items()}
            prices = {name: look.price for name, look in self.looks.items()}
            often = cadences(prices, weights, 1.0, AIM * (self.budget or 0.0))
        entries = tuple(Entry(look, self.costs.get(name, math.nan), often[name]) for name, look in self.looks.items())
        return Plan(self.budget, step, self.setup, entries)

    def _settle(self) -> None:
        """Pays in for the time since the last call, and notes when a look can be due next."""
        seconds, other = self.elapsed - self._settled, self._other
        self._settled, self._other = self.elapsed, 0.0
        if not self.looks:
            self._wakes = math.inf
            return
        total = sum(look.weight for look in self.looks.values())
        rates = {name: AIM * (self.budget or 0.0) * look.weight / total for name, look in self.looks.items()}
        left = 0.0
        for name, look in self.looks.items():
            paid = self.credit[name] + rates[name] * seconds - other * look.weight / total
            self.credit[name] = min(paid, HELD * self.costs.get(name, math.inf))
            left += paid - self.credit[name]
        # A look that comes at every step already leaves the rest of its part to the others.
        poor = {name: look.weight for name, look in self.looks.items() if self.credit[name] < self.costs.get(name, 0.0)}
        for name, weight in poor.items():
            self.credit[name] += left * weight / sum(poor.values())
        missing = (self.costs.get(name, -math.inf) - self.credit[name] for name in self.looks)
        self._wakes = self.elapsed + min(lack / rate for lack, rate in zip(missing, rates.values(), strict=True))


def _duration(seconds: float) -> str:
    if not math.isfinite(seconds):
        return "?"
    for size, unit in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"
