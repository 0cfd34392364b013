"""Hermite coefficients, against closed forms and against means over two Gaussians."""

import math

import numpy as np
import pytest

from secant.kernels import dual
from secant.theory.wide.hermite import dual_series, hermite_coefficients


def relu(z):
    return np.maximum(z, 0)


def test_the_coefficients_of_a_polynomial_are_its_own():
    np.testing.assert_allclose(
        hermite_coefficients(lambda z: 1 + z + z**2, 8), [2, 1, math.sqrt(2), *[0] * 5], atol=1e-12
    )
    np.testing.assert_allclose(hermite_coefficients(lambda z: z**3, 5), [0, 3, 0, math.sqrt(6), 0], atol=1e-12)


def test_the_coefficients_of_a_ramp_are_known_at_every_order():
    found = hermite_coefficients(relu, 40)
    even = np.arange(2, 40, 2)
    twos = np.array([math.prod(range(k - 3, 0, -2)) for k in even], float)  # (k - 3)!!
    exact = (-1.0) ** (even // 2 - 1) * twos / np.sqrt([2 * math.pi * math.factorial(k) for k in even])
    np.testing.assert_allclose(found[even], exact, rtol=1e-9, atol=1e-13)
    np.testing.assert_allclose(found[:2], [1 / math.sqrt(2 * math.pi), 0.5], rtol=1e-13)
    assert np.abs(found[3::2]).max() < 1e-12


@pytest.mark.parametrize(("name", "function"), [("tanh", np.tanh), ("relu", relu), ("sin", np.sin)])
def test_the_series_is_the_mean_over_two_gaussians(name, function):
    rho = np.array([-0.8, -0.3, 0.0, 0.5, 0.8])
    found = hermite_coefficients(function, 100)
    np.testing.assert_allclose(dual_series(found, rho), dual(name, 1.0, 1.0, rho).value, atol=1e-10)


def test_tanh_at_half_has_its_known_value():
    assert dual_series(hermite_coefficients(np.tanh), 0.5) == pytest.approx(0.1863244132, abs=1e-9)


def test_another_weight_is_another_density():
    assert hermite_coefficients(lambda z: z**2, 1, weight=1.0)[0] == pytest.approx(0.5)


@pytest.mark.parametrize("terms", [0, 121, 1.5])
def test_a_number_of_terms_that_cannot_be_is_refused(terms):
    with pytest.raises((ValueError, TypeError), match="terms"):
        hermite_coefficients(np.tanh, terms)
