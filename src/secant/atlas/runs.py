"""Chooses the run of a study that the pages show, and gives the commands that make the run and the pages."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from secant.lab import SCALES, CorruptRunError, Record, Store, Study
from secant.lab.registry.config import content
from secant.lab.registry.study import Config
from secant.lab.runs.store import HomeError, home


@dataclass(frozen=True)
class Shown:
    """A run to show.

    Attributes:
        record: the run.
        config: its configuration.
        scale: the scale that its options are changed from.
        changed: the options that differ from that scale's defaults.
    """

    record: Record
    config: Config
    scale: str
    changed: dict[str, Any]


def choose(study: Study, store: Store, scale: str | None = None) -> Shown | None:
    """The run to show: sound, made with today's code, of the study's own configuration, at the largest scale.

    Scales are tried from `paper` over `laptop` to `smoke`, or only the one given. A run with changed options is shown
    only where there is none without; of several the largest scale, then the newest.
    """
    if not (store.runs / study.id).exists():  # else the code of every study is read, to look for nothing
        return None
    scales: list[str] = [scale] if scale else [*reversed(SCALES)]
    for name in scales:
        config = study.config(name)
        directory = store.directory(study, config)
        if directory.exists() and (record := _sound(store, directory)):
            # One configuration can be that of two scales; the reader meets the name it was run under.
            told = record.scale
            own = scale is None and told in SCALES and content(study.config(told)) == content(config)
            return Shown(record, config, told if own else name, {})
    others = [shown for shown in _changed(study, store) if shown.scale in scales]
    return max(others, key=lambda s: (-scales.index(s.scale), s.record.facts["finished"]), default=None)


def outdated(study: Study, store: Store) -> bool:
    """Whether the study has runs, made by any version of the code."""
    return bool(_directories(study, store))


def command(study: Study, scale: str, changed: dict[str, Any] | None = None) -> str:
    """The command line that makes a run."""
    words = ["secant", "run", study.id, "--scale", scale]
    for name, value in (changed or {}).items():
        words += _flag(name.replace("_", "-"), value)
    return shlex.join(words)


def _flag(name: str, value: Any) -> list[str]:
    if isinstance(value, bool):  # a flag flips its default, so the changed one is the one that exists
        return [f"--{name}" if value else f"--no-{name}"]
    if isinstance(value, (list, tuple)):
        return [f"--{name}", *map(str, _flat(value))]
    return [f"--{name}={value}"] if str(value).startswith("-") else [f"--{name}", str(value)]


def _flat(value: Any) -> Iterator[Any]:
    for entry in value:
        if isinstance(entry, (list, tuple)):
            yield from _flat(entry)
        else:
            yield entry


def _changed(study: Study, store: Store) -> Iterator[Shown]:
    for directory in _directories(study, store):
        if not (record := _sound(store, directory)) or record.scale not in SCALES:
            continue
        given = {name: _tuples(value) for name, value in record.facts["config"].items()}
        try:
            config = study.config(record.scale, **given)
        except (TypeError, ValueError):  # options that today's study does not have
            continue
        if store.directory(study, config) == directory:  # the name has a digest of the code in it
            defaults = content(study.config(record.scale))
            changed = {name: value for name, value in given.items() if _tuples(defaults[name]) != value}
            yield Shown(record, config, record.scale, changed)


def rebuild(destination: Path | str, scale: str | None) -> str:
    """The command that builds the pages in this place again."""
    place = Path(destination).expanduser()
    words = ["secant", "atlas"]
    try:
        usual = (home() / "atlas").resolve() == place.resolve()
    except HomeError:
        usual = False
    if not usual:
        words += ["--output", str(destination)]
    return shlex.join([*words, *(["--scale", scale] if scale else []), "--open"])


def _directories(study: Study, store: Store) -> list[Path]:
    return sorted(path for path in (store.runs / study.id).glob("*") if not path.name.startswith("."))


def _sound(store: Store, directory: Path) -> Record | None:
    try:
        return store.read(directory)
    except CorruptRunError as error:
        warnings.warn(f"{error}; it is passed over.", RuntimeWarning, stacklevel=2)
        return None


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, (list, tuple)) else value
