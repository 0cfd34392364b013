"""Regular files directly in one directory, reached without links and without paths."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import stat
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
_BLOCK = 2**20


class NotPlainError(OSError):
    """The name does not belong to a regular file of the directory: a link, a pipe, a directory or a path."""


def is_plain_name(name: object) -> bool:
    """Whether the name is that of a visible file directly in a directory: letters, digits, `.`, `_` and `-`."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


@contextlib.contextmanager
def opened(directory: Path, name: str) -> Iterator[BufferedReader]:
    """Opens the file for reading. The check runs on the open file, so nobody can exchange the file in between."""
    if not is_plain_name(name):
        raise NotPlainError(errno.EINVAL, "not the name of a file of this directory", name)
    path = directory / name
    # Without O_NONBLOCK, opening a pipe that nobody writes to would wait forever.
    wanted = ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY")
    flags = os.O_RDONLY
    for flag in wanted:
        flags |= getattr(os, flag, 0)
    try:
        if path.is_symlink():
            raise OSError(errno.ELOOP, "")
        handle = os.open(path, flags)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NotPlainError(errno.ELOOP, "a symbolic link, not a regular file", name) from None
        raise
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise NotPlainError(errno.EINVAL, "not a regular file", name)
        file = os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise
    with file:
        yield file


def content(directory: Path, name: str, at_most: int | None = None) -> bytes:
    """The content of the file. A file with more than `at_most` bytes is refused before it is read."""
    with opened(directory, name) as file:
        if at_most is None:
            return file.read()
        found = file.read(at_most + 1)
        if len(found) > at_most:
            raise OSError(errno.EFBIG, f"larger than {at_most // 2**20} MiB", name)
        return found


def digest(directory: Path, name: str) -> str:
    """The SHA-256 of the content of the file."""
    with opened(directory, name) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_of(content: bytes) -> str:
    """The SHA-256 of some bytes."""
    return hashlib.sha256(content).hexdigest()


def copy(directory: Path, name: str, target: Path) -> str:
    """Copies the file, and returns the SHA-256 of the copy."""
    found = hashlib.sha256()
    with opened(directory, name) as file, target.open("wb") as out:
        while block := file.read(_BLOCK):
            found.update(block)
            out.write(block)
    return found.hexdigest()
