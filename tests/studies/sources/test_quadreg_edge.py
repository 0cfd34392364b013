"""What the studies at the edge of stability work out of their runs."""

import jax
import numpy as np
import pytest
import xarray as xr
from matplotlib.backends.backend_agg import FigureCanvasAgg

from secant import lab
from secant.lab import Verdict
from secant.studies.quadreg.sec5 import settling
from secant.studies.shared.edge import approach, expansions


def runs_with(*sizes):
    """Models that begin at step 10, with residuals of so many sizes and alternating sign."""
    step = np.arange(200)
    z = np.stack([size(step) * (-1.0) ** step for size in sizes])
    return xr.Dataset(
        {"z": (("model", "step"), z), "y": (("model", "step"), -np.ones_like(z)), "begins": ("model", [0, 10])},
        coords={"step": step, "model": ["first", "second"]},
    )


def test_peaks_are_found_in_an_oscillation_of_alternating_sign():
    def two_bumps(t):
        return 1e-3 + np.exp(-(((t - 50) / 5) ** 2)) + 0.3 * np.exp(-(((t - 120) / 5) ** 2))

    found = expansions.peaks(runs_with(two_bumps, lambda t: 0.99**t), "first")
    np.testing.assert_allclose(found.step, [50, 120], atol=1)
    np.testing.assert_allclose(found.height, [1.0, 0.3], rtol=0.02)
    assert expansions.peaks(runs_with(two_bumps, lambda t: 0.99**t), "second").sizes["step"] == 0


def test_a_peak_before_the_expansion_does_not_count():
    early = runs_with(lambda t: 1e-3 + np.exp(-(((t - 5) / 2.0) ** 2)), lambda t: 1.0 + 0 * t)
    assert expansions.peaks(early, "first").sizes["step"] == 0


@pytest.mark.parametrize("id", ["quadreg/fig-7", "quadreg/fig-14"])
def test_an_edge_that_is_not_reached_decides_nothing_and_says_how_near_it_came(id):
    study = lab.get(id)
    config = study.config("smoke", steps=50, share=0.01, samples=10, width=4)
    found = study.judge(study(config), config)
    assert {finding.verdict for finding in found} == {"inconclusive"}
    assert all("does not reach the edge within 50 steps; it comes to y = -1.9" in finding.note for finding in found)


@pytest.mark.parametrize("classes", [(1,), (1, 2, 3), (4, 4)])
def test_two_classes_are_needed(classes):
    with pytest.raises(ValueError, match=r"quadreg/fig-7: classes: "):
        lab.get("quadreg/fig-7").config("smoke", classes=classes)


def a_mode(y, overlap=1.0, second=None):
    """A window of a mode with these distances from the edge, that starts from almost nothing, beside a second one."""
    z = 1e-6 * np.cumprod(np.r_[1.0, -(1 + y[:-1])])
    top = np.stack([2 + y, np.ones_like(y) if second is None else second], axis=1)
    alike = np.r_[0.0, np.full(len(y) - 1, overlap)]
    return xr.Dataset(
        {"y": ("step", y), "z": ("step", z), "overlap": ("step", alike), "top": (("step", "mode"), top)},
        coords={"step": np.arange(len(y))},
    )


def test_an_episode_ends_where_the_residual_is_small_again():
    y = 0.1 * np.sin(np.linspace(0, 4 * np.pi, 401))
    found = approach.episode(a_mode(y))
    assert approach.obstacle(a_mode(y)) == ""
    assert 100 < found.sizes["step"] < 205
    assert approach.slope_through_zero(found.first_order.values, found.dz.values) == pytest.approx(1.0, abs=0.1)


SWINGS = 0.1 * np.sin(np.linspace(0, 6, 80))


def test_a_mode_is_watched_while_it_is_alone_at_the_edge():
    y = 0.1 * np.sin(np.linspace(0, 4 * np.pi, 401))
    late = np.where(np.arange(401) < 300, 1.9, 2.1)
    assert approach.while_it_lasts(a_mode(y, second=late)).sizes["step"] == 300
    assert approach.obstacle(a_mode(y, second=late)) == ""
    assert approach.while_it_lasts(a_mode(y)).sizes["step"] == 401


