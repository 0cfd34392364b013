"""The study of CONTRIBUTING, put where its page says, passes what every study has to."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from secant import lab
from secant.lab import options
from secant.lab.registry import lookup

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text().split("## Adding a study takes one file")[1]
CODE = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)[1]
PLACE = Path("secant/studies") / re.search(r"from `(\S+\.py)`", PAGE)[1]
DECLARED = re.compile(r"^    (\w+): \S.* = (option|scaled)\(", re.MULTILINE)
FIELDS = {"key", "name", "given", "otherwise"}


def test_it_has_at_most_45_lines():
    assert CODE.count("\n") <= 45


@pytest.mark.parametrize("check", [["check"], ["format", "--check"]], ids=" ".join)
def test_the_linter_has_nothing_to_say_of_it(check):
    ruff = Path(sys.executable).with_name("ruff")
    if not ruff.exists():
        pytest.skip("ruff is not in this environment")
    command = [ruff, *check, "--no-cache", "--stdin-filename", ROOT / "src" / PLACE, "-"]
    done = subprocess.run(command, cwd=ROOT, input=CODE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_its_place_is_that_of_its_id_and_its_section():
    id, section = re.search(r'@study\("(\S+)", section="(\S+)"', CODE).groups()
    module = lab.sources()[id.split("/")[0]].module(id, section)
    assert Path(*module.split(".")).with_suffix(".py") == PLACE


def test_it_is_written_as_the_page_says():
    """By claims with keys, by options that studies share, and with its statement in a docstring."""
    (made,) = re.findall(r"^def run\(.*\n    r?\"\"\"(.*)\"\"\"$", CODE, re.MULTILINE)
    assert "$" in made
    assert 'claim(f"' in CODE
    assert set(re.findall(r"options\.(\w+)\(", CODE)) <= set(options.SHARED)
    assert not {name for name, _ in DECLARED.findall(CODE)} & set(options.SHARED)
    named = re.search(r"such as\s(.*?)\.", PAGE.split("**Options**")[1], re.DOTALL)[1]
    assert set(re.findall(r"`(\w+)`", named)) <= set(options.SHARED)
    methods = re.search(r"a method for its numbers: (.*?)\. ", PAGE, re.DOTALL)[1]
    assert set(re.findall(r"`(\w+)`", methods)) == {name for name in vars(lab.Claim) if name[0] != "_"} - FIELDS


def test_three_steps_lead_from_a_theorem_to_its_code():
    """The example of the page: the list of studies, the file of one, the mathematics that it imports."""
    steps = (ROOT / "CONTRIBUTING.md").read_text().split("## From a theorem's number to its code")[1].split("\n## ")[0]
    source = re.search(r"`secant list --source (\w+)`", steps)[1]
    section, id = re.search(r"Section (\S+) has the study `(\S+)`", steps).groups()
    assert f"theorem {section} of the {source}" in steps
    (entry,) = [entry for entry in lookup.entries(source) if entry.id == id]
    assert entry.section == section
    file, mathematics, page, tests = (ROOT / path for path in re.findall(r"`((?:src|docs|tests)/\S+)`", steps))
    assert file.samefile(lab.get(id).module)
    line, package, name = re.search(r"`(from (secant\.\S+) import (\w+))`", steps).groups()
    assert re.search(rf"^{re.escape(line)}\b", file.read_text(), re.MULTILINE)
    assert mathematics == ROOT / "src" / Path(*package.split("."), f"{name}.py")
    assert all(path.exists() for path in (mathematics, page, tests))


def test_the_tests_of_studies_find_it_and_pass(tmp_path):
    shutil.copytree(ROOT / "src" / "secant", tmp_path / "secant", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / PLACE).write_text(CODE)
    options = ["-p", "no:cacheprovider", "-p", "no:xdist", "--verbose", f"--basetemp={tmp_path / 'tests'}"]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            *options,
            "tests/studies/test_every_study.py",
            "tests/studies/test_written.py",
            "-k",
            PLACE.stem,
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\b4 passed", done.stdout), done.stdout
