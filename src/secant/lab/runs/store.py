"""The run store: one directory a run, written whole or not at all."""

from __future__ import annotations

import contextlib
import datetime
import errno
import hashlib
import json
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from secant.core.files import flush, replacing_directory
from secant.lab.registry import config as configs
from secant.lab.registry.study import Config, Study
from secant.lab.runs import files as plain
from secant.lab.runs import netcdf
from secant.lab.runs.code import code_version
from secant.lab.runs.record import (
    FORMAT,
    RUN_FILE,
    CorruptRunError,
    Record,
    check,
    corrupt,
    gravest,
    load,
    read,
    sealed,
)

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["CorruptRunError", "Record", "Store", "StoreError", "gravest", "load"]


class StoreError(OSError):
    """The store cannot be written or read. Its runs are untouched."""


class HomeError(StoreError):
    """The directory for runs cannot be used. The error names it and says what works."""


def home() -> Path:
    """Where Secant keeps its runs: `$SECANT_HOME`, or `secant` in the user's data directory.

    Raises:
        HomeError: the place cannot be a directory.
    """
    for variable, below in (("SECANT_HOME", ""), ("XDG_DATA_HOME", "secant")):
        if given := os.environ.get(variable):
            what, place = f"{variable} is {given!r}", Path(given, below)
            break
    else:
        what, place = "SECANT_HOME is not set", Path("~/.local/share/secant")
    try:
        found = place.expanduser()
        above = next(part for part in (found, *found.absolute().parents) if part.exists())
        wrong = "" if above.is_dir() else f"{above} is not a directory"
    except RuntimeError:
        wrong = f"there is no home directory {place.parts[0]}"
    except OSError as error:
        wrong = f"it cannot be reached: {why_not(error)[0]}"
    if wrong:
        raise HomeError(f"{what}, and {wrong}. {_ADVICE}")
    return found


_ADVICE = "Set SECANT_HOME to a directory that you can write to, new or not, such as /tmp/secant."


