"""Golden numbers of the quadratic regression paper's studies."""

import numpy as np
import pytest

from secant import lab


def test_golden_edge_of_figure_2(outcome):
    data, config, _ = outcome("quadreg/fig-2")
    end = data.curvature.isel(step=-1).values * np.array(config.lrs)
    np.testing.assert_allclose(end, 1.99748, atol=1e-5)
    assert float(data.y.isel(start=0, even=-1)) == pytest.approx(-0.002521, abs=2e-6)


def test_golden_curvatures_of_figure_1(outcome):
    data = outcome("quadreg/fig-1")[0]
    np.testing.assert_allclose(data.curvature.isel(step=-1), [1.9361, 1.9356, 1.9358], atol=1e-4)


def test_golden_window_of_theorem_2_1(outcome):
    data, config, _ = outcome("quadreg/thm-2.1")
    np.testing.assert_allclose(data.final.sel(lr=list(config.inside)), 1.99748, atol=1e-4)
    np.testing.assert_allclose(data.final.sel(lr=[0.5, 0.8, 0.95]), [0.998, 1.597, 1.895], atol=1e-3)


def test_golden_limits_of_figure_10(measured):
    assert measured("quadreg/fig-10", "median final distance") == pytest.approx(1.0017, abs=2e-4)


def test_golden_offset_limits(outcome):
    data = outcome("quadreg/drift-law")[0]
    np.testing.assert_allclose(data.offset_limit.sel(E=[-1.0, 0.5, 1.0]), [-0.003788, -0.001889, -0.001258], atol=2e-6)


def test_golden_memory_of_the_printed_exponent(measured):
    assert measured("quadreg/thm-B.3", "how the limit forgets") == pytest.approx(4, abs=0.1)


def test_unequal_lists_of_starts_are_refused():
    study = lab.get("quadreg/fig-2")
    with pytest.raises(ValueError, match="2 and 4 entries"):
        study(study.config("smoke", residuals=(-0.9, -0.6)))
