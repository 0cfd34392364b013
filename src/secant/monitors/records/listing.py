"""The records on the disk, and which of them are being written."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from secant.lab.runs.store import home
from secant.monitors.records.record import ABOUT, LOCK, NAME, place


def kept(root: Path | None = None) -> list[Path]:
    """The folders of records below `root`, by default Secant's home, from the oldest to the newest; no links."""
    root = home() / "watched" if root is None else root
    found = []
    for path in root.iterdir() if root.is_dir() else ():
        with contextlib.suppress(OSError):
            if NAME.fullmatch(path.name) and not path.is_symlink() and (path / ABOUT).is_file():
                found.append((max(file.lstat().st_mtime for file in path.iterdir()), path))
    return [path for _, path in sorted(found)]


def running(path: str | os.PathLike[str]) -> bool:
    """Whether a process writes the record now; False where the system cannot tell."""
    try:
        import fcntl

        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        handle = os.open(place(path) / LOCK, flags)
    except (ImportError, OSError):
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(handle)
    return False