class Store:
    """Runs on disk, keyed by the content of their configuration and the code that made them.

    A run is prepared in a hidden directory and renamed into place, so a reader never sees half a run. `run.json` holds
    a digest of every file and of itself. A run that does not match is reported and computed again.
    """

    def __init__(self, root: str | os.PathLike[str] | None = None) -> None:
        self.root = Path(root) if root is not None else home()
        self.runs = self.root / "runs"

    def directory(self, study: Study, config: Config) -> Path:
        """The directory of the run of this configuration, which need not exist yet."""
        return self.runs / study.id / key(study, config)

    def has(self, study: Study, config: Config) -> bool:
        """Whether there is a finished run of this configuration, intact or not."""
        directory = self.directory(study, config)
        with self.explained("read the run"):
            return directory.exists()

    def find(self, study: Study, config: Config) -> Record | None:
        """The finished run of this configuration, or None. A corrupt run is reported by a warning."""
        if not self.has(study, config):
            return None
        try:
            return self.read(self.directory(study, config))
        except CorruptRunError as error:
            warnings.warn(f"{study.id}: {error}; it will be computed again.", RuntimeWarning, stacklevel=2)
            return None

    def read(self, directory: Path) -> Record:
        """The run in a directory of this store, checked: it is intact, and it belongs there.

        Raises:
            CorruptRunError: names the run and what is wrong with it.
        """
        record = load(directory)
        place = f"{record.study}/{record.facts['key']}"
        if self.runs / place != directory:
            raise corrupt(directory, ValueError(f"it is the run {place}"))
        return record

    def save(
        self, study: Study, config: Config, scale: str, data: xr.Dataset, findings: list[Any], seconds: float
    ) -> Record:
        """Writes a run and puts it in place. A corrupt run there is replaced."""
        target = self.directory(study, config)
        with self.explained("write the run"), _prepared(target) as partial:
            (partial / "data.nc").write_bytes(netcdf.content(data))
            facts = {
                "format": FORMAT,
                "study": study.id,
                "scale": scale,
                "config": configs.content(config),
                "key": target.name,
                "code": code_version(study),
                "precision": study.precision,
                "findings": findings,
                "seconds": seconds,
                "finished": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
                "versions": _versions(),
                "files": {"data.nc": plain.digest(partial, "data.nc")},
            }
            written = sealed(facts)
            try:
                check(read(written))  # a run that cannot be read again is refused now, not by the next reader
            except ValueError as error:
                raise ValueError(f"{study.id}: this run cannot be saved: {error}.") from None
            (partial / RUN_FILE).write_bytes(written)
        return self.read(target)

    def adopt(self, study: Study, config: Config, files: dict[str, bytes]) -> Record:
        """Puts in place a run from elsewhere, given by its [`Record.files`][secant.lab.Record].

        Raises:
            CorruptRunError: the files have changed since they were written.
            ValueError: the run is of another study, configuration or version of the code.
        """
        target = self.directory(study, config)
        with contextlib.suppress(CorruptRunError):
            present = self.read(target)
            if present.files() == files:
                return present
        for name in files:
            if not plain.is_plain_name(name):
                raise CorruptRunError(f"{study.id}: a run has no file called {name!r}; nothing was written")
        with self.lock(study, config), self.explained("write the run"), _prepared(target) as partial:
            for name, content in files.items():
                (partial / name).write_bytes(content)
            facts = load(partial).facts
            if set(files) != {RUN_FILE, *facts["files"]}:
                raise CorruptRunError(f"{study.id}: the run came with files that it does not name, of {sorted(files)}")
            found = facts["key"]
            if found != target.name or facts["study"] != study.id:
                raise ValueError(
                    f"{study.id}: expected the run {target.name}, got {found}: another configuration, or another "
                    "version of the code. Use the same version everywhere."
                )
        return self.read(target)

    def records(self) -> list[Record]:
        """Every intact run, oldest first. Corrupt runs are skipped with a warning."""
        found = []
        for directory in sorted(self.runs.glob("*/*/*")):
            if directory.name.startswith(".") or not directory.is_dir():
                continue
            try:
                found.append(self.read(directory))
            except CorruptRunError as error:
                warnings.warn(f"{error}; it is skipped.", RuntimeWarning, stacklevel=2)
        return sorted(found, key=lambda record: record.facts["finished"])

    def work(self, study: Study, config: Config) -> Path:
        """The directory in which an unfinished run of this configuration saves itself."""
        target = self.directory(study, config)
        return target.parent / f".{target.name}.work"

    @contextlib.contextmanager
    def lock(self, study: Study, config: Config, waiting: Any = None) -> Iterator[None]:
        """Reserves this configuration for one process. Other processes call `waiting` and wait.

        The lock ends with its process, however the process ends.
        """
        target = self.directory(study, config)
        with self.explained("lock the run"):
            target.parent.mkdir(parents=True, exist_ok=True)
            file = (target.parent / f".{target.name}.lock").open("a")
        with file:
            _flock(file, waiting)
            yield

    @contextlib.contextmanager
    def explained(self, action: str) -> Iterator[None]:
        """Turns an error of the system into an error that says what failed, where, and what helps."""
        try:
            yield
        except StoreError:
            raise
        except OSError as error:
            reason, advice = why_not(error)
            kind = HomeError if error.errno in _NO_PLACE else StoreError
            raise kind(
                f"cannot {action} in {self.root}: {reason}. {advice}, or set SECANT_HOME to another directory. "
                "Runs saved before are untouched."
            ) from error


_NO_PLACE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP)
"""Errors of a place that trying again does not help."""


def why_not(error: OSError) -> tuple[str, str]:
    """Why writing failed, and what helps."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) or "No space" in str(error)
    return reason, "Free some space" if full else "Make it writable"


def key(study: Study, config: Config) -> str:
    """The name of a run: a digest of its study, its configuration and the code."""
    text = json.dumps([study.id, configs.content(config), code_version(study)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _versions() -> dict[str, str]:
    import platform

    import jax
    import numpy

    from secant._version import __version__

    return {
        "secant": __version__,
        "python": platform.python_version(),
        "jax": jax.__version__,
        "numpy": numpy.__version__,
        "device": jax.devices()[0].device_kind,
        "machine": platform.machine(),
    }


@contextlib.contextmanager
def _prepared(target: Path) -> Iterator[Path]:
    """A hidden directory to write a run to, which becomes `target` when the block ends well."""
    with replacing_directory(target) as partial:
        yield partial
        for path in partial.iterdir():
            flush(path)


def _flock(file: Any, waiting: Any) -> None:
    try:
        import fcntl
    except ImportError:  # without locks two processes may both compute, and the last run stays
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        if waiting is not None:
            waiting()
        fcntl.flock(file, fcntl.LOCK_EX)
