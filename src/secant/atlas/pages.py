"""Builds the pages: gathers their contents, fills the templates and copies the files beside them."""

from __future__ import annotations

import datetime
import os
import shutil
import warnings
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2

from secant._version import __version__
from secant.atlas import numbers, reading
from secant.atlas.entries import Entry, parts, totals
from secant.atlas.formulas import typeset
from secant.atlas.listing import with_shared
from secant.atlas.runs import Shown, choose, outdated, rebuild
from secant.atlas.swap import AtlasError, replacing
from secant.atlas.watched import Run, of_record, runs_below
from secant.lab import SCALES, CorruptRunError, Store, StoreError, Study, catalog, save_figures
from secant.lab.drawing import figure_files
from secant.lab.runs import files
from secant.lab.runs.record import sealed
from secant.lab.sweeping.execute import draw

__all__ = ["AtlasError", "build", "watched_page"]


def build(
    destination: Path | str,
    store: Store | None = None,
    scale: str | None = None,
    *,
    studies: Iterable[Study] | None = None,
) -> Path:
    """Writes the pages of every study and returns the path of their index.

    For each study the pages show one sound run, made by today's code with the study's own configuration. They choose
    the largest scale there is (`paper`, then `laptop`, then `smoke`), or `scale` if given. If every run has changed
    options, the pages show one of these. Studies without a run are listed with the command that runs them. Missing
    figures are drawn. A figure file that differs from what was drawn is left out, with a warning that names the file.
    Every watched run has a page too.

    The pages replace older pages only when they are complete. They need no network and no server.

    Args:
        destination: a directory that is new, empty, or holds pages of an earlier build, which are replaced as a whole.
        store: the store with the runs; by default the one below `$SECANT_HOME`.
        scale: show runs of this scale only.
        studies: these studies instead of all.

    Raises:
        FileExistsError: `destination` holds something else.
        AtlasError: the pages cannot be written.

    Example:
        ```python
        from pathlib import Path
        from secant import atlas, lab

        index = atlas.build(Path("atlas"), studies=[lab.get("quadreg/fig-2")])
        ```
    """
    if scale is not None and scale not in SCALES:
        raise ValueError(f"scale: unknown scale {scale!r}. Use one of {', '.join(SCALES)}.")
    store = store or Store()
    destination = Path(destination)
    with replacing(destination) as directory:
        entries = [_entry(study, store, scale) for study in (catalog() if studies is None else studies)]
        for entry in entries:
            _copy_files(entry, store, directory / entry.directory)
        _write_pages(entries, runs_below(store.root / "watched"), directory, rebuild(destination, scale))
        _copy_static(directory)
    return destination.expanduser().resolve() / "index.html"


def watched_page(path: str | os.PathLike[str], destination: Path | str) -> Path:
    """Writes the page of one watched run and returns the path of the page.

    The page needs no network and no server, because every file that it shows lies beside it.

    Args:
        path: the folder of a record, or its name in Secant's home.
        destination: a directory that is new, empty, or holds pages of an earlier build, which are replaced as a whole.

    Raises:
        secant.monitors.RecordError: there is no record, or it cannot be read.
        FileExistsError: `destination` holds something else.
        AtlasError: the page cannot be written.

    Example:
        ```python
        import tempfile
        from pathlib import Path
        from secant import atlas, monitors

        folder = Path(tempfile.mkdtemp())
        with monitors.Writer(folder / "run", {"framework": "jax", "optimiser": "sgd"}) as writer:
            writer.append({"step": 0, "loss": 2.0}, {"step": 10, "loss": 1.5})
        print(atlas.watched_page(folder / "run", folder / "page").name)
        ```
        ```text
        index.html
        ```
    """
    run = of_record(path)
    destination = Path(destination)
    with replacing(destination) as directory:
        page = environment().get_template("watched.html").render(_common(), root="", alone=True, run=run)
        (directory / "index.html").write_text(page, encoding="utf-8")
        _copy_static(directory)
    return destination.expanduser().resolve() / "index.html"


def _copy_static(directory: Path) -> None:
    for file in resources.files("secant.atlas").joinpath("static").iterdir():
        target = directory / "static" / file.name
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(file.read_bytes())


def _common() -> dict[str, Any]:
    """The values that every page needs."""
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return {"version": __version__, "built": now, "alone": False, "theory": None, "errata_count": 0, "runs": []}


def _entry(study: Study, store: Store, scale: str | None) -> Entry:
    shown = choose(study, store, scale)
    return Entry(
        study=study,
        shown=shown,
        scale=shown.scale if shown else scale or "laptop",
        outdated=shown is None and scale is None and outdated(study, store),
    )


