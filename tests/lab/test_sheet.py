"""The sheet of a figure: panels, and the colours of the look."""

import matplotlib as mpl
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from secant.lab import sheet, theme


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
