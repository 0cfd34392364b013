"""Pages of watched runs: what was watched, its curves against their edges, its events, and what the monitor said."""

from __future__ import annotations

import functools
import os
import re
import shlex
import warnings
from dataclasses import dataclass
from pathlib import Path

from secant.atlas import curves
from secant.monitors.display import Event, Last, Panel, events, facts, last_step, last_values, panels, plan_rows
from secant.monitors.records.listing import kept, running
from secant.monitors.records.record import RecordError, Watched, read
from secant.monitors.records.text import clean

NOTES = 200
"""How many messages of the monitor a page shows: the last ones."""


@dataclass(frozen=True)
class Run:
    """A watched run, ready for the templates.

    Attributes:
        name: of its folder.
        argument: what the commands take: its name, or its path.
        watched: the record.
        goes_on: whether it was being written when the page was made.
    """

    name: str
    argument: str
    watched: Watched
    goes_on: bool

    @property
    def directory(self) -> str:
        """The folder of the run's page, below the index."""
        return "watched/" + (re.sub(r"[^A-Za-z0-9._-]|^\.+", "-", self.name) or "run")

    @property
    def page(self) -> str:
        """The run's page, below the index."""
        return f"{self.directory}/index.html"

    @functools.cached_property
    def step(self) -> int | None:
        """The last step."""
        return last_step(self.watched)

    @functools.cached_property
    def _panels(self) -> list[Panel]:
        return [panel for panel in panels(self.watched) if panel.finite.size]

    @functools.cached_property
    def charts(self) -> list[curves.Chart]:
        """The curves of all measured quantities that can be drawn."""
        steps = [row["step"] for row in self.watched.rows]
        return [curves.chart(panel, (min(steps), max(steps))) for panel in self._panels]

    @functools.cached_property
    def spark(self) -> str:
        """The loss as a path, for the index."""
        loss = next((panel for panel in self._panels if panel.title == "Loss"), None)
        return curves.spark(loss.series[0]) if loss else ""

    @functools.cached_property
    def last(self) -> list[Last]:
        """The last value of every quantity."""
        return last_values(self.watched)

    @property
    def loss(self) -> float | None:
        """The last loss."""
        return next((one.value for one in self.last if one.name == "loss"), None)

    @functools.cached_property
    def events(self) -> list[Event]:
        """Spikes, and what came before each."""
        return events(self.watched)

    @property
    def notes(self) -> list[tuple[int, str]]:
        """The last messages of the monitor."""
        return self.watched.notes[-NOTES:]

    @property
    def facts(self) -> list[tuple[str, str]]:
        """The recorded facts about the run."""
        return facts(self.watched.about)

    @property
    def brief(self) -> str:
        """Framework and optimiser, in a line."""
        told = dict(self.facts)
        return ", ".join(told[name] for name in ("framework", "optimiser") if told.get(name))

    @property
    def plan(self) -> list[tuple[str, str, str, str]]:
        """Which looks were taken, how often, and what each cost."""
        return plan_rows(self.watched.about)

    def command(self, name: str) -> str:
        """The `secant` command of this name for this run."""
        return shlex.join(["secant", name, self.argument])


def runs_below(folder: Path) -> list[Run]:
    """The records in a folder, the newest first. Unreadable records are skipped with a warning."""
    found = []
    for path in reversed(kept(folder)):
        try:
            found.append(of_record(path, path.name))
        except RecordError as error:
            warnings.warn(f"{clean(str(error))} It is passed over.", RuntimeWarning, stacklevel=2)
    return found


def of_record(path: str | os.PathLike[str], argument: str | None = None) -> Run:
    """A record.

    Raises:
        RecordError: there is no record, or it cannot be read.
    """
    record = read(path)
    name = clean(record.path.resolve().name) or "run"
    written = (
        (argument or os.fspath(path)).encode("utf-8", "replace").decode()
    )  # a name may have bytes that are no text
    return Run(name, written, record, running(path))