def _copy_files(entry: Entry, store: Store, directory: Path) -> None:
    """Copies the run's files to the folder of its page, and draws the figure if there is none."""
    directory.mkdir(parents=True, exist_ok=True)
    if entry.shown is None:
        return
    record = entry.shown.record
    if files.copy(record.directory, "data.nc", directory / "data.nc") != record.facts["files"]["data.nc"]:
        raise CorruptRunError(f"the run in {record.directory} changed while its pages were made")
    (directory / "run.json").write_bytes(sealed(record.facts))
    try:
        entry.figure = _copy_figure(entry.study, entry.shown, store, directory)
    except figure_files.CorruptFigureError as error:
        entry.figure_error = str(error)
        warnings.warn(
            f"{entry.study.id}: the figure in {record.directory} is left out ({error}); `{entry.command}` draws it "
            "again.",
            RuntimeWarning,
            stacklevel=2,
        )
    except Exception as error:  # a figure that cannot be drawn costs its own page a picture, not everyone the pages
        entry.figure_error = f"{type(error).__name__}: {error}"
        warnings.warn(
            f"{entry.study.id}: the figure cannot be drawn ({entry.figure_error}).", RuntimeWarning, stacklevel=2
        )


def _copy_figure(study: Study, shown: Shown, store: Store, directory: Path) -> bool:
    if study._figure is None:
        return False
    found = figure_files.read(shown.record)
    if found is None:
        try:
            draw(study, shown.record, shown.config, store)
        except StoreError:  # a store that can only be read: the figure is drawn for these pages alone
            save_figures(study, shown.record.data(), shown.config, directory)
            return True
        found = figure_files.read(shown.record)
    for name, content in (found or {}).items():
        (directory / name).write_bytes(content)
    return found is not None


def _write_pages(entries: list[Entry], runs: list[Run], directory: Path, again: str) -> None:
    templates = environment()
    shelf = reading.shelf()
    carried = {page.name: page.page for page in shelf}
    book = parts(entries)
    common = _common() | {
        "parts": book,
        "totals": totals(entries),
        "errata_count": sum(len(part.errata) for part in book),
        "theory": carried.get(reading.THEORY),
        "verdicts": carried.get(reading.VERDICTS),
        "runs": runs,
        "rebuild": again,
    }

    def write(path: str, template: str, **values: Any) -> None:
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        page = templates.get_template(template).render(common, root="../" * path.count("/"), **values)
        target.write_text(page, encoding="utf-8")

    done = [entry for entry in entries if entry.shown]
    waiting = [entry for entry in entries if not entry.shown]
    write("index.html", "index.html", entries=entries, done=parts(done), waiting=parts(waiting))
    write("errata.html", "errata.html")
    for before, entry, after in zip([None, *entries], entries, [*entries[1:], None], strict=False):
        beside = {"previous": before, "next": after, "beside": entry.beside(entries)}
        write(entry.page, "study.html", entry=entry, study=entry.study, shown=entry.shown, **beside)
    for run in runs:
        write(run.page, "watched.html", run=run)
    listings = {entry.listing: entry for entry in entries if entry.listing}
    for one in with_shared(list(listings)):
        write(one.page, "code.html", listing=one, entry=listings.get(one))
    addresses = {entry.study.id: entry.page for entry in entries}
    for page in shelf:
        write(page.page, "reading.html", page=page, html=page.html(shelf, addresses))
        _copy_reading_figures(page, directory)


def _copy_reading_figures(page: reading.Page, directory: Path) -> None:
    root = reading.folder()
    for name in page.figures if root else ():
        target = directory / "docs" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(Path(root or "") / name, target)


def environment() -> jinja2.Environment:
    """The templates. They escape everything that is not marked as safe."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("secant.atlas", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "inline": typeset.inline,
        "prose": typeset.prose,
        "excerpt": typeset.excerpt,
        "first_sentence": typeset.first_sentence,
        "sentence": typeset.sentence,
        "finding": typeset.of_finding,
        "plain": typeset.plain,
        "claim": typeset.statement_of,
        "number": numbers.number,
        "exact": numbers.exact,
        "odds": numbers.odds,
        "duration": numbers.duration,
        "moment": _moment,
    }
    return environment


def _moment(iso: str) -> str:
    """A date and time, to the minute, in its own time zone."""
    when = datetime.datetime.fromisoformat(iso)
    return f"{when.day} {when:%B %Y, %H:%M %Z}"
