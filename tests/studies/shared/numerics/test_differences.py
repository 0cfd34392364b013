"""Differences of arrays by which studies judge identities, and derivatives without differences."""

import numpy as np
import pytest

from secant.studies.shared.numerics.derivatives import derivative
from secant.studies.shared.numerics.differences import largest, relative


def test_the_largest_difference_whatever_its_sign():
    assert largest([1.0, -5.0], [2.0, -2.0]) == 3.0
    assert largest(np.array([[1.0, -5.0]])) == 5.0


def test_a_relative_difference_is_over_the_largest_entry_of_the_second():
    assert relative([1.0, -3.0], [1.0, -4.0]) == pytest.approx(0.25)


def test_a_number_has_a_derivative_of_the_shape_of_a_row():
    at = np.array([1.0, -2.0])
    np.testing.assert_allclose(derivative(lambda w: w[0] ** 2 * w[1], at), [-4.0, 1.0], rtol=1e-15)


def test_a_matrix_has_a_row_for_each_entry():
    W, Z = np.arange(6.0).reshape(2, 3), np.ones((3, 4))
    np.testing.assert_allclose(derivative(lambda z: W @ z, Z), np.kron(W.T, np.eye(4)), rtol=1e-15)
