"""`secant watch`: a watched run in the terminal, while it trains."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from secant.cli import braille
from secant.cli.options import UsageError, flag, parse
from secant.monitors.display import Last, above_edge, budget_of, events, facts, last_step, last_values, panels
from secant.monitors.records.listing import kept, running
from secant.monitors.records.record import Reader, RecordError, Watched, read
from secant.monitors.records.text import clean

CHARTS = ("Loss", "Sharpness against", "Batch sharpness", "Noise scale", "How much longer")
"""First words of the titles of panels that are drawn; the other panels appear as numbers with their course."""
AT_MOST = 4
NOTES = 5
LARGE = 32 * 2**20
"""The list shows no numbers of a record with more bytes than this."""


@dataclass(frozen=True)
class WatchOptions:
    """A watched run: its loss, its curvature against the edge, its noise, and the monitor's notes.

    Follows the run until it ends, or until Ctrl-C. Without RUN, lists the records in Secant's home.
    """

    run: Annotated[str | None, tyro.conf.Positional, flag("name of a record, or its folder", "[RUN]")] = None
    once: Annotated[bool, flag("print one frame and end")] = False
    seconds: Annotated[float, flag("shortest time between two frames, in seconds")] = 1.0


def watch(arguments: list[str]) -> int:
    """`secant watch [RUN]`."""
    options = parse(WatchOptions, arguments, "watch")
    if not 0.05 <= options.seconds <= 86_400:
        raise UsageError(f"watch: seconds: must be from 0.05 to 86400, got {options.seconds:g}.")
    console = Console(highlight=False)
    if not (console.encoding or "").lower().startswith("utf"):
        sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        if options.run is None:
            return _list(console)
        return _follow(console, Reader(options.run), once=options.once, seconds=options.seconds)
    except RecordError as error:
        print(f"secant: watch: {clean(str(error))}", file=sys.stderr)
        return 1


def frame(run: Watched, width: int, *, goes_on: bool, height: int | None = None) -> Group:
    """One frame of a run, `width` columns wide, with as much as fits into `height` lines."""
    head, said = _head(run, goes_on=goes_on), _said(run)
    room = 10**6 if height is None else height - len(head) - sum(1 + line.cell_len // max(width, 1) for line in said)
    body: list[Text | Table] = []
    for lines in _charts(run, width):
        if len(lines) <= room:
            room -= len(lines)
            body += lines
    rows = last_values(run, at_most=min(24, max(room - 1, 0)))
    body += [Text(""), _numbers(run, rows, width)] if rows else []
    return Group(*head, *body, *said)


def _head(run: Watched, *, goes_on: bool) -> list[Text]:
    step = last_step(run)
    first = Text(clean(run.path.resolve().name), style="bold", overflow="ellipsis", no_wrap=True)
    first.append("  ")
    first.append("goes on" if goes_on else "ended", "green" if goes_on else "not bold")
    first.append("" if step is None else f" at step {step:,}", "not bold dim")
    told = ", ".join(_told(name, words) for name, words in facts(run.about) if name not in ("secant", "budget"))
    lines = [first]
    if told:
        lines.append(Text(told, style="dim", overflow="ellipsis", no_wrap=True))
    return lines if run.rows else [*lines, Text("Nothing has been measured yet.")]


def _charts(run: Watched, width: int) -> Iterator[list[Text]]:
    """The first panels, each as lines."""
    steps = [row["step"] for row in run.rows]
    drawn = [panel for panel in panels(run) if panel.finite.size and panel.title.startswith(CHARTS)]
    for panel in drawn[:AT_MOST]:
        heading = Text(panel.title, style="bold", overflow="ellipsis", no_wrap=True)
        alone = sum(not series.edge for series in panel.series) == 1
        for index, series in enumerate(panel.series):
            style = braille.EDGE if series.edge else braille.STYLES[index % len(braille.STYLES)]
            name = "" if alone and not series.edge else f"{series.name} "
            heading.append(f"  {name}{braille.number(series.values[-1])}", style=f"not bold {style}")
        if (above := above_edge(panel)) and above[0] and "edge" in panel.title:
            heading.append(f"  above at {above[0]:,} of {above[1]:,}", style="not bold red")
        yield [Text(""), heading, *braille.chart(panel, width, (min(steps), max(steps)))]


def _told(name: str, words: str) -> str:
    return words if name in ("framework", "optimiser", "model") else f"{name} {words}"


def _numbers(run: Watched, rows: list[Last], width: int) -> Table:
    """The last value of every quantity, and its course."""
    table = Table(box=None, pad_edge=False, show_header=False, width=width)
    table.add_column(no_wrap=True, overflow="ellipsis", max_width=20)
    table.add_column(justify="right", no_wrap=True, min_width=9)
    table.add_column(justify="right", no_wrap=True, style="dim")
    table.add_column(no_wrap=True, overflow="crop", style="cyan", ratio=1)
    budget = budget_of(run.about)
    for last in rows:
        values = run.column(last.name)[1]
        shown = braille.number(last.value)
        if last.name == "share":
            shown = f"{last.value:.1%}" + (f" of {budget:.0%}" if budget else "")
        table.add_row(Text(last.name), Text(shown), Text(f"{last.step:,}"), Text(braille.spark(values, 36)))
    return table


def _said(run: Watched) -> list[Text]:
    happened = events(run, last=5_000)[-NOTES:]
    lines = [Text("")] if run.notes or run.damaged or happened else []
    for event in happened:
        until = "" if event.end is None else f" to {event.end:,}"
        lines.append(Text.assemble((f"step {event.step:,}{until}: ", "dim"), (event.text, "red")))
    if len(run.notes) > NOTES:
        lines.append(Text(f"{len(run.notes) - NOTES:,} earlier notes", style="dim"))
    for step, text in run.notes[-NOTES:]:
        lines.append(Text.assemble((f"step {step:,}: ", "dim"), text[:600]))
    if run.damaged:
        lines.append(Text(f"{run.damaged:,} lines of the record could not be read", style="yellow"))
    return lines


def _follow(console: Console, reader: Reader, *, once: bool, seconds: float) -> int:
    goes_on = running(reader.path)
    if once or not goes_on:
        run = reader.read()
        console.print(frame(run, console.width, goes_on=goes_on))
        return int(not run.rows and not goes_on)
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        while True:
            began = time.monotonic()
            goes_on = running(reader.path)  # asked before reading, so that the last frame has the last line
            run = reader.read()
            tall = console.height - 1 if console.is_terminal else None
            live.update(frame(run, console.width, goes_on=goes_on, height=tall), refresh=True)
            if not goes_on:
                return 0
            time.sleep(max(seconds, 10 * (time.monotonic() - began)))


def _list(console: Console) -> int:
    found = kept()
    if not found:
        console.print(Text("No run has been watched yet. `secant.monitor` in your training loop watches one."))
        return 0
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("run", "framework", "optimiser", "step", "loss", "written (UTC)", ""):
        table.add_column(column, justify="right" if column in ("step", "loss") else "left", overflow="ellipsis")
    for path in found:
        table.add_row(*(Text(cell) for cell in _line(path)))
    console.print(table)
    return 0


def _line(path: Path) -> list[str]:
    rows = path / "rows.jsonl"
    facts_of_file = rows.lstat() if rows.exists() else path.lstat()
    when = datetime.fromtimestamp(facts_of_file.st_mtime, UTC).strftime("%Y-%m-%d %H:%M")
    name, state = path.name, "goes on" if running(path) else ""
    if facts_of_file.st_size > LARGE:
        return [name, "", "", "", "", when, state]
    try:
        run = read(path)
    except RecordError as error:
        return [name, "", "", "", "", when, clean(str(error).removeprefix(f"{path}: "))]
    told, step, losses = dict(facts(run.about)), last_step(run), run.column("loss")[1]
    loss = braille.number(losses[-1]) if losses.size else ""
    middle = [told.get("framework", ""), told.get("optimiser", ""), "" if step is None else f"{step:,}", loss]
    return [name, *middle, when, state]
