"""Which studies there are."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping

from secant.core.names import closest
from secant.lab.registry.shelf import Entry, Shelf, heads
from secant.lab.registry.study import Source, Study


class UnknownStudyError(LookupError):
    """An id or a source that no study has."""


@functools.cache
def _all() -> Mapping[str, Study]:
    return Shelf(heads())


def entries(source: str | None = None) -> list[Entry | Study]:
    """Id, section, title and statement of every study, or of one source, in reading order; nothing is imported."""
    found = _all()
    everything: list[Entry | Study] = [*(found.entries if isinstance(found, Shelf) else found).values()]
    if source is None:
        return everything
    known = list(dict.fromkeys(study.id.split("/")[0] for study in everything))
    if source not in known:
        raise UnknownStudyError(f"unknown source {source!r}.{closest(source, known)} Sources: {', '.join(known)}.")
    return [study for study in everything if study.id.startswith(f"{source}/")]


def catalog(source: str | None = None) -> list[Study]:
    """Every study, or every study of one source, in reading order.

    Example:
        ```python
        import secant as sc

        [study.id for study in sc.catalog("quadreg")]
        ```
    """
    return [get(study.id) for study in entries(source)]


def sources() -> dict[str, Source]:
    """Every source that has studies, by its key."""
    first = {study.id.split("/")[0]: study.id for study in reversed(entries())}
    return {key: get(first[key]).source for key in reversed(first)}


def get(id: str) -> Study:
    """The study with this id."""
    _check(id)
    return _all()[id]


def chosen(ids: Iterable[str] = (), source: str | None = None) -> list[Entry | Study]:
    """Id, section, title and statement of the named studies, of one source, or of all; nothing is imported."""
    known = {study.id: study for study in entries(source)}
    ids = list(ids)
    for id in ids:
        _check(id)
    return [known[id] for id in ids if id in known] if ids else list(known.values())


def select(ids: Iterable[str] = (), source: str | None = None) -> list[Study]:
    """The named studies, the studies of one source, or all studies."""
    return [get(study.id) for study in chosen(ids, source)]


def _check(id: str) -> None:
    found = _all()
    if id not in found:
        raise UnknownStudyError(f"unknown study {id!r}.{closest(id, found)} `secant list` shows all of them.")
