"""What README and pages count and list is what is there."""

import re
from pathlib import Path

import pytest

from secant import lab, rooms

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FEW = 20  # so many studies are some, not all


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_number_of_studies_is_right_wherever_it_is_told(page):
    text = re.sub(r"measured with \d+ studies|the first \d+ studies", "", page.read_text())  # what was, once
    told = [
        int(number)
        for number in re.findall(r"\b(\d+) studies|now there are (\d+)", text)
        for number in number
        if number
    ]
    assert {number for number in told if number > FEW} <= {len(lab.catalog())}


def test_the_readme_and_the_first_page_tell_the_number_of_studies():
    for page in (ROOT / "README.md", ROOT / "docs" / "index.md"):
        assert f"{len(lab.catalog())} studies" in page.read_text()


def test_the_readme_lists_every_room():
    table = (ROOT / "README.md").read_text().split("## What is in it")[1].split("\n## ")[0]
    assert sorted(re.findall(r"^\| `secant\.(\w+)` \|", table, re.MULTILINE)) == sorted(
        {*rooms.ENTERED, "cli", "studies"}
    )


def test_the_reference_lists_every_room_with_names_to_import():
    table = (ROOT / "docs" / "api" / "index.md").read_text()
    listed = sorted(re.findall(r"^\| \[`secant\.(\w+)`\]", table, re.MULTILINE))
    assert listed == sorted(rooms.ENTERED)
