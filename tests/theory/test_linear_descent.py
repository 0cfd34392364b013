"""Gradient descent on a linear model."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from secant.theory.linear_descent import critical_step, loss_growth, residual_after


def problem(seed=0):
    features, targets = jax.random.normal(jax.random.key(seed), (6, 9)), jnp.arange(6.0)
    return features, targets, features @ features.T


@pytest.mark.parametrize("ratio", [0.3, 0.99, 1.4])
def test_the_residual_is_that_of_gradient_descent(ratio):
    features, targets, kernel = problem()
    lr = ratio * critical_step(kernel)
    w = jnp.zeros(9)
    for step in range(8):
        predicted = residual_after(-targets, kernel, lr, step)
        np.testing.assert_allclose(features @ w - targets, predicted, atol=1e-9 * np.linalg.norm(predicted))
        w = w - lr * features.T @ (features @ w - targets)


def test_steps_and_step_sizes_broadcast():
    _, targets, kernel = problem()
    found = residual_after(targets, kernel, jnp.array([0.01, 0.02])[:, None], jnp.arange(4)[None, :])
    assert found.shape == (2, 4, 6)
    np.testing.assert_allclose(found[:, 0], np.tile(targets, (2, 1)), atol=1e-12)


def test_the_loss_stops_growing_at_the_critical_step():
    kernel = problem()[2]
    np.testing.assert_allclose(loss_growth(kernel, critical_step(kernel)), 1.0, rtol=1e-12)
    assert float(loss_growth(kernel, 1.01 * critical_step(kernel))) > 1
