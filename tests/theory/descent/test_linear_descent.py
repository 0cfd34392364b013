"""Gradient descent on a linear model."""

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secant.theory.descent.linear_descent import (
    critical_step,
    loss_growth,
    predictions_after,
    residual_after,
    weights_after,
)

after = jax.jit(residual_after)
edge = jax.jit(critical_step)
growth = jax.jit(loss_growth)


def problem(seed=0):
    features, targets = np.random.default_rng(seed).normal(size=(6, 9)), np.arange(6.0)
    return features, targets, features @ features.T


@pytest.mark.parametrize("ratio", [0.3, 0.99, 1.4])
def test_the_residual_is_that_of_gradient_descent(ratio):
    features, targets, kernel = problem()
    lr = ratio * float(edge(kernel))
    w = np.zeros(9)
    for step in range(8):
        predicted = after(-targets, kernel, lr, step)
        np.testing.assert_allclose(features @ w - targets, predicted, atol=1e-9 * np.linalg.norm(predicted))
        w = w - lr * features.T @ (features @ w - targets)


def test_steps_and_step_sizes_broadcast():
    _, targets, kernel = problem()
    found = after(targets, kernel, np.array([0.01, 0.02])[:, None], np.arange(4)[None, :])
    assert found.shape == (2, 4, 6)
    np.testing.assert_allclose(found[:, 0], np.tile(targets, (2, 1)), atol=1e-12)


def test_the_loss_stops_growing_at_the_critical_step():
    kernel = problem()[2]
    critical = float(edge(kernel))
    np.testing.assert_allclose(growth(kernel, critical), 1.0, rtol=1e-12)
    assert float(growth(kernel, 1.01 * critical)) > 1


@given(st.integers(0, 2**31), st.integers(1, 6), st.integers(1, 8), st.floats(0.05, 1.9))
def test_weights_are_those_of_gradient_descent(seed, n, d, ratio):
    rng = np.random.default_rng(seed)
    X, y, start, new = rng.normal(size=(n, d)), rng.normal(size=n), rng.normal(size=d), rng.normal(size=(2, d))
    lr, w = ratio / np.linalg.norm(X, 2) ** 2, start
    path = weights_after(X, y, lr, np.arange(30), start)
    for found in path:
        np.testing.assert_allclose(found, w, atol=1e-11 * (1 + np.abs(w).max()))
        w = w - lr * X.T @ (X @ w - y)
    np.testing.assert_array_equal(predictions_after(X, y, new, lr, np.arange(30), start), path @ new.T)
    limit = start + np.linalg.pinv(X) @ (y - X @ start)
    np.testing.assert_allclose(
        weights_after(X, y, lr, np.inf, start), limit, atol=1e-9 * (1 + np.abs(limit).max()) / lr**0.5
    )


def test_a_rank_deficient_matrix_leaves_what_it_does_not_see():
    X, y = np.array([[1.0, 1.0, 0.0], [2.0, 2.0, 0.0]]), np.array([1.0, 2.0])
    np.testing.assert_allclose(weights_after(X, y, 0.05, np.inf, np.array([0.0, 0, 7])), [0.5, 0.5, 7], atol=1e-14)
    assert np.isnan(weights_after(X, y, 1.0, np.inf)).any()  # past the edge there is no limit


def test_a_direction_of_a_tiny_singular_value_keeps_its_digits():
    X, y = np.diag([1.0, 1e-7]), np.array([1.0, 1.0])
    assert weights_after(X, y, 0.5, 10)[1] == pytest.approx(10 * 0.5 * 1e-7, rel=1e-12)
