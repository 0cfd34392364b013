"""Which studies there are."""

from __future__ import annotations

import functools
import importlib
import pkgutil
import re
from collections.abc import Iterable

from secant.lab.names import closest
from secant.lab.study import Source, Study


class UnknownStudyError(LookupError):
    """An id or a source that no study has."""


@functools.cache
def _all() -> dict[str, Study]:
    import secant.studies

    found: dict[str, Study] = {}
    for info in pkgutil.walk_packages(secant.studies.__path__, "secant.studies."):
        if info.ispkg:
            continue
        module = importlib.import_module(info.name)
        for value in vars(module).values():
            if isinstance(value, Study) and value.compute.__module__ == info.name:
                if value.id in found:
                    raise ValueError(f"two studies are called {value.id!r}: {found[value.id].module}, {value.module}")
                found[value.id] = value
    return dict(sorted(found.items(), key=lambda item: _reading_order(item[1])))


def catalog(source: str | None = None) -> list[Study]:
    """Every study, or every study of one source, in reading order.

    Example:
        ```python
        import secant as sc

        [study.id for study in sc.catalog("quadreg")]
        ```
    """
    everything = list(_all().values())
    if source is None:
        return everything
    known = sources()
    if source not in known:
        raise UnknownStudyError(f"unknown source {source!r}.{closest(source, known)} Sources: {', '.join(known)}.")
    return [study for study in everything if study.source.key == source]


def sources() -> dict[str, Source]:
    """Every source that has studies, by its key."""
    return {study.source.key: study.source for study in _all().values()}


def get(id: str) -> Study:
    """The study with this id."""
    found = _all()
    if id not in found:
        raise UnknownStudyError(f"unknown study {id!r}.{closest(id, found)} `secant list` shows all of them.")
    return found[id]


def select(ids: Iterable[str] = (), source: str | None = None) -> list[Study]:
    """The named studies, or all of a source, or all."""
    ids = list(ids)
    chosen = [get(id) for id in ids] if ids else catalog(source)
    return [study for study in chosen if source is None or study.source.key == source]


def _reading_order(study: Study) -> tuple[object, ...]:
    def natural(text: str) -> list[tuple[int, int | str]]:
        return [(0, int(t)) if t.isdigit() else (1, t) for t in re.findall(r"\d+|\D+", text)]

    return (study.id.split("/")[0], natural(study.chapter), natural(study.section), natural(study.id))
