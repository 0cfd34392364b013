"""The wide layer of chapter 9: its steps, its limit and its data."""

import jax.numpy as jnp
import numpy as np
import pytest

from secant.kernels import dual
from secant.studies.shared.first_layer import descend, limit_kernel, pairs, unit_task


@pytest.fixture
def task():
    return unit_task("digits", (0, 1), samples=6, test_samples=4, seed=0)


def test_inputs_have_length_one_and_labels_are_signs(task):
    for part in (task.train, task.test):
        np.testing.assert_allclose(np.linalg.norm(part.x, axis=1), 1)
        assert set(part.y) <= {-1.0, 1.0}
    assert (len(task.train), len(task.test), task.recipe["test_samples"]) == (6, 4, 4)


def test_the_limit_is_the_mean_over_random_neurons(task):
    x, other = task.train.x, task.test.x
    for found, rho in ((limit_kernel(x), x @ x.T), (limit_kernel(x, other), x @ other.T)):
        np.testing.assert_allclose(found, rho * dual("relu", 1.0, 1.0, jnp.asarray(rho)).slope, atol=1e-7)
    assert np.array_equal(np.diagonal(limit_kernel(x)), np.full(6, 0.5))


def test_descent_by_products_of_inputs_is_descent_on_the_weights(task):
    x, test = task.train.x, task.test.x
    w, a = pairs(np.random.default_rng(0), 40, x.shape[1])
    labels = np.stack([task.train.y, np.arange(6.0)])
    residuals, outputs = descend(w, a, x, labels, 0.1, 7, test)
    assert residuals.shape == (8, 2, 6)
    np.testing.assert_allclose(residuals[0], -labels, atol=1e-12)  # it starts at zero
    for i, y in enumerate(labels):
        v = w.copy()
        for step in range(8):
            h = v @ x.T
            r = a @ np.maximum(h, 0) / np.sqrt(40) - y
            np.testing.assert_allclose(residuals[step, i], r, atol=1e-5)
            v -= 0.1 * (a[:, None] * (h > 0) * r) @ x / np.sqrt(40)
        np.testing.assert_allclose(outputs[i], a @ np.maximum(v @ test.T, 0) / np.sqrt(40), atol=1e-5)
