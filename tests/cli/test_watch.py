"""`secant watch`: a record drawn in a terminal, as it goes, and what is said of what is none."""

import json
import threading
import time

import numpy as np
import pytest
from rich.cells import cell_len

from secant.cli import braille, watch
from secant.monitors import Writer, read
from secant.monitors.display import Panel, Series, above_edge, last_values, panels, thinned

ABOUT = {
    "framework": "jax",
    "optimiser": "sgd",
    "parameters": 78_000,
    "plan": {"budget": 0.05, "looks": {"batch_sharpness": {"every": 20, "seconds": 0.4}}},
}


def filled(folder, steps=200, **about):
    """A run whose sharpness crosses the edge at a half, with one step that leaps."""
    with Writer(folder, ABOUT | about) as writer:
        for step in range(steps):
            row = {"step": step, "loss": 1.0 / (1 + step) + 5.0 * (step == 150), "lr": 0.1, "batch": 64}
            if step % 20 == 0:
                row |= {"sharpness": 40.0 * step / steps, "threshold": 20.0, "batch_sharpness": 10.0 + step / 20}
                row |= {"noise_scale": 30.0, "share": 0.048, "gradient_norm": 1.0}
            writer.append(row)
        writer.note(150, "the loss leapt [bold]and came back[/bold]")
    return folder


@pytest.fixture
def run(home):
    return filled(home / "watched" / "digits")


