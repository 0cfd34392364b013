"""Golden numbers of the chapters on least squares, landscapes and saddle points."""

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge

from secant.studies.book.ch03 import sec_3_2


def test_descent_on_least_squares_ends_in_the_pseudo_inverse(outcome):
    data = outcome("book/sec-3.1")[0]
    X, y, rate = data.X.values, data.y.values, float(data.rate)
    assert X.shape == (5, 12)
    w = np.zeros(12)
    for _ in range(20_000):
        w = w - rate * X.T @ (X @ w - y)
    assert np.abs(w - np.linalg.pinv(X) @ y).max() < 1e-14


def test_ridge_regression_of_another_library_tends_to_the_interpolant(outcome):
    data = outcome("book/sec-3.2")[0]
    gram, y = (1 + data.x.values @ data.x.values.T) ** 2, data.y.values
    cross = (1 + data.new.values @ data.x.values.T) ** 2
    ridge = 1e-9 * np.linalg.eigvalsh(gram)[0]
    other = KernelRidge(alpha=ridge, kernel="precomputed").fit(gram, y).predict(cross)
    np.testing.assert_allclose(other, cross @ np.linalg.solve(gram, y), rtol=1e-6)


def test_series_of_the_kernels_on_the_sphere():
    assert sec_3_2.polynomial_series(4, 7).tolist() == [1, 4, 6, 4, 1, 0, 0]
    s = 0.3
    for series, exact in (
        (sec_3_2.gaussian_series(60), np.exp(2 * s - 2)),
        (sec_3_2.laplace_series(60), np.exp(-np.sqrt(2 - 2 * s))),
    ):
        assert np.polynomial.polynomial.polyval(s, series) == pytest.approx(exact, rel=1e-12)


def test_a_parabola_falls_by_its_slowest_direction(outcome):
    value = (np.array([10.0, 3, 1]) * outcome("book/claim-6.2.2")[0].pl_path.values ** 2).sum(1) / 2
    assert (value[1:] / value[:-1]).max() == pytest.approx(0.81)


def test_weak_quasi_convexity_is_not_geometric():
    w = 1.0
    for _ in range(100_000):
        w -= w**3 / 3
    assert w**4 / 4 * 1e10 == pytest.approx(0.5624, abs=5e-5)


def test_the_surrogate_is_faster_at_every_look(outcome):
    error = outcome("book/surrogate")[0].error
    looks = [10, 50, 200, 400]
    assert (error.sel(objective="surrogate")[looks] < error.sel(objective="squared")[looks]).all()


def test_the_largest_constant_of_the_directions_of_improvement(outcome):
    data = outcome("book/lem-6.4.3")[0]
    assert float(data.least) == pytest.approx(2**-0.5, abs=1e-7)
    np.testing.assert_allclose(data.worst, [0.355, 0.6125], atol=2e-3)


def test_a_ten_times_smaller_push_costs_47_steps(outcome):
    data = outcome("book/lem-7.3.1")[0]
    median = np.median(data.time, axis=1)
    np.testing.assert_allclose(np.diff(median), 94.39, atol=2)


def test_the_ratio_of_gamma_functions(outcome):
    data = outcome("book/stuck-volume")[0]
    np.testing.assert_allclose(data.ratio, [0.5, 0.63662, 1.29345, 3.99941], atol=5e-6)
