"""Records of watched runs: whole lines, one writer, and nothing lost."""

import json
import math
import resource
import signal

import numpy as np
import pytest

from secant.monitors import RecordError, Writer, read
from secant.monitors.records.record import place


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "run"


def test_what_is_written_is_read_while_it_grows(folder):
    with Writer(folder, {"framework": "jax", "plan": {"every": 20}}) as writer:
        writer.append({"step": 0, "loss": np.float32(2), "lr": 0.1})
        writer.note(0, "a look is sub-sampled")
        assert len(read(folder).rows) == 1
        writer.append({"step": 20, "loss": math.nan, "sharpness": math.inf}, {"step": 40, "loss": -math.inf})
    run = read(folder)
    steps, losses = run.column("loss")
    np.testing.assert_array_equal(steps, [0, 20, 40])
    np.testing.assert_array_equal(losses, [2, math.nan, -math.inf])
    assert run.names == ["loss", "lr", "sharpness"]
    assert run.notes == [(0, "a look is sub-sampled")]
    assert (run.about["framework"], run.about["plan"], run.damaged) == ("jax", {"every": 20}, 0)
    assert run.column("kernel_drift")[0].size == 0


@pytest.mark.parametrize("cut", range(1, 40, 5))
def test_a_kill_in_the_middle_of_a_line_loses_that_line_alone(folder, cut):
    with Writer(folder, {}) as writer:
        writer.append({"step": 0, "loss": 1.0}, {"step": 1, "loss": 0.123456789, "lr": 0.1})
    rows = folder / "rows.jsonl"
    content = rows.read_bytes()
    rows.write_bytes(content[:-cut])
    assert [row["step"] for row in read(folder).rows] == ([0] if cut > 1 else [0, 1])
    with Writer(folder, {}) as writer:
        writer.append({"step": 2, "loss": 0.5})
    run = read(folder)
    assert [row["step"] for row in run.rows] == ([0, 2] if cut > 1 else [0, 1, 2])
    assert run.about["resumed"] == 1


def test_a_second_writer_is_refused_and_the_first_goes_on(folder):
    with Writer(folder, {}) as first:
        with pytest.raises(RecordError, match="another process writes"):
            Writer(folder, {})
        first.append({"step": 0, "loss": 1.0})
    assert len(read(folder).rows) == 1


def test_a_full_disk_loses_one_line_and_nothing_before_it(folder):
    with Writer(folder, {}) as writer:
        writer.append({"step": 0, "loss": 1.0})
        before = (folder / "rows.jsonl").read_bytes()
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 5, limits[1]))
        try:
            with pytest.raises(RecordError):
                writer.append({"step": 1, "loss": 1.0})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            signal.signal(signal.SIGXFSZ, handler)
        assert (folder / "rows.jsonl").read_bytes() == before
        writer.append({"step": 2, "loss": 1.0})
    assert [row["step"] for row in read(folder).rows] == [0, 2]


def test_a_record_of_a_later_version_is_neither_read_nor_written(folder):
    folder.mkdir()
    (folder / "about.json").write_text(json.dumps({"format": 99, "secant": "9.0"}))
    with pytest.raises(RecordError, match=r"format 99.*9\.0"):
        read(folder)
    with pytest.raises(RecordError, match="format 99"):
        Writer(folder, {})
    assert json.loads((folder / "about.json").read_text())["format"] == 99


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"format": "x"}', '{"format": NaN}', "[" * 100_000, "x" * (2 << 20)], ids=range(7)
)
def test_what_is_no_record_is_named(folder, content):
    folder.mkdir()
    (folder / "about.json").write_text(content)
    with pytest.raises(RecordError, match=r"about\.json"):
        read(folder)
    with pytest.raises(RecordError, match="no record"):
        read(folder.parent)


def test_lines_that_are_not_ours_are_counted(folder):
    with Writer(folder, {}) as writer:
        writer.append({"step": 0, "loss": 1.0})
    lines = [
        b"\xff\xfe",
        b"{}",
        b'{"step": true}',
        b'{"step": -1}',
        b'{"step": 1, "loss": "x"}',
        b'{"step": 1, "l": NaN}',
    ]
    with (folder / "rows.jsonl").open("ab") as file:
        file.write(b"\n".join(lines) + b"\n" + b"[" * 100_000 + b"\n")
    run = read(folder)
    assert (len(run.rows), run.damaged) == (1, len(lines) + 1)


def test_names_stay_below_home(tmp_path, monkeypatch):
    monkeypatch.setenv("SECANT_HOME", str(tmp_path))
    assert place("today") == tmp_path / "watched" / "today"
    assert place().name == "run-1"
    (tmp_path / "watched" / "run-1").mkdir(parents=True)
    assert place().name == "run-2"
    for bad in ("", ".hidden", "a b", "a\0b", "a\nb"):
        with pytest.raises(RecordError, match="letters, digits"):
            place(bad)
