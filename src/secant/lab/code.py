"""Which code a study's numbers depend on: its own file, and what it imports of Secant, name by name.

Of a package only the files behind the names in use count: a study that imports `simulate` depends on the runner, not on
all of `secant.dynamics`. Comments, docstrings and annotations for type checkers change no number, and do not count.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import marshal
from collections.abc import Iterator
from pathlib import Path

from secant.lab.study import Study
from secant.rooms import HOME_OF

PACKAGE = Path(__file__).resolve().parents[1]


def code_version(study: Study) -> str:
    """A digest of the code that a study's numbers depend on.

    A study without a file of its own, made at a prompt, is known by its compiled code and by all of the library.
    """
    path = Path(study.module)
    if path.suffix == ".py" and path.is_file():
        files, own = closure(path), b""
    else:
        files, own = frozenset(_all_below(PACKAGE)), marshal.dumps(study.compute.__code__)
    digest = hashlib.sha256(own)
    for file in sorted(files, key=_name):
        digest.update(_name(file).encode() + _digest(file, file.stat().st_mtime_ns))
    return digest.hexdigest()[:16]


def closure(path: Path) -> frozenset[Path]:
    """The file, and every file of Secant or beside it that its code comes from, at any remove."""
    found: set[Path] = set()
    waiting = [path.resolve()]
    while waiting:
        file = waiting.pop()
        if file not in found:
            found.add(file)
            waiting += _needs(file, file.stat().st_mtime_ns)
    return frozenset(found)


def _name(path: Path) -> str:
    """How a file is called wherever the package lies."""
    return str(path.relative_to(PACKAGE)) if path.is_relative_to(PACKAGE) else path.name


@functools.cache
def _tree(path: Path, changed: int) -> ast.Module:
    """What a file does: without docstrings, and without what only type checkers read."""
    tree = ast.parse(path.read_bytes())
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            # A string alone in a line says something to a reader; so it does below an attribute.
            node.body = [line for line in node.body if not _only_said(line) and not _for_types(line)]
    return tree


def _only_said(line: ast.stmt) -> bool:
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant) and isinstance(line.value.value, str)


def _for_types(line: ast.stmt) -> bool:
    return isinstance(line, ast.If) and isinstance(line.test, ast.Name) and line.test.id == "TYPE_CHECKING"


@functools.cache
def _digest(path: Path, changed: int) -> bytes:
    return hashlib.sha256(ast.dump(_tree(path, changed)).encode()).digest()


@functools.cache
def _needs(path: Path, changed: int) -> tuple[Path, ...]:
    """The files that a file's imports come from, also those inside functions."""
    tree, near = _tree(path, changed), path.parent
    found: set[Path] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                target = alias.name if alias.asname else alias.name.partition(".")[0]
                found |= set(_module_in_use(target, alias.asname or target, tree, near))
                if not alias.asname and alias.name != target:
                    found |= set(_module_in_use(alias.name, alias.name, tree, near))
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                found |= set(_imported(node.module, alias.name, alias.asname or alias.name, tree, near))
    return tuple(sorted(found))


def _imported(module: str, name: str, called: str, tree: ast.Module, near: Path) -> Iterator[Path]:
    """Files behind `from module import name as called`."""
    if _file(f"{module}.{name}", near) is not None:
        yield from _module_in_use(f"{module}.{name}", called, tree, near)
    else:
        yield from _home(module, name, near)


def _module_in_use(module: str, called: str, tree: ast.Module, near: Path) -> Iterator[Path]:
    """Files behind a module: itself, or of a package those of the names that are taken from it."""
    path = _file(module, near)
    if path is None:
        return
    if path.name != "__init__.py":
        yield path
        return
    names = _taken_from(called, tree)
    if names is None:
        yield from _all_below(path.parent)
        return
    for name in names:
        inner = _file(f"{module}.{name}", near)
        if inner is None:
            yield from _home(module, name, near)
        elif inner.name != "__init__.py":
            yield inner
        else:
            yield from _module_in_use(f"{module}.{name}", f"{called}.{name}", tree, near)


def _taken_from(called: str, tree: ast.Module) -> set[str] | None:
    """The attributes of a name that the code uses, or None if it uses the name by itself."""
    taken, bare = _uses(tree)
    return None if called in bare else taken.get(called, set())


@functools.cache
def _uses(tree: ast.Module) -> tuple[dict[str, set[str]], set[str]]:
    """Of every dotted name `a.b`: which attributes are taken from it; and the names without a dot that stand alone."""
    taken: dict[str, set[str]] = {}
    bare: dict[int, str] = {}
    owners: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            bare[id(node)] = node.id
        elif isinstance(node, ast.Attribute):
            owners.add(id(node.value))
            if owner := _dotted(node.value):
                taken.setdefault(owner, set()).add(node.attr)
    return taken, {name for place, name in bare.items() if place not in owners}


def _dotted(node: ast.expr) -> str:
    """`a.b.c` of such an expression, and nothing of any other."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (owner := _dotted(node.value)):
        return f"{owner}.{node.attr}"
    return ""


def _home(module: str, name: str, near: Path) -> Iterator[Path]:
    """The file that defines a name of a module: of a package, the one that it has the name from."""
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
    tree = _tree(path, path.stat().st_mtime_ns)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    yield from _imported(node.module, alias.name, name, ast.Module([], []), near)
                    return
    yield path  # defined here, or found when it is asked for
    if any(
        isinstance(n, ast.FunctionDef) and n.name == "__getattr__" for n in _tree(path, path.stat().st_mtime_ns).body
    ):
        yield from _all_below(path.parent)


def _all_below(folder: Path) -> Iterator[Path]:
    yield from sorted(folder.rglob("*.py"))


@functools.cache
def _file(module: str, near: Path) -> Path | None:
    """The file of a module of Secant, or of one that lies beside the file that imports it; a release is no change."""
    parts = module.split(".")
    if module == "secant._version":
        return None
    place = PACKAGE.joinpath(*parts[1:]) if parts[0] == "secant" else near.joinpath(*parts)
    for path in (place / "__init__.py", place.with_name(f"{place.name}.py")):
        if path.is_file():
            return path
    return None