@pytest.mark.parametrize(
    ("window", "why"),
    [
        (a_mode(np.full(50, -0.1)), "does not come to the edge, only to y = -0.1"),
        (a_mode(np.full(50, 0.1)), "the window ends while the mode still grows"),
        (a_mode(SWINGS, overlap=0.5), "alone at the edge for 0 double steps"),
        (a_mode(SWINGS, second=np.linspace(1.9, 2.3, 80)), "another mode comes to the edge while the first still"),
        (a_mode(np.r_[np.zeros(20), np.nan]), "the run blows up"),
    ],
)
def test_without_an_episode_the_reason_is_given_and_nothing_is_measured(window, why):
    assert why in approach.obstacle(window)
    steps = approach.episode(window)
    assert steps.sizes["step"] == 0
    assert np.isnan(approach.slope_through_zero(steps.first_order.values, steps.dz.values))
    assert np.isnan(approach.correlation(steps.first_order.values, steps.dz.values))


@pytest.mark.parametrize("id", ["quadreg/fig-5", "quadreg/fig-6", "quadreg/fig-13"])
def test_a_run_that_blows_up_before_the_edge_decides_nothing_and_says_so(id, blown_up):
    config, run = blown_up
    findings = lab.get(id).judge(run, config)
    assert {finding.verdict for finding in findings} == {Verdict.INCONCLUSIVE}
    assert all("the run blows up" in finding.note for finding in findings)
    with lab.drawn(lab.get(id), run, config, "light") as figure:
        FigureCanvasAgg(figure).draw()


@pytest.fixture(scope="module")
def blown_up():
    """A run with so large a step that the first look finds no number."""
    config = lab.get("quadreg/fig-5").config("smoke", lr=10.0, look=400, approach=400, window=400, samples=20)
    with jax.enable_x64(True):
        return config, approach.run_to_the_edge(config)


@pytest.fixture
def plane():
    """A plane that follows the law but for a spread among its draws."""
    random = np.random.default_rng(0)
    shape = {"size": 3, "draw": 40, "residual": 6, "jacobian": 5}
    ratio = np.array([0.25, 0.5, 0.75])
    residual, jacobian = np.linspace(0.3, 0.5, 6), np.linspace(0.05, 0.3, 5)
    flow = np.broadcast_to(2 + 2 * (residual[:, None] - 0.25) + jacobian, tuple(shape.values()))
    delta = (
        0.08
        * (1 - ratio[:, None, None, None]) ** 1.5
        * np.exp(-2.0 * (flow - 2) + 0.5 * random.normal(size=flow.shape))
    )
    return xr.Dataset(
        {
            "curvature": (tuple(shape), 2 - delta),
            "flow": (tuple(shape), flow),
            "converged": (tuple(shape), np.ones_like(delta)),
        },
        coords={"ratio": ("size", ratio), "residual": residual, "jacobian": jacobian},
    )


def test_the_law_of_settling_is_found_where_it_holds(plane):
    cells = settling.at_the_edge(plane)
    constants, error = settling.fitted(cells, settling.law(cells), cells.held_out.values)
    # Medians of 40 draws that spread by 0.5 in the logarithm: within 0.1 each, and 45 of them are fitted.
    np.testing.assert_allclose(constants, [np.log(0.08), -2.0, 1.5], atol=0.15)
    assert error == pytest.approx(float(np.sqrt(np.mean(cells.error**2))), rel=0.3)


def test_cells_below_the_edge_or_with_too_few_ends_are_left_out(plane):
    whole = len(settling.at_the_edge(plane).excess)
    few = plane.assign(converged=plane.converged.where(plane.residual > 0.31, 0.0))
    low = plane.assign(flow=plane.flow.where(plane.jacobian > 0.06, 1.9))
    assert len(settling.at_the_edge(few).excess) == whole * 5 // 6
    assert len(settling.at_the_edge(low).excess) == whole * 4 // 5


def test_the_cubic_expansion_is_nearer_to_the_network_than_the_quadratic(measured):
    quadratic = measured("quadreg/fig-14", "height-quadratic")
    cubic = measured("quadreg/fig-14", "height-cubic")
    assert abs(cubic - 1) < abs(quadratic - 1)
