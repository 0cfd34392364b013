"""English that reads: a crude count of phrases that stumble, and lines that fit a window."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STUMBLING = re.compile(r"\blikewise\b|, for (?:it|to|they|that)\b|\bis said\b|\bsays so\b|\bof which\b", re.IGNORECASE)
TEXTS = [
    path
    for folder, endings in (("src", (".py", ".html")), ("docs", (".md", ".py")))
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in endings
]
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*.md"))]
LONGEST = 140


def prose(page):
    """The lines of a page that wrap: none of code, tables, pictures, formulas on lines of their own or bare links."""
    code = False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if line.lstrip().startswith("```"):
            code = not code
        elif not code and not re.match(r"\s*(\||<|!\[|\$\$|:::)", line):
            yield number, line


def test_phrases_that_stumble_are_rare():
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}" for path in TEXTS for match in STUMBLING.finditer(path.read_text())
    ]
    assert len(found) <= 40, found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_no_line_of_prose_is_longer_than_a_window(page):
    assert [number for number, line in prose(page) if len(line) > LONGEST] == []


def test_the_count_notices_what_it_counts():
    for phrase in ("This is said twice", "Steps, of which two", "It stops, for it cannot go on", "Likewise"):
        assert STUMBLING.search(phrase), phrase
    assert not STUMBLING.search("Steps are taken for two reasons, for example noise")
