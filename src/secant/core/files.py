"""Files and directories written whole or not at all: after a kill or on a full disk the old content is still there."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A hidden file beside `path`, with the same ending. It replaces `path` when the block ends well."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".partial-", suffix=path.suffix)
    os.close(handle)
    partial = Path(name)
    try:
        yield partial
        flush(partial)
        partial.chmod(0o644)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def replace(path: Path, content: bytes) -> None:
    """Writes bytes to a file, replacing any old content."""
    with replacing(path) as partial:
        partial.write_bytes(content)


def flush(path: Path) -> None:
    """Waits until a file is on the disk."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


@contextlib.contextmanager
def replacing_directory(target: Path) -> Iterator[Path]:
    """A hidden directory beside `target`. It replaces `target` when the block ends well.

    The old directory is removed once the new one is in place; if that fails the old one is put back.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}.", suffix=".partial"))
    try:
        yield partial
        partial.chmod(0o755)
        _put_in_place(partial, target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _put_in_place(partial: Path, target: Path) -> None:
    if not target.exists() and not target.is_symlink():
        partial.rename(target)
        return
    old = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}.", suffix=".old"))
    target.rename(old / target.name)
    try:
        partial.rename(target)
    except BaseException:
        (old / target.name).rename(target)
        raise
    finally:
        shutil.rmtree(old, ignore_errors=True)
