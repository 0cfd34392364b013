"""Runs are whole or absent, and what was saved stays."""

import json
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import textwrap
import warnings

import numpy as np
import pytest

from secant.lab import CorruptRunError, Store, StoreError, run
from secant.lab.runs.store import load


def test_a_run_is_computed_once_and_read_back(demo, store):
    first = run(demo, scale="smoke", store=store, figure=False)
    second = run(demo, scale="smoke", store=store, figure=False)
    assert demo.calls == 1
    assert first.facts == second.facts
    np.testing.assert_array_equal(first.data().x, second.data().x)
    assert [f["verdict"] for f in first.findings] == ["holds", "erratum"]
    assert first.verdict == "erratum"


def test_another_configuration_is_another_run(demo, store):
    a = run(demo, scale="smoke", store=store, figure=False)
    b = run(demo, scale="smoke", store=store, figure=False, rate=0.25)
    assert a.directory != b.directory
    assert len(store.records()) == 2


def test_the_same_configuration_at_another_scale_is_the_same_run(demo, store):
    a = run(demo, scale="smoke", store=store, figure=False)
    b = run(demo, scale="laptop", store=store, figure=False, steps=10)
    assert (a.directory, a.scale, b.scale) == (b.directory, "smoke", "laptop")
    assert demo.calls == 1


def test_force_computes_again(demo, store):
    run(demo, scale="smoke", store=store, figure=False)
    run(demo, scale="smoke", store=store, figure=False, force=True)
    assert demo.calls == 2
    assert len(store.records()) == 1


def test_the_figure_comes_light_and_dark_wide_narrow_and_small(demo, store):
    record = run(demo, scale="smoke", store=store)
    assert {p.name for p in record.directory.iterdir()} == {
        "data.nc",
        "run.json",
        "figure.svg",
        "figure-dark.svg",
        "figure-narrow.svg",
        "figure-narrow-dark.svg",
        "thumbnail.svg",
        "thumbnail-dark.svg",
        "figure.png",
        "figures.json",
    }


def damage_truncate(path):
    path.write_bytes(path.read_bytes()[:-20])


def damage_flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def damage_remove(path):
    path.unlink()


@pytest.mark.parametrize("damage", [damage_truncate, damage_flip, damage_remove])
@pytest.mark.parametrize("name", ["data.nc", "run.json"])
def test_a_corrupt_run_is_said_and_recomputed(demo, store, damage, name):
    record = run(demo, scale="smoke", store=store, figure=False)
    damage(record.directory / name)
    with pytest.raises(CorruptRunError):
        load(record.directory)
    with pytest.warns(RuntimeWarning, match=r"corrupt.*computed again"):
        again = run(demo, scale="smoke", store=store, figure=False)
    assert demo.calls == 2
    assert load(again.directory).findings == again.findings


def test_an_edited_result_is_not_believed(demo, store):
    record = run(demo, scale="smoke", store=store, figure=False)
    facts = json.loads((record.directory / "run.json").read_text())
    facts["findings"][0]["verdict"] = "fails"
    (record.directory / "run.json").write_text(json.dumps(facts))
    with pytest.warns(RuntimeWarning, match="corrupt"):
        assert run(demo, scale="smoke", store=store, figure=False).findings[0]["verdict"] == "holds"


def test_a_run_from_elsewhere_is_taken_in_whole_and_once(demo, store, tmp_path):
    record = run(demo, scale="smoke", store=store, figure=False)
    config, other = demo.config("smoke"), Store(tmp_path / "other")
    assert other.adopt(demo, config, record.files()).facts == record.facts
    assert other.find(demo, config).data().identical(record.data())
    before = (other.directory(demo, config) / "run.json").stat().st_ino
    other.adopt(demo, config, record.files())
    assert (other.directory(demo, config) / "run.json").stat().st_ino == before


def test_a_run_from_elsewhere_must_be_sound_and_the_right_one(demo, store, tmp_path):
    files = run(demo, scale="smoke", store=store, figure=False).files()
    other = Store(tmp_path / "other")
    with pytest.raises(CorruptRunError, match="do not match their digests"):
        other.adopt(demo, demo.config("smoke"), {**files, "data.nc": files["data.nc"][:-1]})
    with pytest.raises(ValueError, match=r"another configuration, or another version of the code\. Use the same"):
        other.adopt(demo, demo.config("laptop"), files)
    assert other.records() == []


