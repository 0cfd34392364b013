"""Bounds of the argument that wide networks reach zero loss."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from secant.theory.wide import lazy_convergence as lc

hidden_kernel = jax.jit(lc.hidden_kernel, static_argnames="width")
observe = jax.jit(lc.observe)


@pytest.fixture
def network():
    random = np.random.default_rng(0)
    X = random.normal(size=(4, 3))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return random.normal(size=(50, 3)), random.choice([-1.0, 1.0], 50), X, random.normal(size=4)


def test_the_kernel_is_that_of_the_hidden_weights(network):
    w, a, X, _ = network
    jacobian = np.asarray(jax.jit(jax.jacobian(lambda w: jnp.tanh(X @ w.T) @ a / np.sqrt(50)))(w)).reshape(4, -1)
    np.testing.assert_allclose(hidden_kernel(w, a, X), jacobian @ jacobian.T, rtol=1e-12)
    padded = hidden_kernel(np.vstack([w, w]), np.concatenate([a, 0 * a]), X, width=50)
    np.testing.assert_allclose(padded, jacobian @ jacobian.T, rtol=1e-12)


@pytest.mark.parametrize("size", [0.01, 0.1, 1.0])
def test_the_kernel_changes_by_no_more_than_its_bound(network, size):
    w, a, X, y = network
    move = np.random.default_rng(1).normal(size=w.shape)
    moved = w + size * move / np.linalg.norm(move, axis=1, keepdims=True)
    seen = observe(moved, w, a, X, y)
    assert seen.motion == pytest.approx(size)
    assert 0 < seen.change <= lc.kernel_change_bound(4, size)
    z = np.tanh(X @ moved.T) @ a / np.sqrt(50)
    assert seen.loss == pytest.approx(np.sum((z - y) ** 2) / 8)
    np.testing.assert_allclose(seen.smallest, np.linalg.eigvalsh(hidden_kernel(moved, a, X))[0])


def test_the_bounds_fit_together():
    loss, smallest, m = 0.7, 0.05, 6
    width = float(lc.enough_width(loss, smallest, m))
    assert lc.motion_bound(loss, smallest, m, width) == pytest.approx(lc.allowed_motion(smallest, m), rel=1e-12)
    assert lc.allowed_motion(smallest, m) == pytest.approx(smallest / (8 * m))
    assert lc.allowed_motion(smallest, m, 0.5) == pytest.approx(smallest / (4 * m))
    assert lc.kernel_change_bound(m, lc.allowed_motion(smallest, m)) == pytest.approx(smallest / 4)
    assert lc.loss_bound(loss, smallest, m, m / smallest) == pytest.approx(loss / np.e)
    # what neurons move at most is the integral of the root of the bound on the loss
    times = np.linspace(0, 50 * m / smallest, 100_001)
    speed = np.sqrt(2 * np.asarray(lc.loss_bound(loss, smallest, m, times)) / 10)
    assert np.trapezoid(speed, times) == pytest.approx(float(lc.motion_bound(loss, smallest, m, 10)), rel=1e-4)


def test_the_first_exit_is_the_first_time_beyond():
    times, values = np.arange(4.0), np.array([3.0, 2.0, 1.0, 2.0])
    assert lc.first_exit(times, values, 1.5, above=True) == 2
    assert lc.first_exit(times, values, 3.5, above=False) == np.inf
    with pytest.raises(ValueError, match="`kept`"):
        lc.allowed_motion(0.1, 3, 1.5)
