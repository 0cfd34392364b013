"""The record of a watched run on disk: lines that are appended, so that a record can be read while it grows.

A record is a folder. `about.json` says what is watched. `rows.jsonl` has a line of JSON for every row, with the step
and those [columns][secant.monitors.records.columns.COLUMNS] that were measured. Only whole lines are read: a kill or a
full disk loses the line that it hits, and nothing before. One writer at a time holds the lock.

A record may come from a stranger. A reader opens only plain files of the record's folder and takes only numbers and
text from them. It makes the text [harmless][secant.monitors.records.text.clean].
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from secant._version import __version__
from secant.core.files import replace
from secant.lab.runs import files
from secant.lab.runs.store import home
from secant.monitors.records.text import clean, cleaned

FORMAT = 1
"""The format of the files; a reader refuses a later one."""

ABOUT, ROWS, LOCK = "about.json", "rows.jsonl", ".lock"
LARGEST = 1 << 20
"""Largest size of `about.json`, or of a line, in bytes; a reader refuses more."""

_LINE = json.JSONEncoder(allow_nan=False)  # one for all lines


NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")


class RecordError(OSError):
    """A record cannot be read or written. The text says which record, why, and what works."""


def place(name: str | os.PathLike[str] | None = None) -> Path:
    """The folder of a record: a path as it is, a plain name below `watched` in Secant's home, or a new folder there.

    Args:
        name: a path with a separator, or a name of letters, digits, `.`, `_` and `-`; None for a new folder.
    """
    if name is None:
        root, number = home() / "watched", 1
        while (root / f"run-{number}").exists():
            number += 1
        return root / f"run-{number}"
    text = os.fspath(name)
    apart = os.sep in text or (os.altsep is not None and os.altsep in text) or text in (".", "..")
    if "\0" not in text and (apart or (text and Path(text).is_dir())):
        return Path(text).expanduser()
    if not NAME.fullmatch(text):
        raise RecordError(
            f"monitor: the name of a record has letters, digits, '.', '_' and '-' only, got {text!r}. Give such a "
            f"name, or a path with a {os.sep!r} in it."
        )
    return home() / "watched" / text


@dataclass(frozen=True)
class Watched:
    """A record as it was read.

    Attributes:
        path: its folder.
        about: what was watched: `format`, `secant`, `framework`, `optimiser`, `parameters`, `plan` and the like.
        rows: one dictionary for each line, in the order of writing; each has a `step`.
        notes: `(step, text)`, what the monitor said.
        damaged: how many lines could not be read, including a line that is being written.
    """

    path: Path
    about: dict[str, Any]
    rows: list[dict[str, Any]]
    notes: list[tuple[int, str]]
    damaged: int = 0

    def column(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Steps at which a quantity was measured, `(n,)`, and its values, `(n,)`."""
        steps, values = self._columns.get(name, ([], []))
        return np.asarray(steps, int), np.asarray(values, float)

    @property
    def names(self) -> list[str]:
        """The quantities that were measured at least once."""
        return [name for name in self._columns if name not in ("step", "time")]

    @functools.cached_property
    def _columns(self) -> dict[str, tuple[list[int], list[float]]]:
        """All columns in one pass, because there may be a million rows."""
        found: dict[str, tuple[list[int], list[float]]] = {}
        for row in self.rows:
            step = row["step"]
            for name, value in row.items():
                steps, values = found.setdefault(name, ([], []))
                steps.append(step)
                values.append(value)
        return found


