"""The monitor of every framework: it decides when to look, never waits for a row, and raises no error in the loop.

The loop calls a monitor once a step, *before* the optimiser's step, with the parameters and the batch that the step is
about to use. The numbers of a step are therefore those that the step meets. Looks that need the step itself, such as
the curvature along the update, keep this point and are finished at the next call. Their row bears the step at which
they began.

A subclass says which looks there are and how to take one; this class decides when.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from secant.core.arguments import share as between
from secant.core.arguments import whole
from secant.monitors.plan import Account, Look, Plan
from secant.monitors.records.columns import COLUMNS
from secant.monitors.records.keeper import Keeper, Later, Sink
from secant.monitors.records.record import Watched
from secant.monitors.sampling import Sampling

LASTING = 3
"""Looks are set up for a new batch size after this many such calls in a row, so an epoch's last batch is passed by."""

FLUSHED = 64
"""Rows are written as soon as this many wait."""

SECONDS = 5.0
"""Rows are written at least this often, in seconds."""


TIMED = 16
"""Where looks need no waiting, the monitor still waits for one in this many, to time it."""

ROUNDING = 1e-6
"""Relative difference up to which two sums, in different orders, are sums of the same numbers."""


FAILURES = 3
"""A look that worked before is given up after this many failures."""


class PassedError(Exception):
    """A look cannot be taken at this step, but may be at another. The text says why; the monitor repeats it once."""


class HopelessError(Exception):
    """No look can ever be taken in this run. The text says why; the monitor then records the loop's own numbers."""


