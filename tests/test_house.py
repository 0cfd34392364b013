"""The house stays a house: rooms import only rooms below them, files stay small, imports stay light."""

import ast
import functools
import graphlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import secant
from secant.rooms import ENTERED, HOME_OF, ROOMS

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "secant"
FILES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")
STUDIES = [
    path
    for path in sorted((PACKAGE / "studies").rglob("*.py"))
    if path.name != "__init__.py" and "shared" not in path.relative_to(PACKAGE).parts
]


@functools.cache
def imported(path):
    """What a file imports by its dotted names, also inside functions: modules, and names that may be modules."""
    found: list[str] = []
    waiting = [ast.parse(path.read_text())]
    while waiting:
        node = waiting.pop()
        for block in ("body", "orelse", "handlers", "finalbody", "cases"):  # no expression imports anything
            waiting += getattr(node, block, None) or ()
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return [name.split(".")[1:] for name in found if name.startswith("secant.")]


def test_the_table_names_every_room():
    there = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    assert there - {"__init__"} == set(ROOMS)


def test_what_type_checkers_see_is_what_the_package_offers():
    offered = {
        alias.asname: f"{node.module}.{alias.name}"
        for node in ast.parse((PACKAGE / "__init__.pyi").read_text()).body
        for alias in node.names
    }
    assert offered == {name: f"secant.{name}" for name in ENTERED} | {n: f"{home}.{n}" for n, home in HOME_OF.items()}
    assert set(secant.__all__) == set(dir(secant)) == set(offered)
    for name in offered:
        assert getattr(secant, name) is not None


def room_of(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_rooms_below_it(room):
    files = [path for path in FILES if room_of(path) == room]
    assert files
    for path in files:
        for other in {parts[0] for parts in imported(path)} & set(ROOMS):
            assert ROOMS.index(other) <= ROOMS.index(room), f"{path.relative_to(PACKAGE)} imports {other}"


def test_files_import_each_other_in_no_circle():
    """What a package hands on from its files, in its `__init__`, ties none of them to another."""
    graph = {
        path: {PACKAGE.joinpath(*parts).with_suffix(".py") for parts in imported(path)} & set(FILES) - {path}
        for path in FILES
    }
    assert list(graphlib.TopologicalSorter(graph).static_order())


def test_a_file_has_one_idea():
    assert [path for path in ROOT.glob("src/**/*.py") if len(path.read_text().splitlines()) > 400] == []


def folders():
    """Every folder of the code, of the tests and of the pages that people write."""
    for top in ("src", "tests", "bench", "mutants", "docs/guide", "docs/theory"):
        for folder in (ROOT / top, *(ROOT / top).rglob("*/")):
            if "__pycache__" not in folder.parts:
                yield folder


@pytest.mark.parametrize("folder", sorted(folders()), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_folder_can_be_taken_in_at_a_glance(folder):
    files = [path.name for path in folder.iterdir() if path.is_file() and path.stem != "__init__"]
    assert len(files) <= 15, sorted(files)


def test_a_topic_of_the_theory_has_one_name():
    """Its folder of code, its page and the folder of its further pages, its tests and its reference."""
    topics = {path.name for path in (PACKAGE / "theory").iterdir() if (path / "__init__.py").is_file()}
    pages = {path.stem for path in (ROOT / "docs" / "theory").glob("*.md")}
    assert pages - {"index"} == topics
    assert {path.name for path in (ROOT / "docs" / "theory").iterdir() if path.is_dir()} <= topics
    assert {path.name for path in (ROOT / "tests" / "theory").glob("*/") if path.name != "__pycache__"} == topics
    assert {path.stem for path in (ROOT / "docs" / "api" / "theory").glob("*.md")} == topics | {"tools"}


def test_a_study_can_be_read_at_one_sitting():
    """The goal is 145 lines on average. 147 is where the studies stand, so that none of them grows meanwhile.

    The files that studies share are not counted.
    """
    lengths = {path: len(path.read_text().splitlines()) for path in STUDIES}
    mean = sum(lengths.values()) / len(lengths)
    longest = [path.relative_to(PACKAGE).as_posix() for path in sorted(lengths, key=lengths.get)[-10:]]
    assert mean <= 147, f"{mean:.1f} lines on average; the longest are {longest}"


def test_no_file_is_kept_from_the_formatter():
    """Studies are formatted like everything else: no comment and no setting switches the formatter off."""
    off = re.compile(r"#\s*(?:fmt|yapf):\s*(?:off|skip)")
    assert [path for path in ROOT.glob("src/**/*.py") if off.search(path.read_text())] == []
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]
    assert not {"exclude", "extend-exclude", "force-exclude", "format"} & set(settings)


def test_the_formatter_has_nothing_to_change():
    ruff = Path(sys.executable).with_name("ruff")
    if not ruff.exists():
        pytest.skip("ruff is not in this environment")
    command = [ruff, "format", "--check", "--no-cache", PACKAGE / "studies"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_only_public_parts_of_jax_are_used():
    for path in ROOT.glob("src/**/*.py"):
        assert not re.search(r"jax\._src|jaxlib", path.read_text()), path
