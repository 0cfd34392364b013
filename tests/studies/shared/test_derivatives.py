"""Derivatives along the imaginary axis."""

import numpy as np

from secant.studies.shared.derivatives import derivative


def test_a_number_has_a_derivative_of_the_shape_of_a_row():
    at = np.array([1.0, -2.0])
    np.testing.assert_allclose(derivative(lambda w: w[0] ** 2 * w[1], at), [-4.0, 1.0], rtol=1e-15)


def test_a_matrix_has_a_row_for_each_entry():
    W, Z = np.arange(6.0).reshape(2, 3), np.ones((3, 4))
    np.testing.assert_allclose(derivative(lambda z: W @ z, Z), np.kron(W.T, np.eye(4)), rtol=1e-15)
