"""The sheet of a figure: panels, and the colours of the look."""

import matplotlib as mpl
import pytest
import xarray as xr
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from secant.lab import Estimate, sheet, theme


def test_panels_stand_side_by_side_on_a_figure_of_the_size():
    figure = Figure()
    left, right = sheet.panels(figure, (9, 4), 2, sharex=True)
    assert tuple(figure.get_size_inches()) == (9, 4)
    assert left.get_shared_x_axes().joined(left, right)
    assert sheet.panels(Figure(), (5, 4)).get_title() == ""
    assert sheet.panels(Figure(), (5, 8), 2, 3).shape == (3, 2)


@pytest.mark.parametrize("name", ["light", "dark"])
def test_ink_is_the_colour_of_text_and_can_be_read_on_its_paper(name):
    with mpl.rc_context(theme(name)):
        paper = sum(to_rgb(mpl.rcParams["figure.facecolor"]))
        assert sheet.ink() == mpl.rcParams["text.color"]
        assert sheet.faint() == mpl.rcParams["grid.color"]
        assert abs(sum(to_rgb(sheet.ink())) - paper) > 1.5
        assert abs(sum(to_rgb(sheet.faint())) - paper) < abs(sum(to_rgb(sheet.ink())) - paper)


def test_what_the_theory_says_is_dashed_and_in_ink():
    axes = sheet.panels(Figure(), (5, 4))
    sheet.guide(axes, [0, 1], [1, 2], "theory", lw=2)
    sheet.mark(axes, x=2.0, y=[3.0, 4.0], label="edge", ls=":")
    line, *marks = axes.lines
    assert (line.get_linestyle(), line.get_color(), line.get_lw(), line.get_label()) == ("--", sheet.ink(), 2, "theory")
    assert [next(iter(mark.get_xdata())) for mark in marks] == [2, 0, 0]
    assert [next(iter(mark.get_ydata())) for mark in marks] == [0, 3, 4]
    assert {mark.get_linestyle() for mark in marks} == {":"}
    assert axes.get_legend_handles_labels()[1] == ["theory", "edge"]


def test_a_spread_is_mean_and_deviation_along_the_other_axis():
    axes = sheet.panels(Figure(), (5, 4))
    table = xr.DataArray([[1.0, 3.0], [2.0, 6.0]], dims=("width", "seed"), coords={"width": [10, 20]})
    sheet.spread(axes, table, "seed", "runs")
    line, _, (bars,) = axes.containers[0]
    assert list(line.get_xdata()) == [10, 20]
    assert list(line.get_ydata()) == [2, 4]
    assert [list(bar[:, 1]) for bar in bars.get_segments()] == [[1, 3], [2, 6]]


def test_a_panel_says_what_it_shows_and_names_what_is_drawn():
    plain, named, framed = sheet.panels(Figure(), (9, 4), 3)
    for axes in (plain, named, framed):
        axes.plot([1, 2], [1, 10], label="runs")
    sheet.label(plain, y="loss", yscale="log")
    sheet.label(named, "Loss", "step", "loss", "upper left", xlim=(0, 3))
    sheet.label(framed, "Loss", legend={"title": "over widths", "ncols": 2})
    assert (plain.get_title(), plain.get_xlabel(), plain.get_ylabel()) == ("", "", "loss")
    assert plain.get_yscale() == "log"
    assert plain.get_legend() is None
    assert (named.get_title(), named.get_xlabel(), named.get_ylabel()) == ("Loss", "step", "loss")
    assert named.get_xlim() == (0, 3)
    assert [text.get_text() for text in named.get_legend().get_texts()] == ["runs"]
    assert framed.get_legend().get_title().get_text() == "over widths"


def test_estimates_have_bars_of_two_standard_errors_and_ticks_stand_at_the_widths():
    axes = sheet.panels(Figure(), (5, 4))
    axes.set_xscale("log")
    sheet.errors(axes, [10, 20], [Estimate(1.0, 0.5), Estimate(4.0, 1.0)], "runs", color="C1")
    _, _, (bars,) = axes.containers[0]
    assert [list(bar[:, 1]) for bar in bars.get_segments()] == [[0, 2], [2, 6]]
    sheet.ticks(axes, [10, 20])
    assert [text.get_text() for text in axes.get_xticklabels()] == ["10", "20"]
    assert not len(axes.xaxis.get_minorticklocs())
