"""Golden numbers of the thesis's studies."""

import numpy as np
import pytest

from secant.theory.catapult import one_sample as ct
from secant.theory.catapult import scaling as cs


def test_the_peak_over_the_width_is_the_known_constant(outcome):
    data, _, _ = outcome("thesis/thm-3.3.1")
    wide = (data.peak / data.width).sel(excess=1.0).sel(width=data.width >= 10_000)
    assert float(wide.min()) > 0.02
    assert float(wide.max()) < 0.08


def test_distance_travelled_over_root_width_is_the_known_constant(outcome):
    data, _, _ = outcome("thesis/fig-3.2a")
    end = data.distance.isel(step=-1, width=-1).sel(regime="above").mean("seed") / np.sqrt(float(data.width[-1]))
    assert float(end.sel(model="quadratic")) == pytest.approx(0.73, abs=0.03)
    assert float(end.sel(model="network")) == pytest.approx(0.51, abs=0.03)


def test_the_bisected_border_is_the_formula(outcome):
    data, _, _ = outcome("thesis/max-step")
    np.testing.assert_allclose(data.bisected, data.exact, rtol=1e-5)


def test_random_quadratic_models_peak_where_they_should(outcome):
    data, _, _ = outcome("thesis/fig-B.4a")
    peak = data.loss.max("step").median("model")
    assert float(peak.sel(gamma=1e-3, lr=2.8)) == pytest.approx(3e4, rel=0.5)
    assert float(peak.sel(gamma=1e-3, lr=2.2)) == pytest.approx(2.5e3, rel=0.5)
    assert float(data.kernel.isel(step=-1).sel(gamma=1e-3, lr=2.2).median("model")) == pytest.approx(0.80, abs=0.02)
    assert float(data.kernel.isel(step=-1).sel(gamma=1e-3, lr=2.5).median("model")) == pytest.approx(0.52, abs=0.03)


def test_small_excess_curvature_at_the_golden_point():
    end = cs.catapult_outcome(1e-4, 2.2, steps=600).curvature
    assert float(end) == pytest.approx(1.7691, abs=1e-3)
    assert float(ct.max_step(0.0, 1.0, 100)) == pytest.approx(4.0)


def test_wide_networks_turn_linear_and_narrow_ones_do_not(outcome):
    norm = outcome("thesis/thm-2.3.6")[0].norm.mean("network")
    fall = norm.isel(width=-1) / norm.isel(width=0)
    assert float(fall.sel(kind=["fcn", "densenet", "resnet", "cnn", "random"]).max()) < 0.6
    assert float(fall.sel(kind=["layer", "output"]).min()) > 0.8


def test_the_gradient_of_the_narrowest_network_breaks_the_printed_bound(outcome):
    data = outcome("thesis/prop-2.4.4")[0]
    norm = data.narrow_mean.sel(moment="norm")
    assert float(norm.sel(depth=2)) == pytest.approx(0.5, abs=0.01)
    assert np.all(norm.sel(depth=[3, 4, 5, 6]) < 0.8 * 2.0 ** (-norm.depth.sel(depth=[3, 4, 5, 6]) / 2))


def test_the_linear_model_first_falls_just_above_its_critical_step(measured):
    assert measured("thesis/eq-3.8", "one-step") == pytest.approx(0.400, abs=1e-3)


def test_a_taylor_step_has_its_factor_one_half(measured):
    assert measured("thesis/eq-4.2", "taylor-factor") == pytest.approx(0.5, abs=1e-10)