@pytest.mark.parametrize("width", [40, 80, 120])
def test_one_frame_has_the_charts_the_numbers_and_the_notes(secant, run, width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    status, output, errors = secant("watch", "digits", "--once")
    assert (status, errors) == (0, "")
    assert max(map(cell_len, output.splitlines())) <= width
    text = " ".join(output.split())
    for shown in ("digits", "ended at step 199", "Loss", "Sharpness against", "Noise scale", "step 150:"):
        assert shown in text
    if width >= 80:
        for shown in (
            "jax, sgd, parameters 78,000",
            "36 edge 20 above at 4 of 10",
            "2 / step size 20",
            "4.8% of 5%",
            "the loss leapt [bold]and came back[/bold]",
        ):
            assert shown in text
    assert "⠉" in output


def test_a_folder_will_do_as_well_as_a_name(secant, tmp_path):
    filled(tmp_path / "elsewhere" / "run", optimiser={"lr": 0.1, "name": "sgd", "settings": {"momentum": 0.9}})
    status, output, _ = secant("watch", str(tmp_path / "elsewhere" / "run"), "--once")
    assert status == 0
    assert "jax, sgd, lr 0.1, settings momentum 0.9, parameters 78,000" in output


def test_without_a_name_the_records_are_listed(secant, run, home):
    with Writer(home / "watched" / "second", {"framework": "torch", "optimiser": "adam"}) as writer:
        writer.append({"step": 7, "loss": 0.25})
        (home / "watched" / "broken").mkdir()
        (home / "watched" / "broken" / "about.json").write_text("{")
        (home / "watched" / "a b").mkdir()
        (home / "watched" / "link").symlink_to(run)
        status, output, _ = secant("watch")
    lines = [line.split() for line in output.splitlines()]
    assert status == 0
    assert ["digits", "jax", "sgd", "199", "0.005"] in [line[:5] for line in lines]
    second = next(line for line in lines if line[0] == "second")
    assert second[1:5] == ["torch", "adam", "7", "0.25"]
    assert second[-2:] == ["goes", "on"]
    assert "broken" in {line[0] for line in lines}
    assert "link" not in {line[0] for line in lines}


def test_no_record_at_all_is_said(secant):
    status, output, _ = secant("watch")
    assert status == 0
    assert "No run has been watched yet" in output


def test_what_is_no_record_is_said_with_status_1(secant, home, run):
    watched = home / "watched"
    (watched / "empty").mkdir()
    (watched / "newer").mkdir()
    (watched / "newer" / "about.json").write_text(json.dumps({"format": 99, "secant": "9.1\x1b[2J"}))
    (watched / "damaged").mkdir()
    (watched / "damaged" / "about.json").write_text("{")
    for name, said in {
        "nothing": "there is no record",
        "empty": "there is no record",
        "newer": "of format 99, written by Secant 9.1",
        "damaged": "cannot be read",
        "a b": "letters, digits",
    }.items():
        status, output, errors = secant("watch", name, "--once")
        assert (status, output) == (1, ""), name
        assert said in errors
        assert "\x1b" not in errors
        assert errors.startswith("secant: watch: ")
        assert errors.count("\n") == 1


def test_a_record_without_a_row_is_said(secant, home):
    Writer(home / "watched" / "early", {}).close()
    status, output, _ = secant("watch", "early", "--once")
    assert status == 1
    assert "Nothing has been measured yet" in output
    with Writer(home / "watched" / "early", {}):
        assert secant("watch", "early", "--once")[0] == 0  # it has only begun


def test_lines_that_cannot_be_read_are_counted(secant, run):
    with (run / "rows.jsonl").open("a") as file:
        file.write("{\n{}\n")
    status, output, _ = secant("watch", "digits", "--once")
    assert status == 0
    assert "2 lines of the record could not be read" in output


@pytest.mark.parametrize("wrong", [["--seconds", "0"], ["--seconds", "x"], ["--colour"], ["a", "b"]])
def test_wrong_options_end_with_status_2(secant, run, wrong):
    assert secant("watch", *wrong)[0] == 2


def test_a_run_is_followed_until_it_ends(secant, home, monkeypatch):
    frames = []
    draw = watch.frame
    monkeypatch.setattr(
        watch, "frame", lambda run, *rest, **more: frames.append(len(run.rows)) or draw(run, *rest, **more)
    )
    writer = Writer(home / "watched" / "live", ABOUT)
    writer.append({"step": 0, "loss": 2.0})

    def train():
        while not frames:
            time.sleep(0.01)
        writer.append({"step": 1, "loss": 1.0}, {"step": 2, "loss": 0.5})
        writer.close()

    thread = threading.Thread(target=train)
    thread.start()
    status, output, _ = secant("watch", "live", "--seconds", "0.05")
    thread.join()
    assert status == 0
    assert (frames[0], frames[-1]) == (1, 3)
    assert "ended at step 2" in output


def test_a_frame_is_no_taller_than_the_terminal(run):
    from rich.console import Console

    for height in (16, 24, 50):
        console = Console(width=80, height=height, record=True, quiet=True)
        lines = console.render_lines(watch.frame(read(run), 80, goes_on=True, height=height), pad=False)
        assert len(lines) <= height
        assert any("Loss" in "".join(part.text for part in line) for line in lines)


def dots(lines, height=4):
    """Which dots of a chart are set, `(down, across)`."""
    cells = np.array([[ord(char) - 0x2800 for char in line.plain[9:]] for line in lines[:height]])
    places = np.array([[0, 3], [1, 4], [2, 5], [6, 7]])
    bits = (cells[:, None, :, None] >> places[None, :, None, :]) & 1
    return bits.reshape(4 * height, -1).astype(bool)


def test_a_straight_line_is_straight_and_its_ends_are_the_limits():
    steps = np.arange(101)
    panel = Panel("", "", (Series("x", steps, steps.astype(float)),))
    lines = braille.chart(panel, 60)
    drawn = dots(lines)
    assert drawn.any(axis=0).all()
    assert drawn[-1, 0]
    assert drawn[0, -1]
    heights = [np.flatnonzero(column).mean() for column in drawn.T]
    ideal = np.linspace(15, 0, drawn.shape[1])
    assert np.abs(heights - ideal).max() <= 1
    assert lines[0].plain.split()[0] == "100"
    assert lines[3].plain.split()[0] == "0"
    assert lines[4].plain.split() == ["0", "100"]


def test_gaps_stay_gaps_and_powers_of_ten_are_even():
    steps = np.arange(5)
    panel = Panel("", "", (Series("x", steps, np.array([1.0, 1e2, np.nan, 1e4, np.inf])),))
    assert panel.logarithmic
    np.testing.assert_allclose(panel.heights(panel.series[0].values), [0, 0.5, np.nan, 1, np.nan])
    drawn = dots(braille.chart(panel, 50))
    assert not drawn[:, 26:58].any()
    wild = Panel("", "", (Series("x", steps, np.array([-1.7e308, 0, 1.7e308, 5e-324, 0])),))
    np.testing.assert_allclose(wild.heights(wild.series[0].values), [0, 0.5, 1, 0.5, 0.5])
    same = Panel("", "", (Series("x", steps, np.full(5, 3.0)),))
    np.testing.assert_allclose(same.heights(same.series[0].values), 0.5)


def test_thinning_keeps_every_spike():
    values = np.random.default_rng(0).normal(size=100_000)
    values[77_777] = 50.0
    values[12_345] = -50.0
    values[5] = np.inf
    series = Series("x", np.arange(100_000), values)
    few = thinned(series, 200)
    assert len(few.steps) <= 400
    assert {77_777, 12_345} <= set(few.steps.tolist())
    np.testing.assert_array_equal(few.values, values[few.steps])
    assert np.all(np.diff(few.steps) > 0)
    assert thinned(Series("x", np.arange(3), np.ones(3)), 200).steps.size == 3


def test_bars_go_from_the_smallest_to_the_largest():
    assert braille.spark(np.arange(8.0), 8) == "▁▂▃▄▅▆▇█"
    assert braille.spark(np.array([1.0, np.nan, 1e9]), 3) == "▁ █"
    assert braille.spark(np.array([]), 8) == ""
    assert len(braille.spark(np.arange(1000.0), 36)) == 36


def test_each_quantity_is_beside_its_own_edge(tmp_path):
    plain = read(filled(tmp_path / "sgd"))
    by_title = {panel.title: panel for panel in panels(plain)}
    edge = by_title["Batch sharpness against the edge"].series[-1]
    assert edge.edge
    np.testing.assert_allclose(edge.values, 20.0)
    assert above_edge(by_title["Sharpness against the edge"]) == (4, 10)
    assert above_edge(by_title["Loss"]) is None
    with Writer(tmp_path / "momentum", {}) as writer:  # its edge is not 2 over the step
        writer.append({"step": 0, "batch_sharpness": 3.0, "lr": 0.1, "threshold": 38.0, "sharpness": 3.0})
    other = {panel.title: panel for panel in panels(read(tmp_path / "momentum"))}
    assert len(other["Batch sharpness against the edge"].series) == 1
    assert other["Sharpness against the edge"].series[-1].values[-1] == 38.0
    last = {one.name: one for one in last_values(plain)}
    assert (last["loss"].step, last["loss"].looks, last["loss"].most) == (199, 200, 1 / 151 + 5.0)
    assert last["sharpness"].value == 36.0
    assert (last["sharpness"].least, last["sharpness"].most, last["sharpness"].step) == (0.0, 36.0, 180)
