"""Figures laid out again: at most two panels a row and all of each panel's words, or one panel without any."""

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure

from secant.lab import theme
from secant.lab.drawing import panels


@pytest.fixture(autouse=True)
def look():
    with matplotlib.rc_context(theme("light")):
        yield


def figure_of(rows, columns, width=12.0, height=4.0, **options):
    figure = Figure(figsize=(width, height), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, **options)
    for k, axes in enumerate(grid.ravel()):
        axes.plot(np.arange(5), np.arange(5) * (k + 1), label=f"line {k}")
    return figure, grid


def boxes(figure):
    """Where the panels are, in inches from the lower left corner."""
    figure.draw_without_rendering()
    return [axes.bbox.transformed(figure.dpi_scale_trans.inverted()) for axes in figure.axes]


def abreast(figure):
    """The largest number of panels that one height of the figure meets."""
    found = boxes(figure)
    return max(sum(box.y0 <= (one.y0 + one.y1) / 2 <= box.y1 for box in found) for one in found)


def inside(figure, artist):
    box = artist.get_window_extent()
    return box.x0 >= -1 and box.x1 <= figure.bbox.x1 + 1 and box.y0 >= -1 and box.y1 <= figure.bbox.y1 + 1


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 2), (1, 3), (1, 4), (2, 3), (2, 5)])
def test_panels_go_below_one_another_and_are_wide_enough(rows, columns):
    figure, _ = figure_of(rows, columns)
    panels.stack(figure)
    assert abreast(figure) == 1
    assert figure.get_size_inches()[0] == panels.NARROW
    assert all(box.width > 3.4 and box.height > 1.5 for box in boxes(figure))
    tops = [box.y1 for box in boxes(figure)]
    assert len(set(np.round(tops, 3))) == rows * columns


def test_pictures_without_scales_are_two_abreast():
    figure = Figure(figsize=(11, 2), layout="constrained")
    for axes in figure.subplots(1, 5):
        axes.imshow(np.eye(4))
        axes.set(xticks=[], yticks=[])
    panels.stack(figure)
    assert abreast(figure) == 2


def test_what_a_panel_shared_it_gets_for_itself():
    figure, grid = figure_of(2, 2, sharex=True, sharey="row")
    for column, name in zip(grid.T, ("first", "second"), strict=True):
        column[0].set_title(name)
        column[1].set_xlabel("step")
    grid[0, 0].set_ylabel("loss")
    grid[1, 0].set_ylabel("kernel")
    panels.stack(figure)
    order = sorted(grid.ravel(), key=lambda axes: -axes.bbox.y1)
    assert order == [*grid[:, 0], *grid[:, 1]], "a title above a column belongs to all of it"
    for axes, title, label in zip(order, ("first", "first", "second", "second"), ("loss", "kernel") * 2, strict=True):
        assert (axes.get_title(loc="left"), axes.get_ylabel(), axes.get_xlabel()) == (title, label, "step")
        for axis in (axes.xaxis, axes.yaxis):
            assert any(tick.label1.get_visible() and tick.label1.get_text() for tick in axis.get_major_ticks())


def test_a_label_of_another_quantity_is_not_taken_over():
    figure, (row,) = figure_of(1, 2)
    row[0].set_ylabel("loss")
    row[1].set_title("Alignment")
    panels.stack(figure)
    assert row[1].get_ylabel() == ""


