"""A finished run on disk: what `run.json` must contain, and the check of its content.

Nothing read from a disk is trusted: neither the form, nor the digests, which anyone can compute again.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import math
import re
import reprlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from secant.lab.runs import files, netcdf

if TYPE_CHECKING:
    import xarray as xr

FORMAT = 2
RUN_FILE = "run.json"

LARGEST = 32 * 2**20
"""Bytes of the largest `run.json` that is read. The files of Secant's studies have some thousands."""

DEEPEST = 16
"""How deep lists and mappings may be nested."""

VERDICTS = ("holds", "erratum", "inconclusive", "fails")
"""Sorted from the least to the most serious."""


class CorruptRunError(ValueError):
    """The files of a run have changed since they were written."""


@dataclass(frozen=True)
class Record:
    """A finished run: its directory and the content of its `run.json`."""

    directory: Path
    facts: dict[str, Any]

    @property
    def study(self) -> str:
        """Id of the study."""
        return self.facts["study"]

    @property
    def scale(self) -> str:
        """The scale of the run."""
        return self.facts["scale"]

    @property
    def findings(self) -> list[dict[str, Any]]:
        """The findings as plain values. In a run from before keys, place `k` has the key `finding-k`."""
        return [{"key": f"finding-{place}"} | finding for place, finding in enumerate(self.facts["findings"])]

    @property
    def seconds(self) -> float:
        """How long the computation took."""
        return self.facts["seconds"]

    @property
    def verdict(self) -> str:
        """The most serious verdict among the findings."""
        return gravest(finding["verdict"] for finding in self.findings)

    def data(self) -> xr.Dataset:
        """The data of the run."""
        return netcdf.read(self.directory / "data.nc")

    def files(self) -> dict[str, bytes]:
        """The files of the run by name: all that another store needs to [`adopt`][secant.lab.Store] the run."""
        try:
            return {name: files.content(self.directory, name) for name in (RUN_FILE, *self.facts["files"])}
        except OSError as error:
            raise corrupt(self.directory, error) from error


def gravest(verdicts: Any) -> str:
    """The verdict that a reader should see first."""
    return max(verdicts, key=VERDICTS.index, default="inconclusive")


def load(directory: Path) -> Record:
    """Reads a run, and checks its form and the digests of its files.

    Raises:
        CorruptRunError: names the run and what is wrong with it.
    """
    try:
        facts = read(files.content(directory, RUN_FILE, at_most=LARGEST))
        check(facts)
        for name, digest in facts["files"].items():
            if files.digest(directory, name) != digest:
                raise ValueError(f"its files do not match their digests: {name}")
    except (OSError, ValueError) as error:
        raise corrupt(directory, error) from error
    return Record(directory, facts)


def corrupt(directory: Path, why: Exception) -> CorruptRunError:
    """The error that names a run and what is wrong with it."""
    what = str(why) if type(why) is ValueError else f"{type(why).__name__}: {why}"
    return CorruptRunError(f"the run in {directory} is corrupt ({what})")


def sealed(facts: dict[str, Any]) -> bytes:
    """The bytes of `run.json`: the facts with a digest of themselves."""
    return (json.dumps({**facts, "digest": digest_of_facts(facts)}, indent=1) + "\n").encode()


def read(content: bytes) -> dict[str, Any]:
    """The facts in the bytes of a `run.json`. A `ValueError` says what is wrong with them."""
    try:
        facts = json.loads(content.decode(), parse_constant=_no_number, parse_float=_finite)
        if not isinstance(facts, dict):
            raise ValueError(f"expected a mapping, got {reprlib.repr(facts)}")
        _check_plain(facts, "", DEEPEST)
        if facts.get("digest") != digest_of_facts(facts):
            raise ValueError("its facts do not match their digests")
    except RecursionError:
        raise ValueError(f"its lists and mappings are nested more than {DEEPEST} deep") from None
    return facts


