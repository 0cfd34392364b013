"""Prints results in a terminal."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console, Group
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from secant.lab.plain import plain
from secant.lab.registry.shelf import Entry
from secant.lab.registry.study import Study
from secant.lab.runs.store import Record, gravest
from secant.lab.verdicts.seeds import Wavering

PLAIN_WIDTH = 150
COLOURS = {"holds": "green", "fails": "bold red", "erratum": "magenta", "inconclusive": "yellow", "not run": "dim"}
MARKS = {"holds": "✓", "fails": "✗", "erratum": "!", "inconclusive": "?", "not run": "·"}

output = Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH, highlight=False)
errors = Console(stderr=True, highlight=False)


def device(*, quiet: bool) -> None:
    """Prints in one line where this process computes; this starts JAX."""
    if quiet:
        return
    import jax

    from secant.core.cores import threads

    first, *others = jax.devices()
    if first.platform == "cpu":
        count = threads()
        what = f"{count} core" if count == 1 else f"{count} cores"
    else:
        what = f"{first.device_kind}, one of {len(others) + 1}" if others else first.device_kind
    print(f"secant: computing on {jax.default_backend()} ({what})", file=sys.stderr)


def number(value: Any) -> str:
    """A number as text, with at most seven digits."""
    return f"{value:.7g}" if isinstance(value, (int, float)) else str(value)


def verdict(name: str | None) -> Text:
    """A verdict with its mark and colour."""
    name = name or "not run"
    return Text(f"{MARKS[name]} {name}", style=COLOURS[name])


def head(id: str, title: str) -> Text:
    """A study's id and title."""
    return Text.assemble((id, "bold"), "  ", plain(title))


def studies(rows: list[dict[str, Any]]) -> None:
    """The table of `secant list`."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("study", "section", "title", "last verdict", "scale"):
        table.add_column(column, no_wrap=column != "title")
    for row in rows:
        title = Text(plain(row["title"])) + (Text("  new", style="cyan") if row["new"] else Text(""))
        _add(table, row["id"], row["section"], title, verdict(row["verdict"]), row["scale"] or "")
    output.print(table)


def study(facts: dict[str, Any]) -> None:
    """The page of `secant show`."""
    place = f"{facts['source']}, section {facts['section']}" + ("; a result of our own" if facts["new"] else "")
    output.print(
        head(facts["id"], facts["title"]), Text(place, style="dim"), "", Text(plain(facts["statement"])), "", sep="\n"
    )
    table = Table(box=None, pad_edge=False, header_style="bold", title_justify="left")
    for column in ("option", "smoke", "laptop", "paper", "allowed", "meaning"):
        table.add_column(column)
    for name, option in facts["options"].items():
        values = [str(option[scale]) for scale in ("smoke", "laptop", "paper")]
        _add(table, "--" + name.replace("_", "-"), *values, option["allowed"], plain(option["help"]))
    output.print(table)
    if facts["run"]:
        output.print("", Text(f"last run ({facts['run']['scale']}, {facts['run']['finished']}):"), sep="\n")
        output.print(findings_table(facts["run"]["findings"]))


def record(study: Study, run: Record, seconds: float) -> None:
    """The result of `secant run`."""
    output.print(head(study.id, study.title))
    output.print(findings_table(run.findings))
    output.print(
        Text(
            f"computed in {run.seconds:.2f} s; this command took {seconds:.2f} s; saved in {run.directory}", style="dim"
        )
    )


def findings_table(findings: list[dict[str, Any]]) -> Padding:
    """The table of findings: predicted, measured, tolerance, verdict."""
    table = Table(box=None, pad_edge=False, header_style="bold", width=min(output.width - 2, PLAIN_WIDTH - 2))
    table.add_column("finding", ratio=1)
    for column in ("predicted", "measured", "tolerance"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    signs = {"equal": "", "at most": "≤ ", "at least": "≥ "}
    for finding in findings:
        name = Group(Text(plain(finding["finding"])), *_asides(finding))
        predicted = signs[finding.get("relation", "equal")] + number(finding["predicted"])
        if "printed_value" in finding:
            predicted += f"\n(printed: {number(finding['printed_value'])})"
        measured, tolerance = number(finding["measured"]), number(finding["tolerance"])
        _add(table, name, predicted, measured, tolerance, verdict(finding["verdict"]))
    return Padding(table, (0, 0, 0, 2))


def runs(records: list[Record]) -> None:
    """The table of `secant runs`."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("study", "scale", "verdict", "seconds", "finished", "directory"):
        table.add_column(column, no_wrap=column != "directory", overflow="fold")
    for run in records:
        _add(
            table,
            run.study,
            run.scale,
            verdict(run.verdict),
            f"{run.seconds:.2f}",
            run.facts["finished"].replace("+00:00", "Z"),
            str(run.directory),
        )
    output.print(table)


