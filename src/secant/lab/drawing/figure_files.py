"""The files of a run's figure, with digests. Only unchanged files are shown."""

from __future__ import annotations

import os
from typing import Any

from secant.core.files import replace
from secant.lab.drawing.figures import FIGURE_FILES, save_figures
from secant.lab.drawing.svg import check_svg
from secant.lab.registry.study import Study
from secant.lab.runs import files, record
from secant.lab.runs.record import Record

FIGURES_FILE = "figures.json"
"""Holds the digests of the run and of every file of its figure. It is written last, and whole."""

LARGEST = 256 * 2**20
"""Bytes of the largest figure file that is read."""


class CorruptFigureError(ValueError):
    """A file of a figure has changed since it was drawn. The error names the file and what is wrong."""


def save(study: Study, run: Record, config: Any) -> None:
    """Draws the figure of a run into its directory, replaces old files, and writes the digests."""
    path = run.directory / FIGURES_FILE
    path.unlink(missing_ok=True)  # until the end of this function the run has no valid figure
    save_figures(study, run.data(), config, run.directory)
    digests = {name: files.digest(run.directory, name) for name in FIGURE_FILES}
    replace(path, record.sealed({"run": run.facts["digest"], "files": digests}))


def read(run: Record) -> dict[str, bytes] | None:
    """Every file of the figure of a run; None if the figure was not drawn to its end.

    Raises:
        CorruptFigureError: a file has changed, is not a regular file, or contains more than a picture.
    """
    if not os.path.lexists(run.directory / FIGURES_FILE):
        return None
    name = FIGURES_FILE
    try:
        facts = record.read(files.content(run.directory, name, at_most=2**20))
        digests = facts.get("files")
        if facts.get("run") != run.facts["digest"] or not isinstance(digests, dict):
            raise ValueError("it is not of this run")
        found = {}
        for name in FIGURE_FILES:
            found[name] = files.content(run.directory, name, at_most=LARGEST)
            if files.digest_of(found[name]) != digests.get(name):
                raise ValueError("it is not what was drawn")
            if name.endswith(".svg"):
                check_svg(found[name])
    except (OSError, ValueError) as error:
        what = error.strerror if isinstance(error, OSError) else str(error)
        raise CorruptFigureError(f"{name}: {what}") from error
    return found


def is_drawn(run: Record) -> bool:
    """Whether the figure of a run is there and unchanged."""
    try:
        return read(run) is not None
    except CorruptFigureError:
        return False
