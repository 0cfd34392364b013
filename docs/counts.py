"""Writes the number of studies where README and pages tell it: `python docs/counts.py`.

A number between `<!-- studies -->` and `<!-- /studies -->` is generated, and so is that in the last line of the tour.
The site needs no such command, because its builder counts the studies itself.
"""

from __future__ import annotations

import re
from pathlib import Path

from secant.lab.registry.shelf import heads

ROOT = Path(__file__).resolve().parents[1]
MARKED = re.compile(r"(<!-- studies -->)\d+(<!-- /studies -->)")
TOUR = re.compile(r"(secant list \()\d+( studies\))")


def written(text: str, studies: int) -> str:
    """The text of a page with this number of studies."""
    for place in (MARKED, TOUR):
        text = place.sub(rf"\g<1>{studies}\g<2>", text)
    return text


def shown(text: str, studies: int) -> str:
    """The text of a page as the site shows it: with this number of studies, and without the marks around it."""
    return MARKED.sub(str(studies), written(text, studies))


def pages() -> list[Path]:
    """Every page that people write."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def main() -> None:
    """Rewrites the pages that tell another number."""
    studies = len(heads())
    for page in pages():
        text = page.read_text(encoding="utf-8")
        if (new := written(text, studies)) != text:
            page.write_text(new, encoding="utf-8")
            print(f"{page.relative_to(ROOT)}: {studies} studies")


if __name__ == "__main__":
    main()
