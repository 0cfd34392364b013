"""Studies are known by the heads of their files, and imported one by one."""

import importlib
import subprocess
import sys

import pytest

from secant import lab
from secant.lab.registry import lookup
from secant.lab.registry.shelf import FOLDER, SHARED, heads

STUDY = '''
@study(
    "mine/{name}",
    section="{section}",
    title={title},
    new=True,
)
def run(config: Config) -> xr.Dataset:
    """What is claimed.

    And more.
    """
'''


def write(folder, path, **said):
    said = {"name": "one", "section": "1", "title": '"T"'} | said
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_text(STUDY.format(**said))


def test_the_heads_say_what_the_studies_are():
    for entry, study in zip(heads(), lab.catalog(), strict=True):
        assert entry[:-1] == (study.id, study.section, study.title, study.statement, study.new)
        assert entry.module == study.compute.__module__


def test_where_a_study_stands_follows_from_its_id_and_section():
    sources = lab.sources()
    for entry in heads():
        assert entry.module == sources[entry.id.split("/")[0]].module(entry.id, entry.section)


def test_a_folder_of_studies_has_at_most_a_dozen_files():
    for folder in (path for path in FOLDER.glob("*/*") if path.is_dir()):
        assert len([path for path in folder.glob("*.py") if path.name != "__init__.py"]) <= 12, folder


def test_every_chapter_of_every_source_has_its_folder():
    for package in (path.parent for path in FOLDER.glob("*/__init__.py") if path.parent.name != SHARED):
        source = importlib.import_module(f"secant.studies.{package.name}").SOURCE
        assert source.key == package.name
        assert set(source.chapters) <= set(source.folders)
        assert set(source.folders.values()) == {path.parent.name for path in package.glob("*/__init__.py")}


def test_a_section_without_a_folder_is_named():
    with pytest.raises(KeyError, match=r"quadreg/fig-99: section 9\.1 has no folder in SOURCE\.folders of 'quadreg'"):
        lab.sources()["quadreg"].module("quadreg/fig-99", "9.1")


def test_studies_are_found_at_any_depth_in_reading_order(tmp_path):
    write(tmp_path, "mine/ch10/a.py", name="late", section="10.1")
    write(tmp_path, "mine/ch2/b.py", name="early", section="2.3")
    write(tmp_path, "mine/c.py", name="between", section="2.10")
    found = heads(tmp_path, "secant.studies")
    assert [entry.id for entry in found] == ["mine/early", "mine/between", "mine/late"]
    assert found[0].module == "secant.studies.mine.ch2.b"
    assert found[0].statement == "What is claimed.\n\nAnd more."
    assert found[0].new


ONE_LINE = """
import secant as sc

@sc.lab.study("x/y", section="1", title="T")
def run(config): "S."
"""


@pytest.mark.parametrize("called", ["study", "lab.study", "sc.lab.study"])
def test_a_decorator_of_one_line_is_found(tmp_path, called):
    (tmp_path / "y.py").write_text(ONE_LINE.replace("sc.lab.study", called))
    assert heads(tmp_path, "x") == [("x/y", "1", "T", "S.", False, "x.y")]


@pytest.mark.parametrize(
    "text",
    [
        '"""It speaks of @study("x/y", section="1", title="T") and makes none."""\n',
        "# @study()\ndef run(config): ...\n",
        "@other\n@another(3)\ndef run(config): ...\n",
    ],
)
def test_a_file_that_holds_no_study_is_named(tmp_path, text):
    write(tmp_path, "a.py")
    (tmp_path / "b.py").write_text(text)
    said = r"x\.b: the file holds no study\. Decorate a function with `@study\(\.\.\.\)`, or move it"
    with pytest.raises(ValueError, match=said):
        heads(tmp_path, "x")


def test_what_studies_share_holds_none(tmp_path):
    write(tmp_path, "mine/a.py")
    for place in ("mine/shared/b.py", "shared/c.py", "mine/__init__.py"):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).write_text("FACTOR = 2\n")
    assert [entry.module for entry in heads(tmp_path, "x")] == ["x.mine.a"]


def test_two_studies_of_one_name_are_refused(tmp_path):
    write(tmp_path, "a.py")
    write(tmp_path, "b.py")
    with pytest.raises(ValueError, match=r"two studies are called 'mine/one': in x\.a and in x\.b"):
        heads(tmp_path, "x")


def test_a_head_is_made_of_literals(tmp_path):
    write(tmp_path, "a.py", title="TITLE")
    with pytest.raises(ValueError, match=r"x\.a: id, section and title of a study must be literals"):
        heads(tmp_path, "x")


def test_only_the_study_that_is_asked_for_is_imported():
    code = """
import sys
from secant import lab
from secant.lab.sweeping.execute import turns_of

for entry in lab.registry.lookup.chosen():
    assert turns_of(entry, "smoke", 1) == 1
lab.get("quadreg/fig-2")
print(*sys.modules)
"""
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "secant.studies.quadreg.sec2.fig_2" in modules
    assert not [name for name in modules if name.startswith("secant.studies.thesis")]


def test_an_unknown_source_is_refused_by_name():
    with pytest.raises(lab.UnknownStudyError, match=r"unknown source 'quadrag'\. Did you mean 'quadreg'\?"):
        lookup.entries("quadrag")


def test_studies_are_chosen_in_the_order_asked_for_and_of_a_source():
    def ids(*arguments):
        return [entry.id for entry in lookup.chosen(*arguments)]

    both = ["thesis/sec-3.3", "quadreg/fig-2"]
    assert ids(both) == both
    assert ids(both, "quadreg") == ["quadreg/fig-2"]
    assert ids([], "quadreg") == [study.id for study in lookup.select(source="quadreg")]
    with pytest.raises(lab.UnknownStudyError, match="unknown study 'quadreg/fig-0'"):
        lookup.chosen(["quadreg/fig-0"])
