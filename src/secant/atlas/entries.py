"""What the pages say of each study, ready for the templates."""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from secant.atlas.formulas.typeset import plain
from secant.atlas.listing import Listing, listing
from secant.atlas.reading import Page, about
from secant.atlas.runs import Shown, command
from secant.lab import SCALES, Source, Study
from secant.lab.registry.config import allowed, content, fields_of

VERDICTS = ("holds", "erratum", "inconclusive", "fails")
NOT_RUN = "not run"
RELATIONS = {"equal": "=", "at most": "\u2264", "at least": "\u2265"}


@dataclass(frozen=True)
class Gauge:
    """Where a measurement lies beside its tolerance, on a line from 0 to 1 with the prediction at 1/2.

    The tolerance reaches a quarter to each side. A measurement beyond the line is drawn at the end of the line.
    """

    dot: float
    low: float
    high: float
    band: tuple[float, float]


@dataclass(frozen=True)
class Row:
    """A finding, with the numbers that a reader would otherwise work out.

    Attributes:
        facts: the finding as the run recorded it.
        key: the short name of the finding on the page of the study.
        footnote: the letter of the note with the reason for the tolerance, if several findings share this reason.
    """

    facts: dict[str, Any]
    key: str = ""
    footnote: str = ""

    @property
    def relation(self) -> str:
        """The sign between the measured and the predicted number: equal, at most or at least."""
        return RELATIONS[self.facts["relation"]]

    @property
    def difference(self) -> float | None:
        """Measured less predicted, where both are finite."""
        difference = float(self.facts["measured"]) - float(self.facts["predicted"])
        return difference if math.isfinite(difference) else None

    @property
    def gauge(self) -> Gauge | None:
        """The difference in units of the tolerance, for drawing."""
        if self.difference is None:
            return None
        tolerance, error = float(self.facts["tolerance"]), float(self.facts["uncertainty"])
        band = {"equal": (0.25, 0.75), "at most": (0.0, 0.75), "at least": (0.25, 1.0)}[self.facts["relation"]]
        dot, low, high = (_on_line(self.difference + sign * error, tolerance) for sign in (0, -1, 1))
        return Gauge(dot, low, high, band)

    @property
    def is_erratum(self) -> bool:
        """Whether it corrects a printed formula."""
        return "printed" in self.facts

    @property
    def derived(self) -> bool:
        """Whether the claim rests on a derivation, without a run."""
        return self.facts.get("by") == "derivation"

    @property
    def why(self) -> str:
        """The reason for the tolerance; empty if the note repeats the reason."""
        why = self.facts.get("why", "")
        return "" if why == self.facts.get("note") else why

    @property
    def risk(self) -> float | None:
        """How often a true claim may fail by chance; None if it never does, or if the run did not record it."""
        return self.facts.get("risk") or None


@dataclass(frozen=True)
class Footnote:
    """The reason for the tolerance of several findings."""

    mark: str
    text: str
    rows: list[Row]


@dataclass(frozen=True)
class Setting:
    """A field of the configuration."""

    name: str
    value: Any
    help: str
    allowed: str
    scales: dict[str, Any]
    changed: bool


