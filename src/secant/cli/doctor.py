"""`secant doctor`: the diagnosis of a watched run, or of a model before its first step."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from secant.cli import present
from secant.cli.options import Json, UsageError, flag, parse
from secant.core.files import replace
from secant.monitors import RecordError, Watched, diagnose, read
from secant.monitors.doctor.diagnosis import Diagnosis
from secant.monitors.step_trial import is_module

STYLES = {"spike": "bold", "overflow": "bold", "regime": "bold", "limits": "yellow"}
LOOKS = 4
"""Number of looks at a factory's model, each at another batch if the factory gives several."""


@dataclass(frozen=True)
class DoctorOptions:
    """What is wrong with a run, from its record, or with a model before its first step, from `module:factory`.

    A factory takes no arguments and returns `(loss, params, batch)` or `(loss, params, batch, optimiser)`, where
    `loss(params, batch)` is a number. `params` may be a module of PyTorch, and `batch` a function of the step. The exit
    status is 0 for a healthy run, 1 for a run that is not, and 2 if the command line is wrong.
    """

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN", help="a record, or module:factory")]
    json: Json = False
    trial: Annotated[
        int, flag("find the largest step size of a factory's model by trial runs of so many steps; 0: no trial")
    ] = 0
    page: Annotated[Path | None, flag("write the diagnosis as a page of HTML to this file", "FILE")] = None


def doctor(arguments: list[str]) -> int:
    """`secant doctor RUN`."""
    options = parse(DoctorOptions, arguments, "doctor")
    watched = _watched(options.run, options.trial)
    found = diagnose(watched)
    if options.page is not None:
        from secant.atlas.doctor import page

        try:
            replace(options.page, page(watched, found).encode())
        except OSError as error:
            raise UsageError(f"doctor: --page {options.page}: {error.strerror or error}.") from None
    if options.json:
        print(found.as_json())
    else:
        _show(watched, found)
        if options.page is not None:
            present.output.print(Text(f"The page is in {options.page}", style="dim"))
    return int(not found.healthy)


def _watched(given: str, trial: int) -> Watched:
    module, colon, name = given.partition(":")
    if colon and not Path(given).exists() and all(part.isidentifier() for part in (*module.split("."), name)):
        return _looked_at(module, name, trial)
    if trial:
        raise UsageError(
            f"doctor: --trial needs module:factory, a model that can be trained, got the record {given!r}. Give a "
            "factory, or leave --trial out."
        )
    try:
        return read(given)
    except RecordError as error:
        raise UsageError(f"doctor: {error}") from None


def _looked_at(module: str, name: str, trial: int) -> Watched:
    """A few looks at a factory's model; only its module is imported, from here or from where Python finds it."""
    from secant.monitors import largest_step, monitor

    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        factory = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        raise UsageError(
            f"doctor: there is no module {error.name!r} to import {module}:{name} from. Run the command in the folder "
            "of the module, or install the module."
        ) from None
    except AttributeError:
        raise UsageError(f"doctor: {module} has no {name!r}. Name a function of this module.") from None
    if not callable(factory):
        raise UsageError(
            f"doctor: {module}:{name} must be a function that returns (loss, params, batch), got "
            f"{type(factory).__name__}."
        )
    made: Any = factory()
    if not isinstance(made, tuple | list) or len(made) not in (3, 4) or not callable(made[0]):
        raise UsageError(
            f"doctor: {module}:{name} must return (loss, params, batch) or (loss, params, batch, optimiser), with "
            f"loss(params, batch) a number; it returned {type(made).__name__}."
        )
    loss, params, batch, optimiser = (*made, None)[:4]
    batch_of = batch if callable(batch) else lambda step: batch
    of_torch = is_module(params)
    model = {"model": params} if of_torch else {}
    with monitor(loss, optimiser=optimiser, record=False, every=1, name=f"{module}:{name}", **model) as watch:
        if of_torch:
            for step in range(LOOKS):
                watch(step, batch_of(step))
        else:
            init = getattr(getattr(optimiser, "transformation", optimiser), "init", None)
            state = init(params) if callable(init) else None
            for step in range(LOOKS):
                watch(step, params, state, batch_of(step), loss=loss(params, batch_of(step)))
        if trial:
            try:
                tried = largest_step(loss, params, batch, optimiser, steps=trial, progress=_told)
            except (TypeError, ValueError) as error:
                raise UsageError(f"doctor: --trial: {error}") from None
            watch.tell(trial=tried.facts())
    return watch.watched


def _told(text: str) -> None:
    print(text, file=sys.stderr)


def _show(watched: Watched, found: Diagnosis) -> None:
    from secant.atlas.doctor import guide_name, title_of

    name = str(watched.about.get("name") or watched.path.name)
    colour = "green" if found.healthy else "bold red"
    mark = "✓" if found.healthy else "✗"
    present.output.print(Text.assemble((name, "bold"), "  ", (f"{mark} {found.verdict}", colour), f"  {found.regime}"))
    table = Table(box=None, pad_edge=False, show_header=False, width=min(present.output.width - 2, 118))
    table.add_column(no_wrap=True)
    table.add_column(ratio=1)
    for one in found.sentences:
        table.add_row(Text(one.about, style="dim"), Text(one.text, style=STYLES.get(one.about, "")))
        if one.study:
            table.add_row("", Text(f"{title_of(one.study)}: secant run {one.study}", style="dim"))
        elif one.guide:
            table.add_row("", Text(f"No study stands behind this sentence; see {guide_name(one.guide)}", style="dim"))
    present.output.print(Padding(table, (0, 0, 0, 2)))
    said = f"{len(watched.rows)} rows" + (f", {watched.damaged} lines that cannot be read" if watched.damaged else "")
    present.output.print(Text(f"{said} in {watched.path}", style="dim"))