def cells(options: list[dict[str, str]], records: Sequence[Record]) -> None:
    """The table of `secant sweep`."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in options[0]:
        table.add_column(column, justify="right", overflow="fold")
    table.add_column("verdict", no_wrap=True)
    table.add_column("seconds", justify="right", no_wrap=True)
    for values, run in zip(options, records, strict=True):
        _add(table, *values.values(), verdict(run.verdict), f"{run.seconds:.2f}")
    output.print(table)


class Scoreboard:
    """`secant verify` while it runs: the findings of each study, and the progress."""

    def __init__(self, total: int, quiet: bool, seeds: int = 1) -> None:
        self._quiet, self._seeds = quiet, seeds
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=errors,
            transient=True,
            disable=not errors.is_terminal,
        )
        self._task = self._bar.add_task("", total=total)

    def __enter__(self) -> Scoreboard:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def end(self, study: Entry | Study, rows: list[dict[str, Any]]) -> None:
        """Shows the findings of a study that has ended."""
        self._bar.update(self._task, advance=1, description=study.id)
        if not self._quiet:
            output.print(head(study.id, study.title + self._seed(rows)))
            output.print(findings_table(rows))

    def _seed(self, rows: list[dict[str, Any]]) -> str:
        return f" (seed {rows[0]['seed']})" if self._seeds > 1 and rows[0]["seed"] is not None else ""


def summary(rows: list[dict[str, Any]], seconds: float) -> None:
    """The last lines of `secant verify`: findings that fail or are inconclusive, by name, and the count."""
    studies = {row["study"] for row in rows}
    for name in ("inconclusive", "fails"):
        for row in rows:
            if row["verdict"] == name:
                output.print(verdict(name), Text(f"{row['study']}: {plain(row['finding'])}"), *_asides(row))
    output.print()
    output.print(
        f"{len(rows)} findings in {len(studies)} studies, {seconds:.1f} s: ", tally(row["verdict"] for row in rows)
    )


def wavering(found: Sequence[Wavering]) -> None:
    """Prints which verdicts depend on the seed, and which fail more often than their claim allows."""
    for one in found:
        counts = ", ".join(f"{count} {name}" for name, count in one.verdicts.most_common())
        says = f"once in {1 / one.risk:,.0f}" if one.risk else "never"
        beyond = f"; it fails more often than its claim allows ({says})" if one.beyond else ""
        output.print(Text(f"changes with the seed: {one.study}: {plain(one.finding)}: {counts}{beyond}"))


def tally(verdicts: Iterable[str]) -> Text:
    """The number of times that each verdict came."""
    counts = Counter(verdicts)
    parts = [f"{counts[name]} {name}" for name in ("holds", "erratum", "inconclusive", "fails") if counts[name]]
    return Text(", ".join(parts), style=COLOURS[gravest(counts)])


def _add(table: Table, *cells: str | Text | Group) -> None:
    """Adds a row in which brackets stay brackets, because rich reads plain strings as markup."""
    table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in cells))


def _asides(finding: dict[str, Any]) -> list[Text]:
    """The reason and the note of a finding that does not simply hold."""
    if finding["verdict"] == "holds":
        return []
    return [Text(plain(finding[key]), style="dim") for key in ("reason", "note") if finding.get(key)]
