"""Keeps the numbers of a monitor: in memory, in a record on disk, and in the sinks that the user names."""

from __future__ import annotations

import atexit
import contextlib
import math
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from secant.monitors.records.columns import COLUMNS
from secant.monitors.records.record import RecordError, Watched, Writer, place
from secant.monitors.records.sinks import Sink, made

ROWS = 50_000
"""Rows kept in memory; beyond that every second older row is dropped, rows with looks last."""

WAITING = 4_096
"""Rows whose numbers may be under way; beyond that the monitor waits for the device."""


class MonitorWarning(UserWarning):
    """A monitor could not do something. The run goes on."""


class Later(NamedTuple):
    """A look that is under way on a device.

    Attributes:
        arrays: name -> an array of one number, which may still be under way.
        finish: `{name: number} -> {column: number}`.
    """

    arrays: Mapping[str, Any]
    finish: Callable[[Mapping[str, float]], Mapping[str, float]]


class Keeper:
    """Takes rows whose numbers may still be under way on a device, and keeps them when the numbers have come.

    While a run goes on nothing here raises. If one place cannot keep the rows, the others do, after one warning.

    Args:
        record: a path or name of the record, True for a new one, or False or None for none.
        about: plain facts of the run.
        sinks: where rows go as well.
        ready: whether a number has come.
        number: the number itself; waits for it.
        found: called with the numbers of looks that were under way.
    """

    def __init__(
        self,
        record: Any,
        about: Mapping[str, Any],
        sinks: str | Sink | Sequence[str | Sink] = (),
        *,
        ready: Callable[[Any], bool] = lambda value: True,
        number: Callable[[Any], float] = float,
        found: Callable[[Mapping[str, float]], None] = lambda numbers: None,
    ) -> None:
        self.rows: list[dict[str, Any]] = []
        self.notes: list[tuple[int, str]] = []
        self.about: dict[str, Any] = dict(about)
        self.path: Path | None = None
        self._sinks: list[Sink] = []
        self._ready, self._number, self._found = ready, number, found
        self._waiting: deque[tuple[int, dict[str, Any]]] = deque()
        self._said: set[str] = set()
        self._writer: Writer | None = None
        self._step, self.closed = 0, False
        if record is not None and record is not False:
            self._open(record)
        try:
            self._sinks = made(sinks, self.path, self.about)
        except BaseException:
            self.close()
            raise
        _close_at_exit(self)

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()

    def _open(self, record: Any) -> None:
        for _ in range(5):  # two runs that begin together may choose the same new folder
            try:
                self.path = place(None if record is True else record)
                self._writer = Writer(self.path, self.about)
                return
            except RecordError as error:
                problem = error
                if record is not True:
                    break
            except Exception as error:
                problem = RecordError(str(error))
                break
        self.path = None
        self.say(0, "record", f"{problem} The run is watched in memory only.")

    def say(self, step: int, key: str, text: str) -> None:
        """Says a text once: as a warning, and as a note in the record."""
        if key in self._said:
            return
        self._said.add(key)
        self.note(step, text)
        with contextlib.suppress(Exception):  # warnings may have been made errors, which must not reach the loop
            warnings.warn(f"monitor: {text}", MonitorWarning, stacklevel=4)

    def note(self, step: int, text: str) -> None:
        """Adds a note to the record, without a warning."""
        self.notes.append((step, text))
        self._on_disk(lambda writer: writer.note(max(int(step), 0), text))

    def tell(self, **facts: Any) -> None:
        """Adds facts about the run to the record."""
        self.about |= facts
        self._on_disk(lambda writer: writer.rewrite_about(**facts))

    def add(self, step: int, row: Mapping[str, Any]) -> None:
        """Adds a row; its numbers may still be under way."""
        self._step = step
        self._waiting.append((step, dict(row)))

    @property
    def waiting(self) -> int:
        """How many rows have numbers under way."""
        return len(self._waiting)

    def flush(self, wait: bool = False) -> None:
        """Keeps the rows whose numbers have come, in order; with `wait` all rows."""
        come: list[dict[str, Any]] = []
        while self._waiting:
            step, row = self._waiting[0]
            if not wait and len(self._waiting) < WAITING and not all(self._has_come(value) for value in row.values()):
                break
            self._waiting.popleft()
            numbers: dict[str, float] = {}
            for name, value in row.items():
                if isinstance(value, Later):
                    numbers |= self._finished(name, step, value)
                else:
                    numbers[name] = self._as_number(name, step, value)
            come.append({"step": step, **numbers})
        if not come:
            return
        self.rows += come
        if len(self.rows) > ROWS:
            self._thin()
        self._on_disk(lambda writer: writer.append(*come))
        for sink in tuple(self._sinks):
            try:
                for row in come:
                    sink.write(row["step"], {name: value for name, value in row.items() if name != "step"})
            except Exception as error:
                self._sinks.remove(sink)
                text = f"the sink {type(sink).__name__} failed and gets no more rows: {error}"
                self.say(come[0]["step"], f"sink {id(sink)}", text)

    def watched(self) -> Watched:
        """The rows in memory, in the form in which a record is read."""
        self.flush(wait=True)
        return Watched(self.path or Path(), dict(self.about), list(self.rows), list(self.notes))

    def close(self) -> None:
        """Waits for the last numbers, writes them and ends."""
        if self.closed:
            return
        self.closed = True
        with contextlib.suppress(Exception):
            self.flush(wait=True)
        for sink in self._sinks:
            try:
                sink.close()
            except Exception as error:
                self.say(self._step, f"sink {id(sink)}", f"the sink {type(sink).__name__} did not close: {error}")
        if self._writer is not None:
            with contextlib.suppress(Exception):
                self._writer.close()
            self._writer = None

    def _has_come(self, value: Any) -> bool:
        try:
            if isinstance(value, Later):
                return all(self._ready(one) for one in value.arrays.values())
            return self._ready(value)
        except Exception:  # the loop gave the array away, and its number with it
            return True

    def _finished(self, name: str, step: int, later: Later) -> dict[str, float]:
        try:
            numbers = dict(later.finish({key: float(self._number(value)) for key, value in later.arrays.items()}))
        except Exception as error:
            self.say(step, f"later {name}", f"the numbers of `{name}` did not come: {_first_line(error)}")
            return {}
        self._found(numbers)
        return numbers

    def _as_number(self, name: str, step: int, value: Any) -> float:
        try:
            found = float(self._number(value))
            if name == "loss" and not math.isfinite(found):
                self.say(step, "not finite", f"the loss is {found} at step {step}.")
            return found
        except Exception as error:
            self.say(step, f"number {name}", f"`{name}` could not be read as a number: {_first_line(error)}")
            return math.nan

    def _on_disk(self, write: Callable[[Writer], None]) -> None:
        if self._writer is None:
            return
        try:
            write(self._writer)
        except Exception as error:
            writer, self._writer = self._writer, None
            with contextlib.suppress(Exception):
                writer.close()
            self.say(self._step, "disk", f"{error} The lines so far stay; the rest of the run is kept in memory only.")

    def _thin(self) -> None:
        """Drops every second of the older rows; rows without looks go first."""
        old, new = self.rows[: ROWS // 2], self.rows[ROWS // 2 :]
        rich = [row for row in old if any(name in row for name in _LOOKED)]
        poor = [row for row in old if not any(name in row for name in _LOOKED)]
        kept = poor[::2] if len(poor) >= len(rich) else rich[::2] + poor
        kept = sorted(kept + rich if len(poor) >= len(rich) else kept, key=lambda row: row["step"])
        self.rows = kept + new
        if self._writer is None:
            text = f"memory keeps {ROWS:,} rows: every second older row is dropped. Give `record=` to keep all."
            self.say(self._step, "thinned", text)


def _first_line(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return (text[0] if text else type(error).__name__)[:300]


_LOOKED = frozenset(name for name, column in COLUMNS.items() if column.price)
_OPEN: weakref.WeakSet[Keeper] = weakref.WeakSet()


def _close_at_exit(keeper: Keeper) -> None:
    """Closes the keeper when Python exits, so that a run without `close` loses nothing.

    It is registered late, so that the devices are still there when it is called.
    """
    if not _OPEN:
        atexit.unregister(_close_all)
        atexit.register(_close_all)
    _OPEN.add(keeper)


def _close_all() -> None:
    for keeper in tuple(_OPEN):
        keeper.close()
