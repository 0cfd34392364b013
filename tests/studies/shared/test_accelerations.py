"""How curvature begins to grow, drawn and by formula."""

import numpy as np
import pytest

from secant.studies.shared.regression import accelerations as acc

SCALES = 1.0, 0.3


def test_derivatives_along_flows_are_those_of_the_formulas():
    found = acc.along_flows(0, 6, 3, 5, *SCALES)
    assert float(found.gap.median()) < 1e-4
    np.testing.assert_allclose(found.by_eigenvalues / found.by_singular_values, 2.0, rtol=1e-2)
    assert float(found.growth[0]) == pytest.approx(1.0)


def test_means_for_one_jacobian_are_those_of_the_formulas():
    found = acc.of_one_jacobian(0, 2_000, 3, 5, *SCALES, ("averaged", "goe", "independent"))
    for name in ("given_J", "speed"):
        apart = np.abs(found[name] - found[f"{name}_formula"]) / found[f"{name}_error"]
        assert float(apart.max()) < 4
    # Twice the variance is twice the mean.
    averaged, goe = (found.given_J_formula.sel(convention=name) for name in ("averaged", "goe"))
    assert float(goe) == pytest.approx(2 * float(averaged))


def test_the_velocity_is_odd_in_the_residuals():
    found = acc.all_at_random(0, 40, 3, 5, *SCALES)
    assert found.sizes["draw"] == 40
    assert float(found.parity.max()) < 1e-10
    assert float((found.acceleration > 0).mean()) > 0.5
