"""Every layer of infinite width has its rule where a reader, and the digest of a study's code, look for it."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

import secant
from secant import kernels, nets
from secant.kernels.layers import JOINS, RULES
from secant.lab.runs import code
from secant.nets.graphs.network import Dag

PACKAGE = Path(secant.__file__).parent
WITHOUT = {nets.layers.BatchNorm, nets.layers.GroupNorm, nets.layers.Frozen, nets.layers.Serial, Dag}


def test_a_layer_has_a_rule_or_is_known_to_have_none():
    assert set(nets.layers.Layer.__subclasses__()) == set(RULES) | set(JOINS) | WITHOUT


def test_a_rule_lies_in_a_file_of_the_name_of_its_layer():
    found = [(kind, rule.behind) for kind, rule in RULES.items()] + list(JOINS.items())
    for kind, function in found:
        assert function.__module__ == kind.__module__.replace("secant.nets", "secant.kernels"), kind


@pytest.fixture
def version(tmp_path, monkeypatch):
    """A function of a file, and of what is written at its end: the digest of a study of kernels in a copy."""
    copy = tmp_path / "secant"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(code, "PACKAGE", copy)
    study = SimpleNamespace(module=str(copy / "studies" / "book" / "ch09" / "sec_9_4.py"))

    def find(name=None, text=""):
        whole = "" if name is None else (copy / name).read_text()
        if name is not None:
            (copy / name).write_text(whole + text)
        for cached in (code._file, code._name, code._needs, code._code):
            cached.cache_clear()
        found = code.code_version(study)
        if name is not None:
            (copy / name).write_text(whole)
        return found

    yield find
    for cached in (code._file, code._name, code._needs, code._code):
        cached.cache_clear()


def test_a_study_of_kernels_depends_on_every_rule(version):
    plain = version()
    rules = sorted(path.relative_to(PACKAGE) for path in Path(kernels.layers.__file__).parent.glob("*.py"))
    assert len(rules) > 10
    assert [str(name) for name in rules if version(name, "\nCHANGED = True\n") == plain] == []
    assert version("kernels/layers/conv.py", "\n# a remark\n") == plain
    assert version("kernels/criticality.py", "\nCHANGED = True\n") == plain  # nothing that the study uses
