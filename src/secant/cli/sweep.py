"""`secant sweep`: a study at every combination of some values of its options."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.text import Text

from secant import lab
from secant.cli import present
from secant.cli.compiled import keep_compiled_code
from secant.cli.options import Force, Json, RunScale, UsageError, flag, parse_options, take_id
from secant.cli.values import read_over
from secant.core.cores import cores
from secant.core.progress import Bar
from secant.lab.sweeping.grid import grid, value_text
from secant.lab.sweeping.sweep_file import refuse_other


@dataclass(frozen=True)
class SweepFlags:
    """The options of `secant sweep` besides those of the study."""

    over: Annotated[
        tyro.conf.UseAppendAction[tuple[str, ...]],
        flag(
            "an option and its values: seed=0,1,2 or seed=0:100:10 or 'sizes=64,128;256,512'; may be repeated",
            "NAME=VALUES",
        ),
    ] = ()
    scale: RunScale = "laptop"
    engine: Annotated[
        Literal["here", "processes", "ray"] | None,
        flag("where cells are computed: here; processes with --jobs; ray with --address", "{here,processes,ray}"),
    ] = None
    jobs: Annotated[int | None, flag("cells to compute side by side; by default one on each core", "INT")] = None
    cores: Annotated[int, flag("threads of each process or worker")] = 1
    address: Annotated[str | None, flag("address of a running Ray cluster, such as auto or host:6379", "ADDRESS")] = (
        None
    )
    output: Annotated[Path | None, flag("netCDF file to write the data of all cells to", "FILE")] = None
    overwrite: Annotated[bool, flag("replace the output even if it holds another sweep")] = False
    force: Force = False
    json: Json = False


def sweep(arguments: list[str]) -> int:
    """`secant sweep ID --over NAME=VALUES`."""
    id, rest = take_id(arguments, "sweep")
    study = lab.get(id)
    flags, options = parse_options(SweepFlags, study, rest, "sweep")
    if not flags.over:
        raise UsageError(f"over: name an option and its values, as in `secant sweep {id} --over NAME=0.1,0.2`.")
    over, engine = read_over(study, flags.over), _engine(flags)
    try:
        cells = grid(study, over, flags.scale, options)
        if flags.output is not None and not flags.overwrite:
            refuse_other(flags.output, cells.identity)  # before hours of work, not after
    except FileExistsError as error:
        raise UsageError(f"output: {error}".replace("force=True", "--overwrite")) from None
    except (TypeError, ValueError) as error:
        raise UsageError(str(error)) from None
    if flags.address is None:
        present.device(quiet=flags.json)
    elif not flags.json:
        print(f"secant: computing on the Ray cluster at {flags.address}", file=sys.stderr)
    began = time.perf_counter()
    try:
        found = lab.sweep(
            study,
            over,
            scale=flags.scale,
            engine=engine,
            force=flags.force,
            progress=Bar(present.errors, "runs"),
            **options,
        )
    except ImportError as error:
        raise UsageError(f"engine: {error}") from None
    if flags.output is not None:
        found.save(flags.output, force=flags.overwrite)
    if flags.json:
        print(json.dumps(_facts(found, flags.output), indent=1))
    else:
        _show(found, flags.output, time.perf_counter() - began)
    return int(any(record.verdict == "fails" for record in found.cells))


def _engine(flags: SweepFlags) -> lab.Engine:
    several = flags.jobs is not None and flags.jobs != 1
    name = flags.engine or ("ray" if flags.address else "processes" if several else "here")
    if flags.address is not None and name != "ray":
        raise UsageError(
            f"address: only a Ray cluster has an address, got {flags.address!r} with --engine {name}. Use --engine ray."
        )
    if name == "here" and several:
        raise UsageError(f"jobs: --engine here is one process, got --jobs {flags.jobs}. Use --engine processes or ray.")
    if flags.cores < 1:
        raise UsageError(f"cores: must be at least 1, got {flags.cores}.")
    try:
        if name == "processes":
            jobs = max(1, cores() // flags.cores) if flags.jobs is None else flags.jobs
            return lab.Processes(jobs, keep_compiled_code, flags.cores)
        if name == "ray":
            return lab.Ray(flags.address, flags.jobs, flags.cores, keep_compiled_code)
    except ValueError as error:
        raise UsageError(f"sweep: {error}") from None
    return lab.Here()


def _facts(found: lab.Sweep, output: Path | None) -> dict[str, Any]:
    return {
        "study": found.study.id,
        "over": found.over,
        "cells": [
            {"options": options, "verdict": record.verdict, "directory": str(record.directory), **record.facts}
            for options, record in zip(found.grid.cells, found.cells, strict=True)
        ],
        "output": None if output is None else str(output),
    }


def _show(found: lab.Sweep, output: Path | None, seconds: float) -> None:
    present.output.print(present.head(found.study.id, found.study.title))
    labelled = [{name: value_text(value) for name, value in cell.items()} for cell in found.grid.cells]
    present.cells(labelled, found.cells)
    computed = sum(record.seconds for record in found.cells)
    present.output.print()
    present.output.print(f"{len(found.cells)} cells: ", present.tally(record.verdict for record in found.cells))
    where = "--output FILE.nc writes the data of all cells" if output is None else f"the data is in {output}"
    present.output.print(Text(f"computed in {computed:.2f} s; this command took {seconds:.2f} s; {where}", style="dim"))
