"""The studies of the package: read from the decorators in their files, imported when somebody asks for one."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from secant.lab.registry.study import Study

FOLDER = Path(__file__).resolve().parents[2] / "studies"
SHARED = "shared"
"""The folder with the code that studies share. Its files hold no study."""


class Entry(NamedTuple):
    """What the decorator of a study says; the fields are those of [`Study`][secant.lab.Study]."""

    id: str
    section: str
    title: str
    statement: str
    new: bool
    module: str


def heads(folder: Path = FOLDER, package: str = "secant.studies") -> list[Entry]:
    """Every study below a folder, in reading order. No study is imported.

    Raises:
        ValueError: a file holds no study, two studies have one id, or a decorator is not made of literals.
    """
    found: dict[str, Entry] = {}
    for path in sorted(folder.rglob("*.py")):
        place = path.relative_to(folder)
        if path.name == "__init__.py" or SHARED in place.parts:
            continue
        module = ".".join((package, *place.with_suffix("").parts))
        entries = list(_entries(ast.parse(path.read_text()), module))
        if not entries:
            raise ValueError(f"{module}: the file holds no study. Decorate a function with `@study(...)`, or move it.")
        for entry in entries:
            if entry.id in found:
                raise ValueError(f"two studies are called {entry.id!r}: in {found[entry.id].module} and in {module}.")
            found[entry.id] = entry
    return sorted(found.values(), key=reading_order)


def _entries(tree: ast.Module, module: str) -> Iterator[Entry]:
    """The studies of a file: its functions that are decorated with a call of `study`."""
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for call in node.decorator_list:
            if isinstance(call, ast.Call) and ast.unparse(call.func).rpartition(".")[2] == "study":
                yield _entry(call, ast.get_docstring(node) or "", module)


def _entry(call: ast.Call, statement: str, module: str) -> Entry:
    try:
        said: dict[str, Any] = {word.arg: ast.literal_eval(word.value) for word in call.keywords if word.arg}
        id = ast.literal_eval(call.args[0])
    except ValueError:
        raise ValueError(f"{module}: id, section and title of a study must be literals.") from None
    return Entry(id, said["section"], said["title"], statement, said.get("new", False), module)


def reading_order(study: Entry | Study) -> tuple[object, ...]:
    """Sorts by source, chapter and section, with 2 before 10."""

    def natural(text: str) -> list[tuple[int, int | str]]:
        return [(0, int(t)) if t.isdigit() else (1, t) for t in re.findall(r"\d+|\D+", text)]

    source, _, _ = study.id.partition("/")
    return (source, natural(study.section.split(".")[0]), natural(study.section), natural(study.id))


class Shelf(Mapping[str, Study]):
    """Id -> study, in the order of the entries."""

    def __init__(self, entries: list[Entry]) -> None:
        self.entries = {entry.id: entry for entry in entries}

    def __getitem__(self, id: str) -> Study:
        module = importlib.import_module(self.entries[id].module)
        (found,) = [value for value in vars(module).values() if isinstance(value, Study) and value.id == id]
        return found

    def __contains__(self, id: object) -> bool:
        return id in self.entries

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)