def test_colour_bars_and_twins_stay_with_their_panels():
    figure = Figure(figsize=(11, 4), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    bar = figure.colorbar(middle.imshow(np.eye(9), aspect="auto"), ax=middle).ax
    twin = right.twinx()
    left.plot([0, 1])
    panels.stack(figure)
    figure.draw_without_rendering()
    assert bar.bbox.x0 > middle.bbox.x1
    assert abs(bar.bbox.y0 - middle.bbox.y0) < 2
    assert abs(bar.bbox.y1 - middle.bbox.y1) < 2
    np.testing.assert_allclose(twin.bbox.bounds, right.bbox.bounds)


@pytest.mark.parametrize("place", ["outside lower center", "outside right center"])
def test_the_legend_of_a_figure_goes_below_all_panels_and_fits(place):
    figure, grid = figure_of(1, 3)
    handles = [axes.lines[0] for axes in grid[0]]
    names = [f"a model with a rather long name, number {k}" for k in range(3)]
    figure.legend(handles, names, loc=place, ncols=3)
    panels.stack(figure)
    figure.draw_without_rendering()
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == names
    assert inside(figure, legend)
    assert legend.get_window_extent().y1 < min(axes.bbox.y0 for axes in figure.axes)


@pytest.mark.parametrize("options", [{"bbox_to_anchor": (1.02, 0.5), "loc": "center left"}, {"ncols": 2}])
def test_a_legend_that_sticks_out_of_its_panel_goes_below_it(options):
    figure, (row,) = figure_of(1, 2)
    for k in range(3):
        row[1].errorbar([1, 2], [k, k], 0.1, fmt="o", label=f"measured with a long description, {k}")
    row[1].legend(**options)
    panels.stack(figure)
    figure.draw_without_rendering()
    legend = row[1].get_legend()
    assert inside(figure, legend)
    assert legend.get_window_extent().y1 < row[1].bbox.y0
    assert row[1].bbox.height / figure.dpi > 1.5, "the legend gets room of its own"
    assert row[1].bbox.width / figure.dpi > 3.4


def test_titles_too_long_are_broken_outside_formulas():
    figure, (row,) = figure_of(1, 2)
    row[0].set_title(r"How far the norm $a + b + c$ of the kernel is from where it was at the start, $x + y$ steps")
    panels.stack(figure)
    figure.draw_without_rendering()
    text = row[0].get_title(loc="left")
    assert "\n" in text
    assert "$a + b + c$" in text
    assert "$x + y$" in text
    assert figure.get_tightbbox().width <= panels.NARROW + 0.05


def test_parts_of_a_figure_are_stacked_each_for_itself():
    figure = Figure(figsize=(11, 6), layout="constrained")
    upper, lower = figure.subfigures(2, 1, height_ratios=(3, 2))
    for axes in upper.subplots(1, 3):
        axes.plot([0, 1])
    for axes in lower.subplots(1, 3):
        axes.imshow(np.eye(3))
        axes.set(xticks=[], yticks=[])
    lower.suptitle("A heading of the lower part that is too long for the width of a phone, and must be broken")
    panels.stack(figure)
    assert abreast(figure) == 2
    assert [axes.bbox.y0 for axes in upper.axes] == sorted((axes.bbox.y0 for axes in upper.axes), reverse=True)
    assert min(axes.bbox.y0 for axes in upper.axes) > max(axes.bbox.y1 for axes in lower.axes)
    assert "\n" in lower.get_suptitle()


@pytest.mark.parametrize("parts", [1, 2])
def test_a_thumbnail_is_the_first_panel_without_words(parts):
    figure = Figure(figsize=(11, 6), layout="constrained")
    homes = [figure] if parts == 1 else list(figure.subfigures(parts, 1))
    drawn = [home.subplots(1, 3) for home in homes]
    first = drawn[0][0]
    for axes in np.ravel(drawn):
        axes.imshow(np.eye(5))
        axes.set(title="title", xlabel="x", ylabel="y")
        axes.text(0, 0, "words")
    homes[-1].suptitle("heading")
    figure.colorbar(first.images[0], ax=first)
    first.plot([0, 1], label="line")
    first.legend()
    figure.legend(loc="outside lower center")
    panels.stack(figure)
    panels.single(figure)
    figure.draw_without_rendering()
    assert figure.axes == [first]
    assert tuple(figure.get_size_inches()) == panels.THUMBNAIL
    assert first.bbox.height > 0.8 * figure.bbox.height
    shown = [text for text in figure.findobj(matplotlib.text.Text) if text.get_visible() and text.get_text()]
    assert [text for text in shown if text.get_window_extent().width > 0 and _drawn(text, first)] == []


def _drawn(text, axes):
    """Whether a text reaches the page: the numbers of ticks and the words of a hidden legend do not."""
    hidden = axes.get_legend()
    numbers = {tick.label1 for axis in (axes.xaxis, axes.yaxis) for tick in axis.get_major_ticks()}
    numbers |= {tick.label2 for axis in (axes.xaxis, axes.yaxis) for tick in axis.get_major_ticks()}
    return text not in numbers and text not in (hidden.findobj() if not hidden.get_visible() else [])
