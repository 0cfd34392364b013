"""The house stays a house: rooms import only rooms above them, files stay small, imports stay light."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "secant"
ROOMS = [
    "_version",
    "_device",
    "look",
    "data",
    "losses",
    "nets",
    "models",
    "linalg",
    "curvature",
    "kernels",
    "expansion",
    "features",
    "dynamics",
    "theory",
    "border",
    "lab",
    "studies",
    "monitor",
    "atlas",
    "cli",
    "__main__",
]
FILES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def imported_rooms(path):
    """The rooms that a file imports, also inside functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            parts = name.split(".")
            if parts[0] == "secant" and len(parts) > 1:
                yield parts[1]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_room_imports_only_rooms_above_it(path):
    room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    # The registry looks the studies up by name: it imports the package to walk it, and nothing from it.
    allowed = {"studies"} if path == PACKAGE / "lab" / "registry.py" else set()
    for other in set(imported_rooms(path)) & set(ROOMS) - allowed:
        assert ROOMS.index(other) <= ROOMS.index(room), f"{room} imports {other}"


@pytest.mark.parametrize("path", sorted(ROOT.glob("src/**/*.py")), ids=lambda path: path.name)
def test_a_file_has_one_idea(path):
    assert len(path.read_text().splitlines()) <= 400


def test_only_public_parts_of_jax_are_used():
    for path in ROOT.glob("src/**/*.py"):
        assert not re.search(r"jax\._src|jaxlib", path.read_text()), path