@pytest.mark.parametrize("name", ["../../escaped", "/tmp/escaped", "..", ".run.json", "sub/file", ""])
def test_a_run_from_elsewhere_writes_nothing_outside_its_directory(demo, store, tmp_path, name):
    files = run(demo, scale="smoke", store=store, figure=False).files()
    other = Store(tmp_path / "other")
    with pytest.raises(CorruptRunError, match=r"demo/halving: a run has no file called .*; nothing was written"):
        other.adopt(demo, demo.config("smoke"), {**files, name: b"harm"})
    assert not (tmp_path / "other").exists()


def test_a_run_from_elsewhere_has_the_files_it_names_and_no_others(demo, store, tmp_path):
    files = run(demo, scale="smoke", store=store, figure=False).files()
    other = Store(tmp_path / "other")
    with pytest.raises(CorruptRunError, match=r"files that it does not name, of .*'figure.svg'"):
        other.adopt(demo, demo.config("smoke"), {**files, "figure.svg": b"<svg/>"})
    with pytest.raises(CorruptRunError, match="FileNotFoundError"):
        other.adopt(demo, demo.config("smoke"), {"run.json": files["run.json"]})
    assert other.records() == []


def test_a_run_in_the_place_of_another_is_not_believed(demo, store):
    record = run(demo, scale="smoke", store=store, figure=False)
    place = store.directory(demo, demo.config("laptop"))
    record.directory.rename(place)
    with pytest.warns(RuntimeWarning, match=rf"it is the run demo/halving/{record.directory.name}.*computed again"):
        assert store.find(demo, demo.config("laptop")) is None


def test_what_could_not_be_read_again_is_not_saved(demo, store):
    config = demo.config("smoke")
    record = run(demo, scale="smoke", store=store, figure=False)
    for value in (float("nan"), float("inf"), "many", None):
        findings = [record.findings[0] | {"measured": value}]
        with pytest.raises(ValueError, match=r"demo/halving: this run cannot be saved: "):
            store.save(demo, config, "smoke", record.data(), findings, 1.0)
    assert [found.facts for found in store.records()] == [record.facts]


@pytest.mark.parametrize("stand_in", [lambda path: path.write_text("a file"), lambda path: path.symlink_to("nowhere")])
def test_what_stands_where_a_run_should_gives_way(demo, store, stand_in):
    place = store.directory(demo, demo.config("smoke"))
    place.parent.mkdir(parents=True)
    stand_in(place)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        assert run(demo, scale="smoke", store=store, figure=False).directory == place
    assert place.is_dir()
    assert not place.is_symlink()


def test_a_half_written_run_is_never_seen(demo, store):
    record = run(demo, scale="smoke", store=store, figure=False)
    half = record.directory.parent / ".abc.partial"
    half.mkdir()
    (half / "run.json").write_text("{")
    assert [r.directory for r in store.records()] == [record.directory]


def test_a_full_disk_is_said_and_loses_nothing(demo, store):
    before = run(demo, scale="smoke", store=store, figure=False)
    old_handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(StoreError, match=r"cannot write the run in .*Free some space.*untouched"):
            run(demo, scale="smoke", store=store, figure=False, rate=0.3)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, old_handler)
    assert [r.directory for r in store.records()] == [before.directory]
    assert load(before.directory).facts == before.facts
    assert not list(before.directory.parent.glob("*.partial"))


def test_no_permission_is_said(demo, store, tmp_path):
    (tmp_path / "home").write_text("a file where the store should be")
    with pytest.raises(StoreError, match=r"cannot lock the run in .*SECANT_HOME"):
        run(demo, scale="smoke", store=store, figure=False)


def test_a_study_that_breaks_leaves_nothing_behind(demo, store, monkeypatch):
    monkeypatch.setattr(demo, "compute", lambda config: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run(demo, scale="smoke", store=store, figure=False)
    assert store.records() == []


CHILD = textwrap.dedent("""
    import sys, time
    sys.path.insert(0, sys.argv[2])
    from conftest import halving
    from secant.lab import Store, run
    record = run(halving, scale="smoke", store=Store(sys.argv[1]), figure=False)
    print(halving.calls if hasattr(halving, "calls") else 0, record.directory)
""")


def test_two_processes_compute_the_same_run_once(store, request):
    here = str(request.path.parents[1])
    children = [
        subprocess.Popen([sys.executable, "-c", CHILD, str(store.root), here], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    lines = [child.communicate(timeout=120)[0].split() for child in children]
    assert [child.returncode for child in children] == [0, 0]
    assert sorted(int(line[0]) for line in lines) == [0, 1]
    assert lines[0][1] == lines[1][1]
    assert len(store.records()) == 1
    assert multiprocessing.active_children() == []
    assert os.path.isdir(lines[0][1])  # noqa: PTH112
