"""The page of a diagnosis: one file that needs nothing beside it and no network."""

from __future__ import annotations

import math
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from secant._version import __version__
from secant.atlas import reading
from secant.atlas.pages import environment
from secant.atlas.traces import Curve, Trace
from secant.lab.registry import lookup
from secant.lab.runs.store import home
from secant.monitors.doctor.diagnosis import Diagnosis
from secant.monitors.doctor.reading import along_of, loads_of, sound
from secant.monitors.records.record import Watched


@np.errstate(all="ignore")  # a record may hold any number
def page(watched: Watched, diagnosis: Diagnosis) -> str:
    """The diagnosis of a record as a page of HTML. Everything from the record is shown as text, never as markup.

    Args:
        watched: the record.
        diagnosis: what [`diagnose`][secant.monitors.diagnose] made of it.
    """
    static = resources.files("secant.atlas").joinpath("static")
    said = [
        (one, title_of(one.study), address_of(one.study) if one.study else guide_address(one.guide))
        for one in diagnosis.sentences
    ]
    facts = {
        key: value
        for key, value in sorted(watched.about.items())
        if key not in ("plan", "format") and isinstance(value, str | int | float | dict)
    }
    return (
        environment()
        .get_template("doctor.html")
        .render(
            css=Markup(static.joinpath("atlas.css").read_text(encoding="utf-8")),
            name=str(watched.about.get("name") or watched.path.name),
            diagnosis=diagnosis,
            said=said,
            traces=[one for one in traces(sound(watched), diagnosis) if one.svg],
            facts=facts,
            rows=len(watched.rows),
            damaged=watched.damaged,
            notes=watched.notes[:20],
            version=__version__,
        )
    )


def title_of(study: str) -> str:
    """The title of a study, or the id if no study has this id."""
    return next((one.title for one in lookup.entries() if one.id == study), study)


def address_of(study: str) -> str:
    """The address of the study's page, if `secant atlas` has built one here."""
    found = home() / "atlas" / "studies" / Path(study) / "index.html"
    return found.resolve().as_uri() if study and found.is_file() else ""


def guide_name(guide: str) -> str:
    """The file of a page of the documentation, with its heading; without the file here, its place in the documentation.

    Args:
        guide: `guide/page.md#heading`.
    """
    name, _, heading = guide.partition("#")
    root = reading.folder()
    file = root / name if root is not None and (root / name).is_file() else Path("docs") / name
    return f"{file}, {heading.replace('-', ' ')!r}" if heading else str(file)


def guide_address(guide: str) -> str:
    """The address of a documentation page, if `secant atlas` has built one here."""
    name, _, heading = guide.partition("#")
    found = home() / "atlas" / "docs" / Path(name).with_suffix(".html")
    return f"{found.resolve().as_uri()}#{heading}" if guide and found.is_file() else ""


def traces(watched: Watched, diagnosis: Diagnosis) -> list[Trace]:
    """What the page draws: the loss with its spikes, the load against the edge, lengths, step sizes and noise."""
    last = watched.rows[-1]["step"] if watched.rows else 0
    marks = [
        (one.onset, last if one.end is None else one.end, f"{one.cause}, steps {one.onset} to {one.end or last}")
        for one in diagnosis.spikes
    ]
    loads, (when, values) = loads_of(watched), along_of(watched)
    edge = Curve("edge", np.array([0, last]), np.ones(2), 3, dashed=True)
    numbers = diagnosis.numbers
    safe = [
        Curve("largest safe step now", np.array([0, last]), np.full(2, numbers[key]), 3, dashed=True)
        for key in ("safe_lr",)
        if math.isfinite(numbers.get(key, math.nan))
    ]
    return [
        Trace("Loss, and its spikes", [_curve(watched, "loss", 0)], marks),
        Trace(
            "Curvature over the optimiser's edge",
            [
                Curve("sharpest direction", loads.steps[loads.whole], loads.values[loads.whole], 0, points=True),
                Curve("along the step", when, values, 1, points=True),
                edge,
            ]
            if len(loads.steps) or len(when)
            else [],
            marks,
        ),
        Trace(
            "Length of gradient and update",
            [_curve(watched, "gradient_norm", 0, "gradient"), _curve(watched, "update_norm", 1, "update")],
            marks,
        ),
        Trace("Step size", [_curve(watched, "lr", 0, "in use"), *safe]),
        Trace(
            "Batch against the critical one",
            [_curve(watched, "noise_scale", 0, "critical batch", points=True), _curve(watched, "batch", 1, "batch")]
            if len(watched.column("noise_scale")[1])
            else [],
        ),
    ]


def _curve(watched: Watched, name: str, style: int, label: str = "", **look: Any) -> Curve:
    return Curve(label or name, *watched.column(name), style, **look)
