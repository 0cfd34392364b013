"""A run draws itself: a panel a record, a line a trajectory, and nothing in the way of the data."""

import jax.numpy as jnp
import matplotlib
import numpy as np
import pytest

import secant as sc

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.collections import LineCollection


@pytest.fixture(autouse=True)
def closed():
    yield
    pyplot.close("all")


def parabola(lr):
    return sc.gradient_descent(lambda x: x**2 / 2, lr)


# The same functions for all runs, so that equal ones are compiled once.
HALVES = parabola(0.5)
PROBES = {"x": lambda x: x, "loss": lambda x: x**2 / 2}
FAR = sc.Stop(diverged=lambda x: jnp.abs(x) > 1e3)


def descent(over=None, steps=20, **probes):
    """Gradient descent on a parabola: it diverges where the step is above 2."""
    given = probes or PROBES
    if over is None:
        return sc.simulate(HALVES, 1.0, steps, probes=given)
    return sc.simulate(parabola, 1.0, steps, over=over, probes=given, stop=FAR)


def lines(ax):
    (found,) = (part for part in ax.collections if isinstance(part, LineCollection))
    return found


def crosses(ax):
    return [part for part in ax.collections if not isinstance(part, LineCollection)]


def texts(legend):
    return [text.get_text() for text in legend.get_texts()]


def test_a_record_has_a_panel_and_the_numbers_of_the_run():
    run = descent()
    axes = run.plot()
    assert [ax.get_ylabel() for ax in axes] == ["loss", "x"]
    assert {ax.get_xlabel() for ax in axes} == {"step"}
    for ax, name in zip(axes, ("loss", "x"), strict=True):
        (points,) = lines(ax).get_segments()
        np.testing.assert_array_equal(points[:, 0], np.arange(21))
        np.testing.assert_array_equal(points[:, 1], run[name])
    # From 1/2 to 4 ** -20 of that, and so logarithmic; neither has anything to explain.
    assert axes[0].get_yscale() == axes[1].get_yscale() == "log"
    assert not axes[0].figure.legends
    assert len(run.plot("loss")) == 1


@pytest.mark.parametrize(("steps", "scale"), [(3, "linear"), (4, "log")])
def test_two_decades_make_an_axis_logarithmic(steps, scale):
    # The loss falls by four a step: 64 is below a hundred, 256 is above.
    assert descent(steps=steps).plot("loss")[0].get_yscale() == scale


def test_records_that_are_not_positive_have_a_plain_axis():
    run = descent(x=lambda x: -x, y=lambda x: x - 0.5)
    assert {ax.get_yscale() for ax in run.plot()} == {"linear"}


def test_axes_of_the_run_stand_in_one_legend_outside_of_the_data():
    run = descent({"lr": np.array([0.5, 1.5, 2.5])})
    axes = run.plot()
    figure = axes[0].figure
    (legend,) = figure.legends
    assert texts(legend) == ["lr = 0.5", "lr = 1.5", "lr = 2.5", "diverged"]
    assert len({tuple(colour) for colour in lines(axes[0]).get_colors()}) == 3
    figure.canvas.draw()
    for ax in axes:
        assert not legend.get_window_extent().overlaps(ax.get_window_extent())


def test_a_trajectory_ends_where_it_stopped_and_has_a_cross_where_it_diverged():
    run = descent({"lr": np.array([0.5, 2.5])})
    (ax,) = run.plot("loss")
    ended = int(run.dataset.stopped_at[1])
    assert ended < 20
    assert len(lines(ax).get_segments()[1]) == ended + 1
    (marks,) = crosses(ax)
    assert len(marks.get_offsets()) == 1
    low, high = ax.get_ylim()
    # What did not diverge fills half of the axis at least, in decades.
    steady = run["loss"][0].values
    assert np.log(steady.max() / steady.min()) >= 0.45 * np.log(high / low)
    x, y = marks.get_offsets()[0]
    assert low <= y <= high
    # The cross lies on the line.
    assert y == pytest.approx(np.exp(np.interp(x, np.arange(21), np.log(run["loss"][1]))), rel=1e-9)


def test_what_diverged_leaves_room_for_what_did_not():
    run = descent({"lr": np.array([0.1, 2.5])})
    (ax,) = run.plot("x")
    low, high = ax.get_ylim()
    steady = run["x"][0].values
    assert ax.get_yscale() == "linear"
    # It swings to both sides, and is shown as far as the other reaches on each.
    assert np.ptp(steady) >= 0.3 * (high - low)


