"""Putting a whole directory of pages in place at once."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from secant.core.files import replacing_directory
from secant.lab import StoreError

MARKER = ".secant-atlas"


class AtlasError(StoreError):
    """The pages cannot be written. Pages that were there before are untouched."""


def ours(destination: Path) -> bool:
    """Whether pages may be put here: nothing there, an empty directory, or pages of an earlier build."""
    if not destination.exists() and not destination.is_symlink():
        return True
    return destination.is_dir() and ((destination / MARKER).is_file() or not any(destination.iterdir()))


@contextlib.contextmanager
def replacing(destination: Path) -> Iterator[Path]:
    """A directory to fill, which takes the place of `destination` once the block has ended without an error.

    The directory is a hidden sibling of `destination`, so that a rename puts it in place. After an error or an
    interruption the old pages are still there. A marker file identifies pages of an earlier build, which are replaced
    as a whole.

    Raises:
        FileExistsError: `destination` holds something that is not an atlas.
        AtlasError: the pages cannot be written.
    """
    destination = destination.expanduser().resolve()
    with _explained(destination):
        if not ours(destination):
            raise FileExistsError(
                f"{destination} exists and is not an atlas. Name another directory, an empty one, or one made by "
                "`secant atlas`. Nothing was changed."
            )
        with replacing_directory(destination) as partial:
            yield partial
            (partial / MARKER).write_text("Pages made by `secant atlas`, which replaces this whole directory.\n")


@contextlib.contextmanager
def _explained(destination: Path) -> Iterator[None]:
    """Turns the system's error into one that says what could not be done, and where."""
    try:
        yield
    except (FileExistsError, StoreError):
        raise
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise AtlasError(
            f"cannot write the pages in {destination}: {reason}. Name another directory; pages that were there before "
            "are untouched."
        ) from error