@dataclass
class Entry:
    """A study, and the run of the study that the pages show, if there is one."""

    study: Study
    shown: Shown | None
    scale: str
    outdated: bool = False
    figure: bool = False
    figure_error: str = ""
    rows: list[Row] = field(default_factory=list)
    footnotes: list[Footnote] = field(default_factory=list)

    def __post_init__(self) -> None:
        findings = self.shown.record.findings if self.shown else []
        rows = [Row(finding, finding["key"]) for finding in findings]
        marks = _marks([row.why for row in rows])
        self.rows = [replace(row, footnote=marks.get(row.why, "")) for row in rows]
        self.footnotes = [
            Footnote(mark, why, [row for row in self.rows if row.footnote == mark]) for why, mark in marks.items()
        ]
        self.source: Source = self.study.source

    @property
    def directory(self) -> str:
        """The folder of the study's page, below the index."""
        return "studies/" + "/".join(re.sub(r"[^A-Za-z0-9._-]|^\.+", "-", part) for part in self.study.id.split("/"))

    @property
    def page(self) -> str:
        """The study's page, below the index."""
        return f"{self.directory}/index.html"

    @property
    def title(self) -> str:
        """The title without markup."""
        return plain(self.study.title)

    @property
    def counts(self) -> dict[str, int]:
        """How many findings have each verdict."""
        return _count([self])

    @property
    def verdict(self) -> str:
        """The gravest verdict, or `not run`."""
        return self.shown.record.verdict if self.shown else NOT_RUN

    @property
    def verdicts(self) -> list[str]:
        """Every verdict among the findings, for the filters."""
        return list(self.counts) or [NOT_RUN]

    @property
    def errata(self) -> list[Row]:
        """The findings that correct a printed formula."""
        return [row for row in self.rows if row.is_erratum]

    @property
    def section(self) -> str:
        """The section in the source, with a § before a bare number."""
        section = self.study.section
        return f"\u00a7\u00a0{section}" if re.fullmatch(r"[A-Z]?[\d.\-]*|[A-Z]", section) else section

    @functools.cached_property
    def listing(self) -> Listing | None:
        """The code that defines the study."""
        return listing(self.study, self.directory)

    @property
    def line(self) -> int:
        """The line of the code where the study begins."""
        return self.study.compute.__code__.co_firstlineno

    @functools.cached_property
    def reading(self) -> list[Page]:
        """The pages of the documentation that name the study."""
        return about(self.study)

    def beside(self, entries: Iterable[Entry]) -> list[Entry]:
        """The other studies of the same section, which the first two numbers decide."""
        return [other for other in entries if other is not self and other._place == self._place]

    @property
    def _place(self) -> tuple[str, ...]:
        return (self.source.key, *self.study.section.split(".")[:2])

    @property
    def search(self) -> str:
        """The text that the search box searches: each part as written in LaTeX, and in plain text."""
        study = self.study
        texts = [study.id, study.title, study.statement, self.section, self.source.title, self.source.authors]
        new = "new" if study.new else ""
        return " ".join(
            [*texts, plain(study.title), plain(study.statement), study.section, new, *self.verdicts]
        ).lower()

    @property
    def command(self) -> str:
        """The command that makes the run that is shown, or a run to show."""
        return command(self.study, self.scale, self.shown.changed if self.shown else None)

    @property
    def settings(self) -> Iterator[Setting]:
        """The configuration of the run that is shown, or of a run at this scale."""
        config = self.shown.config if self.shown else self.study.config(self.scale)
        changed = self.shown.changed if self.shown else {}
        for option in fields_of(type(config)).values():
            yield Setting(
                name=option.name,
                value=content(config)[option.name],
                help=option.metadata.get("help", ""),
                allowed=allowed(option),
                scales={s: v for s in SCALES if (v := option.metadata.get("scales", {}).get(s)) is not None},
                changed=option.name in changed,
            )


@dataclass(frozen=True)
class Chapter:
    """The studies of a chapter."""

    name: str
    title: str
    entries: list[Entry]


@dataclass(frozen=True)
class Part:
    """The studies of a source, by chapter."""

    source: Source
    chapters: list[Chapter]
    entries: list[Entry]

    @property
    def counts(self) -> dict[str, int]:
        """How many findings have each verdict."""
        return _count(self.entries)

    @property
    def waiting(self) -> int:
        """How many studies have not run."""
        return sum(entry.shown is None for entry in self.entries)

    @property
    def errata(self) -> list[tuple[Entry, Row]]:
        """The findings that correct a printed formula, in reading order."""
        return [(entry, row) for entry in self.entries for row in entry.errata]


def parts(entries: Iterable[Entry]) -> list[Part]:
    """The entries by source and chapter, in the order given."""
    by_source: dict[str, list[Entry]] = {}
    for entry in entries:
        by_source.setdefault(entry.source.key, []).append(entry)
    return [Part(group[0].source, list(_chapters(group)), group) for group in by_source.values()]


def totals(entries: Iterable[Entry]) -> dict[str, int]:
    """How many findings of all entries have each verdict, and how many studies have not run."""
    entries = list(entries)
    waiting = sum(entry.shown is None for entry in entries)
    return _count(entries) | ({NOT_RUN: waiting} if waiting else {})


def _chapters(entries: list[Entry]) -> Iterator[Chapter]:
    for name, group in groupby(entries, key=lambda entry: entry.study.chapter):
        members = list(group)
        yield Chapter(name, members[0].source.chapters.get(name, ""), members)


def _marks(reasons: list[str]) -> dict[str, str]:
    """Letters for the reasons that come more than once: a number above the line would look like an exponent."""
    counts = Counter(filter(None, reasons))
    shared = [why for why in counts if counts[why] > 1]
    return {why: chr(ord("a") + place % 26) * (1 + place // 26) for place, why in enumerate(shared)}


def _count(entries: Iterable[Entry]) -> dict[str, int]:
    found = Counter(row.facts["verdict"] for entry in entries for row in entry.rows)
    return {verdict: found[verdict] for verdict in VERDICTS if found[verdict]}


def _on_line(difference: float, tolerance: float) -> float:
    if difference == 0:
        return 0.5
    units = difference / tolerance if tolerance > 0 else math.copysign(math.inf, difference)
    return min(max(0.5 + units / 4, 0.0), 1.0)
