"""The code of a study as a page, coloured and with numbered lines."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

import secant
from secant.lab import Study

_PACKAGE = Path(secant.__file__).parent
_BLOCKS = ("body", "orelse", "handlers", "finalbody", "cases")


@dataclass(frozen=True)
class Listing:
    """A file of code, and the place of its page below the index."""

    file: Path
    page: str

    @property
    def name(self) -> str:
        """The file's path in the repository; only the file's name if the file is not part of Secant."""
        inside = self.file.is_relative_to(_PACKAGE)
        return f"src/secant/{self.file.relative_to(_PACKAGE).as_posix()}" if inside else self.file.name

    @property
    def lines(self) -> list[Markup]:
        """The coloured lines of the file."""
        return [Markup(line) for line in highlighted(_read(self.file), "python").splitlines()]

    @property
    def shared(self) -> list[Listing]:
        """The files of `studies/shared` that the file imports from."""
        return [
            Listing(file, f"code/{file.relative_to(_PACKAGE).with_suffix('.html').as_posix()}")
            for file in _shared(self.file)
        ]


def listing(study: Study, directory: str) -> Listing | None:
    """The code of a study whose page lies in `directory`; None for a study that was written at a prompt."""
    file = Path(study.module)
    return Listing(file, f"{directory}/code.html") if file.is_file() else None


def with_shared(listings: list[Listing]) -> list[Listing]:
    """All listings, with every listing that they import from, directly or through others."""
    found: dict[str, Listing] = {}
    waiting = list(listings)
    while waiting:
        one = waiting.pop()
        if one.page not in found:
            found[one.page] = one
            waiting += one.shared
    return list(found.values())


@functools.lru_cache(maxsize=1024)
def highlighted(code: str, language: str) -> Markup:
    """Code as HTML, coloured if the language is known."""
    try:
        lexer = get_lexer_by_name(language, stripnl=False)
    except ClassNotFound:
        lexer = get_lexer_by_name("text", stripnl=False)
    return Markup(highlight(code, lexer, HtmlFormatter(nowrap=True)))  # which escapes what it colours


@functools.cache
def _read(file: Path) -> str:
    return file.read_text(encoding="utf-8")


@functools.cache
def _shared(file: Path) -> tuple[Path, ...]:
    """Files of `secant.studies.shared` behind the imports of a file."""
    places = (_PACKAGE.joinpath(*name.split(".")[1:]).with_suffix(".py") for name in _imported(ast.parse(_read(file))))
    found = {
        path
        for path in places
        if path.is_relative_to(_PACKAGE / "studies" / "shared") and path.is_file() and path != file
    }
    return tuple(sorted(found))


def _imported(tree: ast.AST) -> Iterator[str]:
    """Everything that a file imports, with dots: modules, and names in modules, which may be modules too."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        for field in _BLOCKS:  # a statement stands in a block, never in an expression
            waiting += getattr(node, field, None) or ()
