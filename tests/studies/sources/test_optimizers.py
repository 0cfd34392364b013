"""The study of other optimisers: what its numbers must be whatever the machine."""

import numpy as np
import pytest

from secant.studies.quadreg.sec5 import optimisers


def test_thresholds_are_the_closed_forms(outcome):
    data, config, _ = outcome("quadreg/optimisers")
    b = config.beta
    expected = {
        "gd": 2 / config.gd,
        "momentum": (2 + 2 * b) / config.momentum,
        "nesterov": (2 + 2 * b) / ((1 + 2 * b) * config.nesterov),
        "rmsprop": 2 / config.rmsprop,
        "adam": 38 / config.adam,
    }
    assert list(data.optimiser.values) == list(expected)
    np.testing.assert_allclose(data.threshold, list(expected.values()), rtol=1e-12)


def test_all_optimisers_start_from_one_network(outcome):
    data = outcome("quadreg/optimisers")[0]
    np.testing.assert_allclose(data.loss.isel(step=0), data.loss[0, 0], rtol=1e-12)
    plain = data.curvature.sel(optimiser=["gd", "momentum", "nesterov"]).isel(step=0)
    np.testing.assert_allclose(plain, plain[0], rtol=1e-3)


def test_gradient_descent_and_momentum_take_the_same_step_size(outcome):
    data, config, _ = outcome("quadreg/optimisers")
    assert config.gd == config.momentum
    end = data.curvature.isel(step=slice(-10, None)).mean("step")
    assert float(end.sel(optimiser="momentum") / end.sel(optimiser="gd")) == pytest.approx(1 + config.beta, rel=0.15)


def test_averages_are_given_time_to_fill(outcome):
    config = outcome("quadreg/optimisers")[1]
    assert [optimisers.begun(name, config) for name in ("gd", "nesterov", "rmsprop", "adam")] == [0, 0, 100, 20]


def test_unsettled_models_do_not_count(outcome):
    data = outcome("quadreg/optimisers")[0]
    settled = optimisers.ends(data)
    fell = data.model_loss.isel(model_step=-1) / data.model_loss.isel(model_step=0)
    np.testing.assert_array_equal(settled.notnull(), fell < optimisers.SETTLED)
