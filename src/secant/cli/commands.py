"""The commands that list, show, run and verify studies, and make the pages."""

from __future__ import annotations

import json
import sys
import time
import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from secant import lab
from secant.cli import present
from secant.cli.compiled import keep_compiled_code
from secant.cli.options import Force, Json, RunScale, UsageError, flag, parse, parse_run, take_id
from secant.core.cores import cores
from secant.core.progress import Bar, reporting
from secant.lab.registry import lookup
from secant.lab.registry.config import SCALES, Scale, allowed, content, fields_of
from secant.lab.runs.store import Record, Store, home
from secant.lab.sweeping.execute import turns_of

__all__ = ["UsageError", "atlas", "list_studies", "run", "runs", "show", "verify"]


@dataclass(frozen=True)
class ListOptions:
    """Every study, in reading order."""

    source: Annotated[str | None, flag("only the studies of this source", "SOURCE")] = None
    json: Json = False


@dataclass(frozen=True)
class VerifyOptions:
    """Every finding of the chosen studies (all by default), predicted against measured."""

    ids: Annotated[tuple[str, ...], tyro.conf.Positional, flag("only these studies", "[ID ...]")] = ()
    source: Annotated[str | None, flag("only the studies of this source", "SOURCE")] = None
    scale: RunScale = "smoke"
    jobs: Annotated[int, flag("studies to run side by side; by default one on each core, up to four")] = min(cores(), 4)
    seeds: Annotated[int, flag("run random studies with so many seeds, and list verdicts that change")] = 1
    strict: Annotated[bool, flag("count an inconclusive finding as one that fails")] = False
    force: Force = False
    json: Json = False


@dataclass(frozen=True)
class AtlasOptions:
    """The web pages of all runs."""

    output: Annotated[Path | None, flag("directory to write; by default `atlas` in Secant's home", "FOLDER")] = None
    scale: Annotated[Scale | None, flag("show runs of this scale only", f"{{{','.join(SCALES)}}}")] = None
    open: Annotated[bool, flag("open the pages in a browser")] = False


@dataclass(frozen=True)
class RunsOptions:
    """Every run in the store."""

    json: Json = False


def list_studies(arguments: list[str]) -> int:
    """`secant list`."""
    options = parse(ListOptions, arguments, "list")
    chosen = lookup.entries(options.source)
    last = _last_records()
    rows = [
        {
            "id": study.id,
            "source": study.id.split("/")[0],
            "section": study.section,
            "title": study.title,
            "statement": study.statement,
            "new": study.new,
            "verdict": last[study.id].verdict if study.id in last else None,
            "scale": last[study.id].scale if study.id in last else None,
        }
        for study in chosen
    ]
    if options.json:
        print(json.dumps(rows, indent=1))
    else:
        present.studies(rows)
    return 0


def show(arguments: list[str]) -> int:
    """`secant show ID`."""
    id, rest = take_id(arguments, "show")
    options = parse(RunsOptions, rest, f"show {id}")
    study = lab.get(id)
    record = _last_records().get(id)
    fields = fields_of(study.config_type)
    facts = {
        "id": study.id,
        "source": study.source.title,
        "section": study.section,
        "title": study.title,
        "statement": study.statement,
        "new": study.new,
        "precision": study.precision,
        "options": {
            name: {"help": field.metadata.get("help", ""), "allowed": allowed(field)}
            | {scale: content(study.config(scale))[name] for scale in lab.SCALES}
            for name, field in fields.items()
        },
        "run": None if record is None else {"directory": str(record.directory), **record.facts},
    }
    if options.json:
        print(json.dumps(facts, indent=1))
    else:
        present.study(facts)
    return 0


def run(arguments: list[str]) -> int:
    """`secant run ID`."""
    id, rest = take_id(arguments, "run")
    study = lab.get(id)
    flags, config = parse_run(study, rest)
    present.device(quiet=flags.json)
    began = time.perf_counter()

    def waiting() -> None:
        print(f"{id}: another process is computing this run; waiting for it.", file=sys.stderr)

    with reporting(Bar(present.errors)):
        record = lab.run(
            study, config=config, scale=flags.scale, force=flags.force, figure=not flags.no_figure, waiting=waiting
        )
    if flags.json:
        print(json.dumps({"directory": str(record.directory), **record.facts}, indent=1))
    else:
        present.record(study, record, time.perf_counter() - began)
    return int(record.verdict == "fails")


def verify(arguments: list[str]) -> int:
    """`secant verify`."""
    options = parse(VerifyOptions, arguments, "verify")
    for name in ("jobs", "seeds"):
        if getattr(options, name) < 1:
            raise UsageError(f"verify: {name}: must be at least 1, got {getattr(options, name)}.")
    chosen = lookup.chosen(options.ids, options.source)
    runs = sum(turns_of(entry, options.scale, options.seeds) for entry in chosen)
    present.device(quiet=options.json)
    board = present.Scoreboard(runs, quiet=options.json, seeds=options.seeds)
    began = time.perf_counter()
    with board:
        rows = lab.verify(
            options.ids,
            source=options.source,
            scale=options.scale,
            force=options.force,
            seeds=options.seeds,
            jobs=options.jobs,
            prepare=keep_compiled_code,
            on_end=board.end,
        )
    if options.json:
        print(json.dumps(rows, indent=1))
    else:
        present.summary(rows, time.perf_counter() - began)
        present.wavering(lab.wavering(rows))
    bad = {"fails", "inconclusive"} if options.strict else {"fails"}
    return int(any(row["verdict"] in bad for row in rows))


def atlas(arguments: list[str]) -> int:
    """`secant atlas`."""
    from secant import atlas as pages

    options = parse(AtlasOptions, arguments, "atlas")
    try:
        index = pages.build(options.output or home() / "atlas", Store(), scale=options.scale)
    except FileExistsError as error:
        raise UsageError(f"atlas: {error}") from None
    print(f"The pages are in {index.parent}; open {index.as_uri()}")
    if options.open:
        webbrowser.open(index.as_uri())
    return 0


def runs(arguments: list[str]) -> int:
    """`secant runs`."""
    options = parse(RunsOptions, arguments, "runs")
    records = Store().records()
    if options.json:
        print(json.dumps([{"directory": str(record.directory), **record.facts} for record in records], indent=1))
    else:
        present.runs(records)
    return 0


def _last_records() -> dict[str, Record]:
    """The newest run of each study."""
    found: dict[str, Any] = {}
    for record in Store().records():
        found[record.study] = record
    return found