def digest_of_facts(facts: dict[str, Any]) -> str:
    """The SHA-256 of the facts without the digest itself."""
    rest = {name: value for name, value in facts.items() if name != "digest"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def check(facts: dict[str, Any]) -> None:
    """Checks the facts of a run. A `ValueError` names the first fact that is wrong.

    Further facts, unknown to this version, are allowed.
    """
    if facts.get("format") != FORMAT:
        raise ValueError(f"its format is {reprlib.repr(facts.get('format'))}, and this version reads {FORMAT}")
    _check_fields(facts, _FACTS, "")


def _check_fields(found: Any, fields: dict[str, Check], where: str) -> None:
    if not isinstance(found, dict):
        raise _wrong(where, "a mapping", found)
    for name, test in fields.items():
        place = f"{where}.{name}" if where else name
        if name not in found:
            raise ValueError(f"{place} is missing")
        test(found[name], place)


Check = Callable[[Any, str], None]
"""Raises a `ValueError` that names the place, what was expected and what was found."""


def _wrong(where: str, expected: str, value: Any) -> ValueError:
    return ValueError(f"{where}: expected {expected}, got {reprlib.repr(value)}")


def _satisfies(test: Callable[[Any], bool], expected: str) -> Check:
    def check(value: Any, where: str) -> None:
        if not test(value):
            raise _wrong(where, expected, value)

    return check


def _matches(pattern: str, expected: str) -> Check:
    compiled = re.compile(pattern)
    return _satisfies(lambda value: isinstance(value, str) and compiled.fullmatch(value) is not None, expected)


def _one_of(*allowed: str) -> Check:
    return _satisfies(lambda value: isinstance(value, str) and value in allowed, f"one of {', '.join(allowed)}")


def _is_moment(value: Any) -> bool:
    try:
        return datetime.datetime.fromisoformat(value).tzinfo is not None
    except (TypeError, ValueError):
        return False


def _check_findings(value: Any, where: str) -> None:
    if not isinstance(value, list):
        raise _wrong(where, "a list", value)
    for place, finding in enumerate(value):
        _check_fields(finding, _FINDING, f"{where}[{place}]")
        if "key" in finding:
            _TEXT(finding["key"], f"{where}[{place}].key")
        if "printed" in finding or "printed_value" in finding:
            _check_fields(finding, _ERRATUM, f"{where}[{place}]")


def _check_versions(value: Any, where: str) -> None:
    if not isinstance(value, dict):
        raise _wrong(where, "a mapping", value)
    for name, version in value.items():
        _TEXT(version, f"{where}.{name}")


def _check_files(value: Any, where: str) -> None:
    if not isinstance(value, dict) or "data.nc" not in value:
        raise _wrong(where, "a mapping that has data.nc", value)
    for name, digest in value.items():
        if not files.is_plain_name(name) or name == RUN_FILE:
            raise _wrong(where, "the names of other files of the run's directory", name)
        _DIGEST(digest, f"{where}.{name}")


_TEXT = _satisfies(lambda value: isinstance(value, str), "text")
_DIGEST = _matches("[0-9a-f]{64}", "a SHA-256")
_NUMBER = _satisfies(
    lambda value: value in ("nan", "inf", "-inf") if isinstance(value, str) else _is_number(value),
    "a number, nan, inf or -inf",
)

_FINDING: dict[str, Check] = {
    "finding": _TEXT,
    "predicted": _NUMBER,
    "measured": _NUMBER,
    "tolerance": _NUMBER,
    "verdict": _one_of(*VERDICTS),
    "relation": _one_of("equal", "at most", "at least"),
    "uncertainty": _NUMBER,
    "freedom": _NUMBER,
    "risk": _NUMBER,
    "reason": _TEXT,
    "why": _TEXT,
    "note": _TEXT,
}
_ERRATUM: dict[str, Check] = {
    "printed": _TEXT,
    "corrected": _TEXT,
    "printed_value": _NUMBER,
    "where": _TEXT,
    "by": _one_of("run", "derivation"),
}
_FACTS: dict[str, Check] = {
    "study": _matches("[^/]+(/[^/]+)+", "an id such as quadreg/fig-2"),
    "scale": _TEXT,
    "config": _satisfies(lambda value: isinstance(value, dict), "a mapping"),
    "key": _matches("[0-9a-f]{16}", "16 hexadecimal digits"),
    "code": _TEXT,
    "precision": _one_of("float32", "float64"),
    "findings": _check_findings,
    "seconds": _satisfies(lambda value: _is_number(value) and value >= 0, "a number of at least 0"),
    "finished": _satisfies(_is_moment, "a date and time with its zone"),
    "versions": _check_versions,
    "files": _check_files,
    "digest": _DIGEST,
}

_NOT_WRITTEN = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
"""Characters that no finding has: control characters of a terminal, and lone surrogates, which cannot be written."""


def _check_plain(value: Any, where: str, depth: int) -> None:
    """Checks that every value can be shown, compared and written again, also a value unknown to this version."""
    if depth < 0:
        raise RecursionError
    if isinstance(value, str):
        if _NOT_WRITTEN.search(value):
            raise _wrong(where or "its facts", "text without control characters", value)
    elif isinstance(value, dict):
        for name, entry in value.items():
            _check_plain(name, where, depth - 1)
            _check_plain(entry, f"{where}.{name}" if where else name, depth - 1)
    elif isinstance(value, list):
        for place, entry in enumerate(value):
            _check_plain(entry, f"{where}[{place}]", depth - 1)
    elif isinstance(value, int) and not isinstance(value, bool) and not _is_number(value):
        raise _wrong(where, "a number of at most 300 digits", value)


def _is_number(value: Any) -> bool:
    """Whether the value is a number that a float can hold."""
    try:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return False


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        _no_number(text)
    return value


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is not a number that a run has")
