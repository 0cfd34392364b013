"""Which code a study's numbers depend on: its own file, and the names that it imports from Secant.

Only the files behind the imported names count. A study that imports `simulate` depends on the runner, not on all of
`secant.dynamics`. Comments, docstrings and annotations for type checkers change no number, so they do not count.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import marshal
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from secant.lab.registry.study import Study
from secant.rooms import HOME_OF

PACKAGE = Path(__file__).resolve().parents[2]


def code_version(study: Study) -> str:
    """A digest of the code that a study's numbers depend on.

    A study made at a prompt has no file. Its digest covers its compiled code and the whole library.
    """
    path = Path(study.module)
    if path.suffix == ".py" and path.is_file():
        files, own = closure(path), b""
    else:
        files, own = frozenset(_all_below(PACKAGE)), marshal.dumps(study.compute.__code__)
    digest = hashlib.sha256(own)
    for file in sorted(files, key=_name):
        digest.update(_name(file).encode() + _code(file, file.stat().st_mtime_ns).digest)
    return digest.hexdigest()[:16]


def closure(path: Path) -> frozenset[Path]:
    """The file, and every file that its code needs, directly or not: those of Secant and those beside the file."""
    found: set[Path] = set()
    waiting = [path.resolve()]
    while waiting:
        file = waiting.pop()
        if file not in found:
            found.add(file)
            waiting += _needs(file, file.stat().st_mtime_ns)
    return frozenset(found)


@functools.cache
def _name(path: Path) -> str:
    """The name of a file, independent of where the package is installed."""
    return str(path.relative_to(PACKAGE)) if path.is_relative_to(PACKAGE) else path.name


class _Code(NamedTuple):
    """The part of a file's code that counts. The syntax tree itself is a thousand times larger and is not kept.

    Attributes:
        digest: a digest of the code without docstrings and without what only type checkers read.
        imports: the modules of the `import` statements, each with its name in this file.
        origins: the names imported from a module: name here, module, name there, whether the import is absolute.
        taken: for every dotted name `a.b` the attributes that the code takes from it.
        bare: the names without a dot that stand alone.
        asks: whether the file defines `__getattr__`, which supplies further names.
    """

    digest: bytes
    imports: list[tuple[str, str | None]]
    origins: list[tuple[str, str, str, bool]]
    taken: dict[str, set[str]]
    bare: set[str]
    asks: bool


@functools.cache
def _code(path: Path, changed: int) -> _Code:
    tree = ast.parse(path.read_bytes())
    imports: list[tuple[str, str | None]] = []
    origins: list[tuple[str, str, str, bool]] = []
    taken: dict[str, set[str]] = {}
    names: dict[int, str] = {}
    owners: set[int] = set()
    nodes: list[ast.AST] = [tree]
    for node in nodes:  # which grows
        if isinstance(node, ast.Name):
            names[id(node)] = node.id
            continue
        if isinstance(node, ast.Attribute):
            owners.add(id(node.value))
            if owner := _dotted(node.value):
                taken.setdefault(owner, set()).add(node.attr)
        elif isinstance(node, ast.Import):
            imports += [(alias.name, alias.asname) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            origins += [(alias.asname or alias.name, node.module, alias.name, not node.level) for alias in node.names]
        elif isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            # A string alone in a line is a docstring, also below an attribute.
            node.body = [line for line in node.body if not _only_said(line) and not _for_types(line)]
        for field in node._fields:
            value = getattr(node, field, None)
            if isinstance(value, list):
                nodes += [part for part in value if isinstance(part, ast.AST)]
            elif isinstance(value, ast.AST) and not isinstance(value, ast.expr_context):
                nodes.append(value)
    return _Code(
        hashlib.sha256(ast.dump(tree).encode()).digest(),
        imports,
        origins,
        taken,
        {name for place, name in names.items() if place not in owners},
        any(isinstance(node, ast.FunctionDef) and node.name == "__getattr__" for node in tree.body),
    )


def _only_said(line: ast.stmt) -> bool:
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant) and isinstance(line.value.value, str)


def _for_types(line: ast.stmt) -> bool:
    return isinstance(line, ast.If) and isinstance(line.test, ast.Name) and line.test.id == "TYPE_CHECKING"


@functools.cache
def _needs(path: Path, changed: int) -> tuple[Path, ...]:
    """The files behind the imports of a file. Imports inside functions count too."""
    code, near = _code(path, changed), path.parent
    found: set[Path] = set()
    for name, called in code.imports:
        target = name if called else name.partition(".")[0]
        found |= set(_module_in_use(target, called or target, code, near))
        if not called and name != target:
            found |= set(_module_in_use(name, name, code, near))
    for called, module, name, absolute in code.origins:
        if absolute:
            found |= set(_imported(module, name, called, code, near))
    return tuple(sorted(found))


def _imported(module: str, name: str, called: str, code: _Code | None, near: Path) -> Iterator[Path]:
    """Files behind `from module import name as called`."""
    if _file(f"{module}.{name}", near) is not None:
        yield from _module_in_use(f"{module}.{name}", called, code, near)
    else:
        yield from _home(module, name, near)


def _module_in_use(module: str, called: str, code: _Code | None, near: Path) -> Iterator[Path]:
    """The file of a module; for a package, the files behind the names that the code takes from it."""
    path = _file(module, near)
    if path is None:
        return
    if path.name != "__init__.py":
        yield path
        return
    names = set() if code is None else None if called in code.bare else code.taken.get(called, set())
    if names is None:  # the code uses the package by itself
        yield from _all_below(path.parent)
        return
    for name in names:
        inner = _file(f"{module}.{name}", near)
        if inner is None:
            yield from _home(module, name, near)
        elif inner.name != "__init__.py":
            yield inner
        else:
            yield from _module_in_use(f"{module}.{name}", f"{called}.{name}", code, near)


def _dotted(node: ast.expr) -> str:
    """The text `a.b.c` of an expression of this form, and an empty text for every other expression."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (owner := _dotted(node.value)):
        return f"{owner}.{node.attr}"
    return ""


def _home(module: str, name: str, near: Path) -> Iterator[Path]:
    """The file that defines a name of a module. A package may have imported the name from another file."""
    path = _file(module, near)
    if path is None:
        return
    if path.name != "__init__.py":
        yield path
        return
    if module == "secant":
        if name in HOME_OF:
            yield from _home(HOME_OF[name], name, near)
        return
    code = _code(path, path.stat().st_mtime_ns)
    for called, origin, there, _ in code.origins:
        if called == name:
            yield from _imported(origin, there, name, None, near)
            return
    yield path  # defined here, or found by `__getattr__`
    if code.asks:
        yield from _all_below(path.parent)


def _all_below(folder: Path) -> Iterator[Path]:
    yield from sorted(folder.rglob("*.py"))


@functools.cache
def _file(module: str, near: Path) -> Path | None:
    """The file of a module of Secant, or of a module beside the file that imports it.

    The version number of a release does not count as code.
    """
    parts = module.split(".")
    if module == "secant._version":
        return None
    place = PACKAGE.joinpath(*parts[1:]) if parts[0] == "secant" else near.joinpath(*parts)
    for path in (place / "__init__.py", place.with_name(f"{place.name}.py")):
        if path.is_file():
            return path
    return None
