"""A planted error: one token of the library, changed."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Mutant:
    """One wrong sign, factor, exponent or index, and who should notice.

    Attributes:
        module: file below `src/secant`.
        old: a piece of it that stands there once.
        new: what it becomes.
        tests: files below `tests` that should fail.
        studies: ids of studies that compute with it, of which one finding should change its verdict.
    """

    module: str
    old: str
    new: str
    tests: tuple[str, ...]
    studies: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What is changed, in a line."""
        return f"{self.module}: {self.old} -> {self.new}"

    def apply(self, copy: Path) -> None:
        """Plants the error in a copy of the sources.

        Raises:
            ValueError: the piece does not stand there exactly once.
        """
        path = copy / "secant" / self.module
        text = path.read_text()
        found = text.count(self.old)
        if found != 1:
            raise ValueError(f"{self.module}: {self.old!r} stands there {found} times, it must stand there once.")
        path.write_text(text.replace(self.old, self.new))


def planted(module: str, *changes: tuple[str, str, str], tests: str = "") -> list[Mutant]:
    """Errors of one file.

    Args:
        module: the file below `src/secant`, without its ending.
        changes: a piece of the file, what it becomes, and the studies that compute with it, separated by spaces.
        tests: files below `tests` without their ending, separated by spaces; by default the one that mirrors the file.
    """
    folder, _, name = module.rpartition("/")
    files = tests.split() or [f"{folder}/test_{name}".lstrip("/")]
    return [
        Mutant(f"{module}.py", old, new, tuple(f"{file}.py" for file in files), tuple(studies.split()))
        for old, new, studies in changes
    ]


def copy_sources(target: Path) -> None:
    """A copy of the package to plant an error in."""
    shutil.copytree(ROOT / "src" / "secant", target / "secant", ignore=shutil.ignore_patterns("__pycache__"))
