"""The pages of the documentation that the atlas carries: the theory, and what a verdict means."""

from __future__ import annotations

import functools
import posixpath
import re
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

import secant
from secant.atlas import markdown
from secant.lab import Study

VERDICTS = "guide/studies/verdicts"
THEORY = "theory/index"
_CHOSEN = (
    "theory/**/*.md",
    "guide/studies/verdicts.md",
    "guide/studies/errata.md",
    "guide/control.md",
    "guide/runs/doctor.md",
)
_IMAGE = re.compile(r"!\[[^\]]*\]\(([^)#\s]+)")


@dataclass(frozen=True)
class Page:
    """A page of the documentation.

    Attributes:
        name: the path below the documentation, without an ending.
        text: the Markdown.
    """

    name: str
    text: str

    @property
    def page(self) -> str:
        """The place of the page below the index of the atlas."""
        return f"docs/{self.name}.html"

    @property
    def title(self) -> str:
        """The heading, in plain text."""
        return markdown.title(self.text)

    @property
    def figures(self) -> list[str]:
        """All forms of all figures on the page, as paths below the documentation."""
        sources = _IMAGE.findall(self.text)
        narrow = [form for source in sources if (form := self._narrow(source))]
        return [_resolved(self.name, source) for source in [*sources, *narrow]]

    def mentions(self, study: Study) -> int:
        """How often the page names a study."""
        if study.id not in self.text:  # most pages, and much faster
            return 0
        return len(re.findall(rf"(?<![\w/-]){re.escape(study.id)}(?![\w-]|\.\d)", self.text))

    def html(self, shelf: Iterable[Page], studies: dict[str, str]) -> Markup:
        """The page as HTML, with links to the other pages and to the pages of `studies`, which are given by id."""
        pages = {page.name: page.page for page in shelf}
        up = "../" * self.page.count("/")

        def link(target: str) -> str | None:
            if target in studies:
                return up + studies[target]
            if re.match(r"https?://|#", target):
                return target
            path, _, anchor = target.partition("#")
            if (name := _resolved(self.name, path.removesuffix(".md"))) not in pages:
                return None
            return up + pages[name] + (f"#{anchor}" if anchor else "")

        return markdown.html(self.text, link, self._narrow)

    def _narrow(self, source: str) -> str | None:
        """The form of a figure for a narrow window, which has `-narrow` in its name."""
        stem, dark = re.fullmatch(r"(.*?)(-dark)?\.\w+", source).groups("")  # type: ignore[union-attr]
        forms = (f"{stem}-narrow{dark}.{ending}" for ending in ("svg", "png"))
        return next((form for form in forms if (folder() or Path()) / _resolved(self.name, form) in _files()), None)


def folder() -> Path | None:
    """The folder of the documentation: beside the package in a checkout, or in the shared data of an installation."""
    shared = Path(sysconfig.get_path("data")) / "share" / "secant"
    candidates = (Path(secant.__file__).parents[2] / "docs", shared / "docs")
    return next((path for path in candidates if (path / f"{THEORY}.md").is_file()), None)


@functools.cache
def _files() -> frozenset[Path]:
    """All figures of the documentation."""
    root = folder()
    return frozenset((root / "figures").iterdir()) if root else frozenset()


@functools.cache
def shelf() -> tuple[Page, ...]:
    """The pages that the atlas carries; none if there is no documentation."""
    root = folder()
    files = [] if root is None else [file for pattern in _CHOSEN for file in sorted(root.glob(pattern))]
    return tuple(
        Page(file.relative_to(root).with_suffix("").as_posix(), file.read_text(encoding="utf-8"))
        for file in files
        if root is not None
    )


def about(study: Study) -> list[Page]:
    """The pages that name a study, ordered by how often they name it."""
    naming = [page for page in shelf() if page.name != THEORY and page.mentions(study)]
    return sorted(naming, key=lambda page: -page.mentions(study))


def _resolved(name: str, target: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
