"""How studies are written: options that many share are made in one place, and a key is no sentence."""

import ast
import functools
from pathlib import Path

import pytest

from secant import lab
from secant.lab import options
from secant.lab.registry.config import fields_of
from secant.lab.registry.shelf import FOLDER

FILES = sorted(FOLDER.rglob("*.py"))

EXCEPTIONS: dict[tuple[str, str], str] = {}
"""(file below the studies, option) -> why the shared option of this name has another meaning there."""


@functools.cache
def tree(path):
    return ast.parse(path.read_text())


def name_of(path):
    return path.relative_to(FOLDER).as_posix()


def called(node):
    """The last part of the name of what is called, such as `option` of `lab.option(...)`."""
    return ast.unparse(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""


def declared_by_hand(path):
    """Names of shared options that a file declares by `option` or `scaled`, or by a plain default."""
    for cls in (node for node in ast.walk(tree(path)) if isinstance(node, ast.ClassDef)):
        if cls.decorator_list or "NamedTuple" in map(ast.unparse, cls.bases):
            continue  # a record, and no options
        for node in cls.body:
            if not isinstance(node, ast.AnnAssign) or node.value is None or node.target.id not in options.SHARED:
                continue
            if ast.unparse(node.value).partition("(")[0].removeprefix("lab.") != f"options.{node.target.id}":
                yield node.target.id


def test_shared_options_are_made_by_their_makers():
    found = {(name_of(path), option) for path in FILES for option in declared_by_hand(path)}
    assert found - set(EXCEPTIONS) == set(), "use `options.NAME(...)`, or give the option a name of its own"
    assert set(EXCEPTIONS) <= found, "exceptions that are none any more"


@pytest.mark.parametrize("id", [study.id for study in lab.catalog()])
def test_options_of_one_name_mean_the_same(id):
    kind = lab.get(id).config_type
    fields = fields_of(kind)
    assert "seeds" not in fields, "repeats are called draws"
    files = {one.__module__.removeprefix("secant.studies.").replace(".", "/") + ".py" for one in kind.__mro__}
    for name in options.SHARED.keys() & fields.keys():
        if not any((file, name) in EXCEPTIONS for file in files):
            assert fields[name].metadata["help"] == options.SHARED[name].help, name


def test_exceptions_are_few_and_have_reasons():
    assert len(EXCEPTIONS) <= 10
    assert all(len(reason.split()) > 2 for reason in EXCEPTIONS.values())


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("steps: int = options.steps(3)", []),
        ("steps: int = lab.options.steps(3)", []),
        ("steps: int = option(3)", ["steps"]),
        ("steps: int = lab.scaled(smoke=3, laptop=4)", ["steps"]),
        ("steps: int = options.draws(3)", ["steps"]),
        ("steps: int = 3", ["steps"]),
        ("rounds: int = option(3)", []),
    ],
)
def test_the_search_for_options_finds_what_it_should(tmp_path, line, found):
    path = tmp_path / "one.py"
    path.write_text(f"class Config(Options):\n    {line}\n")
    assert list(declared_by_hand(path)) == found


def same_twice(path):
    """Lines of claims whose key is their sentence."""
    for node in ast.walk(tree(path)):
        if called(node) == "claim" and len(node.args) > 1 and ast.dump(node.args[0]) == ast.dump(node.args[1]):
            yield node.lineno


def test_a_key_is_not_its_sentence():
    found = [f"{name_of(path)}:{line}" for path in FILES for line in same_twice(path)]
    assert found == [], "give each claim a short key, which stays when the sentence is reworded"


def test_the_search_for_keys_finds_what_it_should(tmp_path):
    path = Path(tmp_path / "one.py")
    path.write_text('claim(name, name)\nlab.claim(f"{a} b", f"{a} b", given=x)\nclaim("rise", "it rises")\n')
    assert list(same_twice(path)) == [1, 2]


def test_studies_make_findings_by_claims():
    made = {"Finding", "Erratum"}
    found = [
        f"{name_of(path)}:{node.lineno}" for path in FILES for node in ast.walk(tree(path)) if called(node) in made
    ]
    assert found == []