class Writer:
    """Appends to a record; use as a context manager, or `close` it.

    Args:
        path: the folder, new or that of an earlier part of the same run.
        about: plain facts for `about.json`.

    Raises:
        RecordError: another process writes there, a later version wrote the record, or the folder cannot be written.
    """

    def __init__(self, path: Path, about: Mapping[str, Any]) -> None:
        self.path, self.about = Path(path), {"format": FORMAT, "secant": __version__, **about}
        with _explained(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = _locked(self.path / LOCK)
            try:
                self._begin()
            except BaseException:
                self._lock.close()
                raise

    def _begin(self) -> None:
        earlier = self.path / ABOUT
        if earlier.is_symlink() or earlier.exists():
            before = _read_about(self.path).get("resumed", 0)
            self.about = {**self.about, "resumed": 1 + (before if isinstance(before, int) else 0)}
        replace(earlier, json.dumps(plain(self.about), indent=1, sort_keys=True).encode())
        self._file = _appended(self.path / ROWS)
        size = os.fstat(self._file.fileno()).st_size
        if size:  # ends a line that a kill cut, so that the next line is whole
            with (self.path / ROWS).open("rb") as file:
                file.seek(size - 1)
                if file.read(1) != b"\n":
                    self._file.write(b"\n")

    def append(self, *rows: Mapping[str, Any]) -> None:
        """Writes lines in one go. A write that fails leaves the earlier lines as they were."""
        content = b"".join(_LINE.encode(plain(row)).encode() + b"\n" for row in rows)
        with _explained(self.path):
            start = self._file.tell()
            written = self._file.write(content)
            if written != len(content):
                os.ftruncate(self._file.fileno(), start)
                raise OSError(28, "No space left on device")

    def note(self, step: int, text: str) -> None:
        """Writes a note with the step at which it happened."""
        self.append({"step": step, "said": text})

    def rewrite_about(self, **facts: Any) -> None:
        """Adds facts to `about.json`."""
        self.about |= facts
        with _explained(self.path):
            replace(self.path / ABOUT, json.dumps(plain(self.about), indent=1, sort_keys=True).encode())

    def close(self) -> None:
        """Ends writing; another process may then go on."""
        self._file.close()
        self._lock.close()

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read(path: str | os.PathLike[str]) -> Watched:
    """A record as it is now, finished or not.

    Args:
        path: its folder, or its name in Secant's home.

    Raises:
        RecordError: there is no record, or a later version wrote it.

    Example:
        ```python
        import tempfile
        from pathlib import Path
        from secant import monitors

        folder = Path(tempfile.mkdtemp()) / "run"
        with monitors.Writer(folder, {"framework": "jax"}) as writer:
            writer.append({"step": 0, "loss": 2.0}, {"step": 10, "loss": 1.5, "sharpness": 30.0})
        run = monitors.read(folder)
        print(run.names, run.column("loss")[1])
        ```
        ```text
        ['loss', 'sharpness'] [2.  1.5]
        ```
    """
    return Reader(path).read()


class Reader:
    """Reads a record again and again while it grows, each time only its new lines; `read` reads it once.

    Args:
        path: its folder, or its name in Secant's home.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = place(path)
        self._start()

    def read(self) -> Watched:
        """The record as it is now.

        Raises:
            RecordError: there is no record, or a later version wrote it.
        """
        with _explained(self.path):
            about = _read_about(self.path)
            half = _Rows()
            if (self.path / ROWS).is_symlink() or (self.path / ROWS).exists():
                with files.opened(self.path, ROWS) as file:
                    half = self._take(file)
        found = self._found
        rows, notes = found.rows + half.rows, found.notes + half.notes
        return Watched(self.path, about, rows, notes, found.damaged + half.damaged)

    def _start(self) -> None:
        self._found, self._end, self._node = _Rows(), 0, -1

    def _take(self, file: Any) -> _Rows:
        """Takes the lines that have come; what is behind the last of them, which may lack nothing but its end."""
        facts = os.fstat(file.fileno())
        if facts.st_ino != self._node or facts.st_size < self._end:  # another file than last time
            self._start()
            self._node = facts.st_ino
        file.seek(self._end)
        behind = _Rows()
        while line := file.readline(LARGEST):
            if not line.endswith(b"\n"):
                if len(line) < LARGEST:
                    behind.take(line)
                    break
                while line and not line.endswith(b"\n"):  # the rest of a line that is too long
                    line = file.readline(LARGEST)
                line = b"too long"
            self._found.take(line)
            self._end = file.tell()
        return behind


@dataclass
class _Rows:
    rows: list[dict[str, Any]] = field(default_factory=list)
    notes: list[tuple[int, str]] = field(default_factory=list)
    damaged: int = 0

    def take(self, line: bytes) -> None:
        try:
            row = _DECODER.decode(line.decode())
            step = row["step"]
            if isinstance(step, bool) or not isinstance(step, int) or not 0 <= step < 2**63:
                raise ValueError("step")
            if "said" in row:
                self.notes.append((step, clean(str(row["said"]))))
            else:
                self.rows.append({"step": step} | {_key(k): number(v) for k, v in row.items() if k != "step"})
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
            self.damaged += bool(line.strip())


def number(value: Any) -> float:
    """A number of a line; NaN and infinity, which JSON lacks, are written as text."""
    if type(value) is float:  # nearly always
        return value
    if isinstance(value, str) and value in ("nan", "inf", "-inf"):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{value!r} is not a number")
    return float(value)


def plain(value: Any) -> Any:
    """Facts as JSON can keep them: numbers of arrays as numbers, NaN and infinity as text."""
    if type(value) is float and math.isfinite(value):  # nearly always
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, bool | str) or value is None:
        return value
    if isinstance(value, int | np.integer):
        return int(value)
    as_float = float(value)
    return (
        as_float if math.isfinite(as_float) else ("nan" if math.isnan(as_float) else "inf" if as_float > 0 else "-inf")
    )


def _read_about(folder: Path) -> dict[str, Any]:
    path = folder / ABOUT
    if not path.is_symlink() and not path.is_file():
        raise RecordError(
            f"{folder}: there is no record of a watched run here, because {ABOUT} is missing. Give the name or the "
            "folder of a record; `secant watch` lists those in Secant's home."
        )
    try:
        about = cleaned(_DECODER.decode(files.content(folder, ABOUT, at_most=LARGEST).decode()))
        version = about["format"]
        if isinstance(version, bool) or not isinstance(version, int):
            raise ValueError("its format is not a number")
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise RecordError(f"{path}: this file cannot be read ({why}). The rows are in {ROWS} beside it.") from error
    if version > FORMAT:
        raise RecordError(
            f"{folder}: the record is of format {version}, written by Secant {about.get('secant', 'of later date')}. "
            f"This is Secant {__version__}, which reads format {FORMAT}. Update Secant, or write to another folder."
        )
    return about


def _appended(path: Path) -> Any:
    """Opens a file for appending, and makes it if needed; a link is refused."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise RecordError(f"{path} leads elsewhere, or is not a plain file. Give the record a folder of its own.")
    return os.fdopen(os.open(path, flags, 0o644), "ab", buffering=0)


def _locked(path: Path) -> Any:
    """The lock of a folder, held until the file is closed."""
    file = _appended(path)
    try:
        import fcntl
    except ImportError:  # a system without locks cannot refuse a second writer
        return file
    for attempt in range(3):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return file
        except BlockingIOError:
            time.sleep(0.05 * attempt)
    file.close()
    raise RecordError(f"{path.parent}: another process writes this record. Give the second run a folder of its own.")


@contextlib.contextmanager
def _explained(folder: Path) -> Iterator[None]:
    try:
        yield
    except RecordError:
        raise
    except OSError as error:
        raise RecordError(f"{folder}: {error.strerror or error}.") from error


def _refuse(text: str) -> None:
    raise ValueError(f"{text} is not a number in JSON")


_key = functools.lru_cache(maxsize=4096)(clean)

_DECODER = json.JSONDecoder(parse_constant=_refuse)
"""One decoder for all lines, because making one takes longer than reading a line."""
