"""The study of CONTRIBUTING, put where its page says, passes what every study has to."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text().split("## Adding a study takes one file")[1]
CODE = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)[1]
PLACE = Path("secant/studies") / re.search(r"from `(\S+\.py)`", PAGE)[1]


def test_it_takes_fewer_than_sixty_lines():
    assert CODE.count("\n") < 60


def test_the_linter_has_nothing_to_say_of_it():
    ruff = Path(sys.executable).with_name("ruff")
    if not ruff.exists():
        pytest.skip("ruff is not in this environment")
    command = [ruff, "check", "--no-cache", "--stdin-filename", ROOT / "src" / PLACE, "-"]
    done = subprocess.run(command, cwd=ROOT, input=CODE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_tests_of_studies_find_it_and_pass(tmp_path):
    shutil.copytree(ROOT / "src" / "secant", tmp_path / "secant", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / PLACE).write_text(CODE)
    options = ["-p", "no:cacheprovider", "-p", "no:xdist", "--verbose", f"--basetemp={tmp_path / 'tests'}"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "tests/studies/test_every_study.py", "-k", PLACE.stem],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\b4 passed", done.stdout), done.stdout
