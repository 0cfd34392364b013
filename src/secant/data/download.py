"""Downloads of data sets: each is fetched once, checked, and kept as one file."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import shutil
import tarfile
import wave
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from secant.core.files import replacing
from secant.data.errors import MissingDataError
from secant.data.sources import Source

UNREADABLE = (
    *(ValueError, LookupError, TypeError, EOFError, OSError),
    *(zlib.error, tarfile.TarError, zipfile.BadZipFile, wave.Error),
)
"""The errors that reading a file of the wrong format can raise."""


def cache() -> Path:
    """The directory of downloads: `data` below `$SECANT_HOME`, or below the user's cache directory."""
    if given := os.environ.get("SECANT_HOME"):
        return Path(given).expanduser() / "data"
    import pooch  # type: ignore[import-untyped, unused-ignore]

    return Path(pooch.os_cache("secant")) / "data"


def download(source: Source) -> Path:
    """The file that holds a data set, downloaded and converted if it is not there yet.

    The downloaded files are checked one by one, and removed once the data set is complete. After an interruption,
    complete files are used and an incomplete file is fetched again. Two processes download a set only once.
    """
    folder = cache()
    target = folder / source.file
    if target.exists():
        return target
    parts = folder / f".{source.file}.parts"
    with _explained(source, folder):
        folder.mkdir(parents=True, exist_ok=True)
        with _alone(folder / f".{source.file}.lock"):
            if not target.exists():
                paths = [_retrieve(source, name, parts) for name in source.files]
                try:
                    arrays = source.convert(paths)
                except UNREADABLE as error:
                    shutil.rmtree(parts, ignore_errors=True)
                    raise MissingDataError(
                        f"data: what lies at {source.homes[0]} is not {source.title} ({error}). "
                        f"Nothing of it was kept. {_instead(source)}"
                    ) from error
                _write(target, arrays)
                shutil.rmtree(parts, ignore_errors=True)
    return target


def _retrieve(source: Source, name: str, folder: Path) -> Path:
    """One file of a data set, from the first address that has it."""
    failures = []
    for home in source.homes:
        failure = _attempt(home, name, source, folder)
        if failure is None:
            return folder / name
        failures.append(f"{home}{name}: {failure}")
    raise MissingDataError(
        f"data: {source.title} is not on this machine and could not be downloaded. "
        + " ".join(f"{failure}." for failure in failures)
        + f" {_instead(source)}"
    )


def _attempt(home: str, name: str, source: Source, folder: Path) -> str | None:
    """Downloads a file. Returns the reason if that fails, else None."""
    import pooch
    import requests

    for _ in range(2):
        try:
            with _quiet(pooch.get_logger()), _Bar(f"{source.title}: {name}") as bar:
                # The bytes stay as they are on the server: decompressed on the way, they would fail their checksum.
                downloader = pooch.HTTPDownloader(
                    progressbar=bar, chunk_size=2**16, headers={"Accept-Encoding": "identity"}
                )
                pooch.retrieve(home + name, source.files[name], fname=name, path=folder, downloader=downloader)
            return None
        except requests.exceptions.HTTPError as error:
            return f"the server answers {str(error).split(' for url')[0]}"
        except requests.exceptions.ChunkedEncodingError:
            continue
        except requests.exceptions.Timeout:
            return "no answer in time"
        except requests.exceptions.ConnectionError:
            return "no connection"
        except requests.exceptions.RequestException as error:
            return str(error)
        except ValueError as error:  # a wrong checksum: pooch names the file, the digests, and has deleted it
            return str(error).split(". ")[0]
    return "the transfer broke off, twice"


def _instead(source: Source) -> str:
    directory = os.environ.get("SECANT_DATA")
    return (
        f"Try again later, or put {source.file} into the directory that SECANT_DATA names "
        f"({directory or 'it is not set'}); a machine that has downloaded it keeps it as {cache() / source.file}. "
        "'digits' needs no file."
    )


def _write(target: Path, arrays: dict[str, np.ndarray]) -> None:
    with replacing(target) as partial, partial.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


@contextlib.contextmanager
def _explained(source: Source, folder: Path) -> Iterator[None]:
    """Turns the system's error into an error that names the data set, the place, and what to do."""
    try:
        yield
    except MissingDataError:
        raise
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        reason = os.strerror(error.errno) if error.errno else str(error)
        advice = "Free some space" if full else "Make it writable"
        raise MissingDataError(
            f"data: {source.title} cannot be stored in {folder}: {reason}. "
            f"{advice}, or set SECANT_HOME to another directory."
        ) from error


@contextlib.contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Holds a lock file for one process; other processes wait. The lock ends with its process, however that ends."""
    with lock.open("a") as file:
        try:
            import fcntl
        except ImportError:  # no such locks on this system: two processes then both download
            pass
        else:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """Silences a library's messages, because our bar replaces them."""
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


class _Bar:
    """A bar in the terminal with the four calls that pooch makes; nothing is drawn if the output is a file."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> _Bar:
        from rich.console import Console
        from rich.errors import LiveError
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TimeRemainingColumn(compact=True),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task(self._label, total=None)
        with contextlib.suppress(LiveError):  # another bar is being drawn, so this one is not
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def total(self) -> int:
        return self._bar.tasks[0].total or 0

    @total.setter
    def total(self, size: int) -> None:
        self._bar.update(self._task, total=size or None)

    def update(self, size: int) -> None:
        self._bar.advance(self._task, size)

    def reset(self) -> None:
        self._bar.reset(self._task)

    def close(self) -> None:
        if not self._bar.disable:  # stopping would write an empty line into the log
            self._bar.stop()