def test_many_values_have_a_scale():
    run = descent({"lr": np.geomspace(0.01, 1.9, 12)})
    axes = run.plot()
    panels = [ax for ax in axes[0].figure.axes if ax not in axes]
    assert [ax.get_ylabel() for ax in panels] == ["lr"]
    assert panels[0].get_yscale() == "log"
    assert len({tuple(colour) for colour in lines(axes[0]).get_colors()}) == 12
    (even,) = descent({"lr": np.linspace(0.1, 1.9, 12)}).plot("x")
    assert even.figure.axes[1].get_yscale() == "linear"


def test_a_short_second_axis_is_shown_by_style():
    over = {"lr": np.array([0.5, 1.5]), "start": np.array([1.0, 2.0])}
    run = sc.simulate(parabola, lambda start: start, 5, over=over, probes={"x": lambda x: x})
    (ax,) = run.plot()
    assert texts(ax.figure.legends[0]) == ["lr = 0.5", "lr = 1.5", "start = 1", "start = 2"]
    assert len(lines(ax).get_segments()) == 4
    dashes = [style[1] for style in lines(ax).get_linestyle()]
    assert dashes[0] == dashes[2] is None
    assert dashes[1] == dashes[3] != dashes[0]


def test_components_of_a_record_stand_above_its_panel():
    run = descent(pair=lambda x: jnp.stack([x, 2 * x]), x=lambda x: x)
    pair, alone = run.plot("pair", "x")
    assert texts(pair.get_legend()) == ["pair[0]", "pair[1]"]
    assert alone.get_legend() is None
    pair.figure.canvas.draw()
    assert not pair.get_legend().get_window_extent().overlaps(pair.get_window_extent())


def test_what_stands_beside_a_record_is_drawn_only_when_named():
    run = descent(top=sc.Probe(lambda x: {"value": x, "error": x / 10, "half": x / 2}, label="largest"))
    assert [ax.get_ylabel() for ax in run.plot("top")] == ["largest"]
    # Two panels of one label say which they are.
    assert [ax.get_ylabel() for ax in run.plot()] == ["largest (top)", "largest (top_half)"]
    assert len(run.plot("top", "top_error")) == 2


def test_an_axis_may_be_called_like_a_step():
    over = {"step_size": np.array([0.5, 1.0])}
    run = sc.simulate(lambda step_size: parabola(step_size), 1.0, 5, over=over, probes={"x": lambda x: x})
    (ax,) = run.plot()
    assert ax.get_xlabel() == "step"
    assert len(lines(ax).get_segments()) == 2


def test_flows_are_drawn_over_time():
    run = sc.flow(lambda x: -x, 1.0, until=3.0, probes={"x": lambda x: x}, samples=5)
    (ax,) = run.plot()
    assert ax.get_xlabel() == "time"
    np.testing.assert_allclose(lines(ax).get_segments()[0][:, 0], np.linspace(0, 3, 5))


def test_records_that_are_never_finite_leave_an_empty_panel():
    run = descent({"lr": np.array([0.5, 1.5])}, bad=lambda x: x / 0)
    (ax,) = run.plot()
    ax.figure.canvas.draw()
    assert all(len(points) == 0 for points in lines(ax).get_segments())


def test_a_record_is_drawn_in_axes_of_the_user():
    _, ax = pyplot.subplots()
    assert descent().plot("x", ax=ax) == [ax]
    assert lines(ax).get_segments()
    # One legend explains all that is in it.
    _, ax = pyplot.subplots()
    descent({"lr": np.array([0.5, 2.5])}, pair=lambda x: jnp.stack([x, 2 * x])).plot(ax=ax)
    assert texts(ax.get_legend()) == ["lr = 0.5", "lr = 2.5", "pair[0]", "pair[1]", "diverged"]
    with pytest.raises(ValueError, match=r"`ax` is for one record, and there are 2: loss, x\. Name one"):
        descent().plot(ax=ax)


def test_mistakes_are_named():
    with pytest.raises(ValueError, match=r"the run has no record 'los'\. Records: loss, x"):
        descent().plot("los")
    with pytest.raises(ValueError, match="no record 'outcome'"):
        descent().plot("outcome")
    with pytest.raises(ValueError, match=r"the run recorded nothing\. Give it `probes`"):
        sc.simulate(sc.gradient_descent(lambda x: x**2, 0.1), 1.0, 3).plot()
    with pytest.raises(ValueError, match="`look` must be one of 'light', 'dark', got 'neon'"):
        descent().plot(look="neon")


def test_there_is_a_dark_look():
    light, dark = (descent().plot("x", look=look)[0] for look in ("light", "dark"))
    assert light.figure.get_facecolor() != dark.figure.get_facecolor()
    assert (lines(light).get_colors() != lines(dark).get_colors()).any()
