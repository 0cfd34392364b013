"""Which code a study depends on: what it imports, name by name, and nothing that changes no number."""

import importlib.util
import sys
from pathlib import Path

import pytest

from secant import lab
from secant.lab.runs import code

STUDY = '''
"""A study of somebody's own."""
import secant as sc
from secant.lab import claim, option, study
from secant.theory.edge import quartic
from dataclasses import dataclass
import helper

@dataclass(frozen=True)
class Config:
    """Its options."""
    steps: int = option(3)

@study("mine/one", section="1", title="T")
def run(config: Config):
    """What it does."""
    return helper.FACTOR * sc.critical_lr(quartic.loss)
'''


@pytest.fixture
def version(tmp_path, monkeypatch):
    """A function of the texts of a study and of the file beside it: the digest of its code, and of which files."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def find(study=STUDY, beside="FACTOR = 2\n"):
        (tmp_path / "helper.py").write_text(beside)
        path = tmp_path / "mine.py"
        path.write_text(study)
        sys.modules.pop("helper", None)
        spec = importlib.util.spec_from_file_location("mine", path)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "mine", module)
        spec.loader.exec_module(module)
        return code.code_version(module.run), {code._name(file) for file in code.closure(path)}

    yield find
    sys.modules.pop("helper", None)


def test_a_study_depends_on_what_it_imports_and_on_nothing_else(version):
    _, files = version()
    assert files >= {
        "mine.py",
        "helper.py",
        "theory/edge/quartic.py",
        "curvature/critical_steps/full_batch.py",
        "lab/verdicts/finding.py",
    }
    assert not any(name.startswith(("atlas/", "cli/", "features/", "studies/")) for name in files)
    assert [name for name in files if name.startswith("dynamics/")] == ["dynamics/map.py"]
    assert "lab/runs/store.py" not in files


def test_words_to_the_reader_change_nothing(version):
    plain, _ = version()
    assert version(STUDY.replace("What it does.", "What else it does."))[0] == plain
    assert version(STUDY.replace("import helper", "import helper  # of mine"))[0] == plain
    assert version(beside='"""Numbers."""\n\nFACTOR = 2\n"""What to multiply by."""\n')[0] == plain


def test_what_is_computed_changes_it(version):
    plain, _ = version()
    found = {
        plain,
        version(STUDY.replace("option(3)", "option(4)"))[0],
        version(beside="FACTOR = 3\n")[0],
        version(
            STUDY.replace(
                "from secant.theory.edge import quartic", "from secant.theory.edge import skeleton as quartic"
            )
        )[0],
    }
    assert len(found) == 4


def test_a_name_of_the_package_leads_to_the_file_that_defines_it():
    files = {code._name(file) for file in code.closure(Path(lab.get("quadreg/fig-2").module))}
    assert files >= {
        "dynamics/runner.py",
        "dynamics/loop.py",
        "theory/edge/edge_limit.py",
        "studies/quadreg/sec2/fig_2.py",
    }
    assert not {"dynamics/training.py", "dynamics/control.py", "theory/catapult.py", "_version.py"} & files


@pytest.mark.parametrize("study", lab.catalog(), ids=lambda study: study.id)
def test_a_study_s_files_are_those_below_the_lab(study):
    files = {code._name(file) for file in code.closure(Path(study.module))}
    assert len(files) > 5
    assert not any(name.startswith(("atlas/", "cli/")) for name in files)
    rooms = {name.split("/")[1] for name in files if name.startswith("studies/")}
    assert study.source.key in rooms <= {study.source.key, "shared"}


def test_a_study_made_at_a_prompt_is_known_by_its_compiled_code(tmp_path):
    def made(text, name):
        names = {"__name__": "prompt"}
        exec(compile(text.replace("import helper\n", "").replace("helper.FACTOR", "2"), name, "exec"), names)
        return code.code_version(names["run"])

    page = tmp_path / "page.md"
    page.write_text("It isn't Python.")
    for name in ("<stdin>", str(page)):
        plain = made(STUDY, name)
        assert made(STUDY, name) == plain
        assert made(STUDY.replace("* sc.critical_lr", "/ sc.critical_lr"), name) != plain
