"""Points that a map of the plane brings back."""

import numpy as np

from secant.theory.catapult import one_sample as ct
from secant.theory.periodic_points import periodic_points


def test_the_fixed_points_of_a_linear_map_are_found_in_one_step():
    ends, gaps = periodic_points(lambda x, y: (2 * y + 1, x - 3), np.array([[5.0, -7.0], [0.0, 0.0]]), 1, 1)
    np.testing.assert_allclose(ends, [[5.0, 2.0], [5.0, 2.0]], atol=1e-12)
    assert np.max(gaps) < 1e-12


def test_points_of_period_two_are_those_of_the_catapult():
    b = 0.3
    points = np.array([(p.a, p.v) for p in ct.equilibria(b) if p.period == 2])
    ends, gaps = periodic_points(lambda a, v: ct.step(a, v, b), points + 1e-3, 2)
    np.testing.assert_allclose(ends, points, atol=1e-9)
    assert np.max(gaps) < 1e-12


def test_a_search_that_leads_nowhere_leaves_a_gap():
    _, gaps = periodic_points(lambda x, y: (x + 1, y / 2), np.array([[0.0, 1.0]]))
    assert not np.max(gaps) < 0.5
