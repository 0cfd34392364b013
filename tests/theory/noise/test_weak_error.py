"""Test functions, orders and hybrids."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secant.theory.noise import weak_error


def test_fine_normals_make_up_the_coarse_ones():
    coarse, fine = weak_error.coupled(np.random.default_rng(0), (20_000,), 4)
    np.testing.assert_allclose(coarse, fine.sum(0) / 2)
    assert coarse.var() == pytest.approx(1, abs=0.04)


def test_test_functions_see_what_they_should():
    points = np.array([[1.0, 2.0], [3.0, -1.0]])
    found = {name: test(points).tolist() for name, test in weak_error.bank(2, lambda x: x[..., 1]).items()}
    assert found["x"] == [1, 3]
    assert found["x^2"] == [1, 9]
    assert found["xy"] == [2, -3]
    assert found["|x|^2"] == [5, 10]
    assert found["cos"] == pytest.approx(np.cos([3, 2]).tolist())
    assert found["loss"] == [2, -1]
    assert set(weak_error.bank(1)) == {"x", "x^2", "cos"}


@settings(max_examples=20, deadline=None)
@given(alpha=st.floats(-2, 2), scale=st.floats(0.1, 10))
def test_powers_have_their_order(alpha, scale):
    sizes = np.array([0.1, 0.05, 0.02])
    assert weak_error.order(sizes, -scale * sizes**alpha).value == pytest.approx(alpha, abs=1e-9)


def test_an_order_is_as_uncertain_as_its_errors():
    rng, sizes, noise = np.random.default_rng(0), np.array([0.4, 0.2, 0.1]), np.array([0.01, 0.01, 0.01])
    found = [weak_error.order(sizes, sizes + noise * rng.normal(size=3), noise) for _ in range(400)]
    apart = np.array([(one.value - 1) / one.error for one in found])
    assert abs(apart.mean()) < 0.25
    assert apart.std() == pytest.approx(1, abs=0.15)
    assert np.isnan(weak_error.order(sizes, 0 * sizes, noise).value)


def test_the_error_of_a_weak_error_is_that_of_a_mean_of_pairs():
    x = np.array([[0.0], [1.0], [2.0], [5.0]])
    found = weak_error.weak_errors({"x": lambda x: x[:, 0]}, x, x**2)
    apart = np.array([0.0, 0.0, -2.0, -20.0])
    assert found["x"] == pytest.approx((apart.mean(), np.sqrt(((apart - apart.mean()) ** 2).sum() / 3 / 4)), rel=1e-12)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), steps=st.integers(1, 12))
def test_hybrids_sum_to_the_error(seed, steps):
    rng = np.random.default_rng(seed)
    P, Q, z, g = rng.normal(size=(3, 3)) / 2, rng.normal(size=(3, 3)) / 2, rng.normal(size=3), rng.normal(size=3)
    whole = g @ (np.linalg.matrix_power(P, steps) - np.linalg.matrix_power(Q, steps)) @ z
    assert weak_error.telescoped(P, Q, z, g, steps).sum() == pytest.approx(whole, abs=1e-10)


def test_bad_input_is_refused_by_name():
    with pytest.raises(ValueError, match="`x` and `X`"):
        weak_error.weak_errors({}, np.ones((3, 1)), np.ones((4, 1)))
    with pytest.raises(ValueError, match="`steps`"):
        weak_error.telescoped(np.eye(1), np.eye(1), np.ones(1), np.ones(1), 0)
    with pytest.raises(ValueError, match="`dim`"):
        weak_error.bank(0)
