"""Progress of a run, reported to a small object that you can replace."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Progress(Protocol):
    """The calls by which a long run reports its progress."""

    def start(self, label: str, total: int) -> None:
        """A run of `total` steps begins."""

    def update(self, done: int, note: str) -> None:
        """`done` steps have been taken."""

    def close(self) -> None:
        """The run has ended, well or not."""


class Silent:
    """Says nothing."""

    def start(self, label: str, total: int) -> None:
        """Nothing."""

    def update(self, done: int, note: str) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


class Bar:
    """A bar in the terminal, drawn by rich; nothing is drawn if the output is a file.

    Args:
        console: a console of rich; by default the console of the error output.
        unit: what is counted, in words.

    Example:
        ```python
        import secant as sc

        halving = sc.Map(init=lambda x: x, step=lambda x: x / 2)
        sc.simulate(halving, 1.0, steps=10, progress=sc.dynamics.Bar())
        ```
    """

    def __init__(self, console: Any = None, unit: str = "steps") -> None:
        self._console = console
        self._unit = unit
        self._bar: Any = None
        self._task: Any = None

    def start(self, label: str, total: int) -> None:
        """Draws an empty bar."""
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        console = self._console or Console(stderr=True)
        self._bar = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn(self._unit),
            TimeRemainingColumn(compact=True),
            TextColumn("[dim]{task.fields[note]}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._bar.start()
        self._task = self._bar.add_task(label, total=total, note="")

    def update(self, done: int, note: str) -> None:
        """Moves the bar."""
        self._bar.update(self._task, completed=done, note=note)

    def close(self) -> None:
        """Removes the bar."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


_ambient: ContextVar[Progress | None] = ContextVar("secant_progress", default=None)


@contextlib.contextmanager
def reporting(progress: Progress) -> Iterator[None]:
    """Every run inside this block reports to `progress` unless it is given its own."""
    token = _ambient.set(progress)
    try:
        yield
    finally:
        _ambient.reset(token)


def resolve(progress: Progress | None) -> Progress:
    """The given reporter, or else the reporter of the surrounding block, or a silent one."""
    return progress or _ambient.get() or Silent()
