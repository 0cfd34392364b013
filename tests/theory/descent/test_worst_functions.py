"""A function of given values and gradients."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secant.theory.descent.worst_functions import WorstFunction


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10_000), st.sampled_from([-2.0, -0.5, 0.0, 0.4]))
def test_it_has_the_values_and_gradients_of_a_function_of_the_class_and_lies_above_it(seed, mu):
    random = np.random.default_rng(seed)
    turn, _ = np.linalg.qr(random.standard_normal((3, 3)))
    form = turn * random.uniform(mu, 2.0, 3) @ turn.T
    points = random.standard_normal((5, 3))
    values, gradients = np.einsum("ni,ij,nj->n", points, form, points) / 2, points @ form
    function = WorstFunction(points, values, gradients, 2.0, mu)
    for x, value, gradient in zip(points, values, gradients, strict=True):
        found = function(x)
        assert found[0] == pytest.approx(value, abs=1e-9)
        np.testing.assert_allclose(found[1], gradient, atol=1e-6)
    x = random.standard_normal(3)
    value, gradient = function(x)
    assert value >= x @ form @ x / 2 - 1e-9
    # Its gradient is its derivative, and its curvature along a line stays within the bounds.
    along, h = random.standard_normal(3), 1e-4
    along /= np.linalg.norm(along)
    sides = [function(x + s * h * along) for s in (-1, 1)]
    assert (sides[1][0] - sides[0][0]) / (2 * h) == pytest.approx(gradient @ along, abs=1e-4)
    bend = (sides[1][1] - sides[0][1]) @ along / (2 * h)
    assert mu - 1e-4 <= bend <= 2.0 + 1e-4


def test_the_infimum_of_a_function_that_need_not_be_convex_is_that_of_its_points():
    points, gradients = np.array([[0.0], [1.0]]), np.array([[1.0], [0.5]])
    function = WorstFunction(points, np.array([0.0, 0.75]), gradients, 1.0, -1.0)
    grid = [function([x])[0] for x in np.linspace(-2, 3, 501)]
    assert min(grid) == pytest.approx(min(-1 / 2, 0.75 - 1 / 8), abs=1e-6)