class Monitor:
    """A monitor of a training run: made by [`monitor`][secant.monitors.monitor], called once a step, closed at the end.

    Attributes:
        plan: how often each look comes, and what it costs; `print` it.
        watched: the numbers so far, in the form that [`read`][secant.monitors.read] returns.
        last: column -> its last number.
    """

    def __init__(
        self,
        looks: Sequence[Look],
        *,
        record: Any = None,
        budget: float = 0.05,
        every: int | Mapping[str, int] | None = None,
        sinks: str | Sink | Sequence[str | Sink] = (),
        about: Mapping[str, Any] | None = None,
        ready: Callable[[Any], bool] = lambda value: True,
        number: Callable[[Any], float] = float,
        clock: Callable[[], float] = time.perf_counter,
        fewer: bool = False,
    ) -> None:
        """Args:
        looks: the looks that can be taken.
        record: path or name of the record, None for a new one in Secant's home, False for none.
        budget: share of the time that looks may take.
        every: steps between two looks, for all looks or column -> steps; nothing depends on the clock then.
        sinks: objects with `write(step, row)` and `close()`.
        about: plain facts of the run.
        ready: whether a number has come from the device.
        number: the number itself; waits for it.
        clock: the time in seconds.
        fewer: whether a look that would come too seldom may use fewer samples of a batch.
        """
        between("monitor", "budget", budget)
        self._clock = clock
        self._account = Account(looks, budget, by_hand(looks, every), clock)
        self._sampling = Sampling(self._account, fewer)
        self.last: dict[str, float] = {}
        given = True if record is None else record
        self._keeper = Keeper(given, about or {}, sinks, ready=ready, number=number, found=self.last.update)
        self._shape: Hashable = None
        self._lasted = 0
        self._known: set[tuple[str, Hashable, int]] = set()
        self._held: tuple[int, Hashable, list[str]] | None = None
        self._failures: dict[str, int] = {}
        self._untimed: dict[str, int] = {}
        self._flushed = clock()
        self._planned = 0.0
        self._mark: tuple[int, int, float] | None = None
        self._same: bool | None = None

    @property
    def plan(self) -> Plan:
        """How often each look comes, from the times measured so far."""
        return self._account.plan()

    @property
    def watched(self) -> Watched:
        """The numbers so far."""
        return self._keeper.watched()

    @property
    def path(self) -> Any:
        """The folder of the record, or None."""
        return self._keeper.path

    def say(self, key: str, text: str, step: int = 0) -> None:
        """Says a text once, as a warning and in the record."""
        self._keeper.say(step, key, text)

    def tell(self, **facts: Any) -> None:
        """Adds facts about the run to the record."""
        self._keeper.tell(**facts)

    def compare(self, step: int, samples: int, mark: float) -> None:
        """Compares the samples of a look with those of the first look, and records whether all looks see the same.

        Args:
            step: the step of the look.
            samples: how many samples the look used; another number begins the comparison anew.
            mark: a number of the samples that does not depend on their order.
        """
        if self._mark is None or self._mark[1] != samples:
            self._mark = step, samples, mark
        if step == self._mark[0] or self._same is False or not math.isfinite(mark):
            return
        same = abs(mark - self._mark[2]) <= ROUNDING * abs(self._mark[2])
        if same is not self._same:
            self._same = same
            self.tell(same_batch=same)

    def observe(
        self,
        step: int,
        at_hand: Mapping[str, Any],
        take: Callable[[str], Mapping[str, Any]],
        *,
        hold: Callable[[], None] = lambda: None,
        shape: Hashable = None,
        wait: Callable[[], None] = lambda: None,
        size: Callable[[], int] = lambda: 0,
        begin: Callable[[str], Later] | None = None,
    ) -> None:
        """Handles one call of the loop; raises nothing.

        Args:
            step: the number of the step.
            at_hand: column -> a number that the loop has anyway; it may still be under way on the device.
            take: `name -> {column: number}`, takes a look and waits for its numbers. A look with `after` uses the point
                that `hold` kept at the call before.
            hold: keeps the point from which this step starts.
            shape: the shape of the batch; looks are set up once for each shape.
            wait: waits until the loop's own work is done, so that its time is not counted as time of the look.
            size: the number of samples in the batch if a look may use a part of them; else an error that says why not.
            begin: takes a look without waiting for it, for devices that work while the loop goes on. Waiting there
                would cost the loop time, whether or not the device has other work.
        """
        if self._keeper.closed:
            return
        try:
            self._observe(step, at_hand, take, hold, shape, wait, size, begin)
        except Exception as error:
            self._keeper.say(step, "observe", f"this step could not be watched: {described(error)}")

    def _observe(
        self, step: int, at_hand: Any, take: Any, hold: Any, shape: Hashable, wait: Any, size: Any, begin: Any
    ) -> None:
        account = self._account
        account.tick()
        began, others = self._clock(), 0.0
        usable = self._usual(step, shape)
        held, self._held = self._held, None
        begun = [name for name in held[2] if name in account.looks] if held else []
        if held and begun:
            others += self._waited(wait, begun, held[1], begin)
            others += self._looks(held[0], begun, take, held[1], {}, begin)
        due = [name for name in account.due(step) if usable or self._key(name, shape) in self._known]
        if usable and self._sampling.asks:
            chosen, spent = self._choose(step, size)
            due += [name for name in chosen if name not in due]
            others += spent
        now = [name for name in due if not account.looks[name].after]
        later = [name for name in due if account.looks[name].after]
        if now:
            others += self._waited(wait, now, shape, begin)
            others += self._looks(step, now, take, shape, at_hand, begin)
        elif at_hand:
            self._keeper.add(step, at_hand)
        if later:
            hold()
            self._held = step, shape, later
        self._write(bool(now or begun))
        account.overhead(max(0.0, self._clock() - began - others))

    def _choose(self, step: int, size: Callable[[], int]) -> tuple[list[str], float]:
        """The looks to take now, to find out which of them can use fewer samples; and the seconds that it took."""
        began = self._clock()
        chosen, why_not = self._sampling.choose(size)
        if why_not:
            self._keeper.note(step, why_not)
        spent = self._clock() - began
        self._account.aside(spent)
        return chosen, spent

    def _key(self, name: str, shape: Hashable) -> tuple[str, Hashable, int]:
        return name, shape, self._sampling.parts(name)

    def _waited(self, wait: Callable[[], None], names: Sequence[str], shape: Hashable, begin: Any) -> float:
        """Waits for the loop's own work, unless no look needs waiting; the seconds that it took."""
        if names and begin is not None and all(self._unwaited(name, shape) for name in names):
            return 0.0
        began = self._clock()
        wait()
        return self._clock() - began

    def _unwaited(self, name: str, shape: Hashable) -> bool:
        """Whether a look needs no waiting: it works, and was timed not long ago."""
        timed = self._untimed.get(name, TIMED) < TIMED and not self._sampling.asks_for(name)
        return timed and self._key(name, shape) in self._known

    def _usual(self, step: int, shape: Hashable) -> bool:
        """Whether looks may be set up for a batch of this shape."""
        if shape == self._shape and self._lasted >= LASTING:  # nearly always
            return True
        known = {its for _, its, _ in self._known}
        if shape == self._shape:
            self._lasted += 1
        else:
            if known and shape not in known:
                self._keeper.say(step, "shape", f"from step {step} on the batches have another size, {shape}.")
            self._shape, self._lasted = shape, 1
        return not known or shape in known or self._lasted >= LASTING

    def _looks(
        self, step: int, names: Sequence[str], take: Any, shape: Hashable, at_hand: Mapping[str, Any], begin: Any
    ) -> float:
        """Takes looks and records their row; returns the seconds that have been accounted for."""
        account, row, seconds = self._account, dict(at_hand), 0.0
        total = 0.0
        for name in names:
            fresh = self._key(name, shape) not in self._known
            began = self._clock()
            if begin is not None and self._unwaited(name, shape):
                with contextlib.suppress(Exception):  # a look that fails is taken again with waiting, which says why
                    row[f"look {name}"] = self._apart(name, begin(name), at_hand)
                    self._untimed[name] += 1
                    total += account.charge(name, self._clock() - began)
                    seconds += self._clock() - began
                    continue
            try:
                found = take(name)
                if fresh:
                    self._known.add(self._key(name, shape))
                    account.aside(self._clock() - began)
                    seconds += self._clock() - began
                    began = self._clock()
                    if account.budget is not None:  # once more, now that it is compiled, to see what it costs
                        found = take(name)
            except HopelessError as why:
                if self._sampling.failed(name):
                    seconds += self._as_before(step, name, began, why)
                    continue
                for other in tuple(account.looks):
                    account.drop(other)
                self._keeper.say(step, "hopeless", f"there will be no looks: {why}")
                account.aside(self._clock() - began)
                return seconds + self._clock() - began
            except PassedError as passed:
                self._keeper.say(step, str(passed), f"at step {step} there was no look at `{name}`: {passed}")
                continue
            except Exception as error:
                if self._sampling.failed(name):
                    seconds += self._as_before(step, name, began, error)
                    continue
                spent = self._clock() - began
                account.aside(spent)
                seconds += spent
                self._failures[name] = self._failures.get(name, 0) + 1
                if fresh or self._failures[name] >= FAILURES:
                    account.drop(name)
                    self._keeper.say(step, f"look {name}", f"no more looks at `{name}`: {described(error)}")
                else:
                    self._keeper.say(step, f"failed {name}", f"a look at `{name}` failed: {described(error)}")
                continue
            spent = self._clock() - began
            seconds += spent
            if not fresh or account.budget is not None:
                total += spent
            again = self._sampling.once_more(name)
            if fresh or again:
                account.aside(spent)
                account.prepared(name, spent if account.budget is not None else None)
                if fresh and account.budget is not None and not self._stays(step, name, spent):
                    continue
            else:
                account.pay(name, spent)
                self._untimed[name] = 1
            row.update(self._beside(name, found, at_hand))
        measured = {name: value for name, value in row.items() if name not in at_hand and not isinstance(value, Later)}
        self.last.update({name: float(value) for name, value in measured.items()})
        row["look_seconds"] = total
        if math.isfinite(account.share):
            row["share"] = account.share
        self._keeper.add(step, row)
        return seconds

    def _beside(self, name: str, found: Mapping[str, float], at_hand: Mapping[str, Any]) -> dict[str, float]:
        """The columns that a look adds, without those that the loop gives itself."""
        return {column: value for column, value in found.items() if column not in at_hand}

    def _apart(self, name: str, later: Later, at_hand: Mapping[str, Any]) -> Later:
        """A look under way that will add only columns that the loop does not give itself."""
        there = dict.fromkeys(at_hand)
        return Later(later.arrays, lambda numbers: self._beside(name, later.finish(numbers), there))

    def _stays(self, step: int, name: str, seconds: float) -> bool:
        """Whether a look keeps the number of samples for which it was just set up."""
        stays, text = self._sampling.timed(name, seconds)
        if text:
            self._planned = 0.0  # the record is told at once
            if stays:
                self._keeper.say(step, text, f"from step {step} on {text}")
            else:
                self._keeper.note(step, text)
        return stays

    def _as_before(self, step: int, name: str, began: float, why: BaseException) -> float:
        """Goes back to all samples for a look that could not be set up on fewer; returns the seconds that it took."""
        self._keeper.note(step, f"looks at `{name}` go on with all samples: {described(why)}")
        spent = self._clock() - began
        self._account.aside(spent)
        return spent

    def _write(self, looked: bool) -> None:
        now = self._clock()
        if looked or self._keeper.waiting >= FLUSHED or now - self._flushed > SECONDS:
            self._flushed = now
            self._keeper.flush()
        # The record gets the plan as soon as there is one, and later a new one now and then.
        if looked and math.isfinite(self._account.step_seconds) and self._account.elapsed >= self._planned:
            self._planned = max(4 * self._account.elapsed, 1.0)
            self._keeper.tell(plan=self.plan.facts())

    def close(self) -> None:
        """Waits for the last numbers, writes them and the plan, and ends; later calls do nothing."""
        if not self._keeper.closed:
            with contextlib.suppress(Exception):
                self._keeper.tell(plan=self.plan.facts())
        self._keeper.close()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def by_hand(looks: Sequence[Look], every: int | Mapping[str, int] | None) -> dict[str, int] | None:
    """Look -> steps between two looks, from one number for all looks or from numbers by column; 0 for never."""
    if every is None:
        return None
    if not isinstance(every, Mapping):
        cadence = whole("monitor", "every", every)
        return {look.name: cadence for look in looks}
    found: dict[str, int] = {}
    for column, cadence in every.items():
        owner = next((look.name for look in looks if column == look.name or column in look.columns), None)
        if owner is None:
            known = ", ".join(look.name for look in looks)
            why = "no look measures it" if column not in COLUMNS else "it needs an argument that was not given"
            raise ValueError(f"monitor: `every` names {column!r}, but {why}. Use a column of these looks: {known}.")
        cadence = whole("monitor", f"every[{column!r}]", cadence, least=0)
        found[owner] = min(cadence, found[owner]) if found.get(owner) else cadence
    return found


def described(error: BaseException) -> str:
    """An error in one line: its type and the first line of its text."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:300]}" if text else type(error).__name__
