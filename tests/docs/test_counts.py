"""What README and pages count and list is what is there."""

import importlib.util
import re
import types
from pathlib import Path

import pytest

from secant import lab, rooms

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FEW = 20  # so many studies are some, not all


def tool(name):
    """A file of docs, which is no package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_number_of_studies_is_right_wherever_it_is_told(page):
    text = page.read_text()
    current = text == tool("counts").written(text, len(lab.catalog()))
    assert current, f"{page.name} tells another number of studies: run `python docs/counts.py`"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_has_the_number_of_studies_typed_by_hand(page):
    text = re.sub(r"measured with \d+ studies|the first \d+ studies", "", page.read_text())  # what was, once
    counts = tool("counts")
    generated = counts.TOUR.sub("", counts.MARKED.sub("", text))
    typed = [int(found) for found in re.findall(r"\b(\d+) studies", generated)]
    assert [number for number in typed if number > FEW] == [], "write <!-- studies -->0<!-- /studies --> around it"


def test_the_readme_and_the_first_page_tell_the_number_of_studies():
    for page in (ROOT / "README.md", ROOT / "docs" / "index.md"):
        assert f"<!-- studies -->{len(lab.catalog())}<!-- /studies --> studies" in page.read_text()


def test_one_command_writes_the_number_on_every_page(tmp_path, monkeypatch, capsys):
    counts = tool("counts")
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text(
        "<!-- studies -->7<!-- /studies --> studies, secant list (7 studies), 7 studies"
    )
    (tmp_path / "CONTRIBUTING.md").write_text("no number")
    monkeypatch.setattr(counts, "ROOT", tmp_path)
    monkeypatch.setattr(counts, "heads", lambda: range(9))
    counts.main()
    assert capsys.readouterr().out == "README.md: 9 studies\n"
    text = (tmp_path / "README.md").read_text()
    assert text == "<!-- studies -->9<!-- /studies --> studies, secant list (9 studies), 7 studies"
    counts.main()
    assert capsys.readouterr().out == ""


def test_the_site_counts_the_studies_when_it_is_built(monkeypatch):
    pytest.importorskip("mkdocs")
    hooks = tool("hooks")
    monkeypatch.setattr(
        hooks, "counts", lambda: types.SimpleNamespace(heads=lambda: range(9), shown=tool("counts").shown)
    )
    page = "a lab: <!-- studies -->7<!-- /studies --> studies"
    assert hooks.on_page_markdown(page, None, None, None) == "a lab: 9 studies"


def test_the_readme_lists_every_room():
    table = (ROOT / "README.md").read_text().split("## What is in it")[1].split("\n## ")[0]
    assert sorted(re.findall(r"^\| `secant\.(\w+)` \|", table, re.MULTILINE)) == sorted(
        {*rooms.ENTERED, "cli", "studies"}
    )


def test_the_reference_lists_every_room_with_names_to_import():
    table = (ROOT / "docs" / "api" / "index.md").read_text()
    listed = sorted(re.findall(r"^\| \[`secant\.(\w+)`\]", table, re.MULTILINE))
    assert listed == sorted(rooms.ENTERED)
