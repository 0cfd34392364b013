"""Networks and their Taylor models: what the studies of both measure."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from secant import nets
from secant.studies.shared.two_layer import taylor
from secant.theory.regression.quadratic_model import TwoLayer, gates, two_layer

X = np.array([[0.5, -1.0, 0.2], [1.0, 0.3, -0.4]])


@pytest.fixture
def start():
    random = np.random.default_rng(0)
    return TwoLayer(jnp.asarray(random.normal(size=(6, 3))), jnp.asarray(random.normal(size=6)))


def test_a_relu_network_is_that_of_the_theory(start):
    np.testing.assert_allclose(taylor.outputs(jax.nn.relu, start, X), two_layer(start, jnp.asarray(X)), rtol=1e-14)


def test_gaps_add_up_and_the_quadratic_model_is_the_closer(start):
    change = jax.tree.map(lambda leaf: 1e-3 * jnp.ones_like(leaf), start)
    whole, bend, rest = taylor.gaps(jnp.tanh, start, change, X)
    np.testing.assert_allclose(whole, bend + rest, atol=1e-17)
    assert np.all(np.abs(rest) < 1e-2 * np.abs(bend))
    # A bilinear network is its own quadratic model, up to the rounding of outputs of order one.
    np.testing.assert_allclose(taylor.gaps(lambda z: z, start, change, X)[2], 0.0, atol=4e-15)


def test_neurons_that_move_alike_move_by_the_radius(start):
    """Of a linear activation only the product of the two moves is left, the same for each neuron."""
    radius, width = 0.3, len(start.v)
    step = radius / np.sqrt(2 * width)
    expected = width * step**2 * np.linalg.norm(X, axis=1) / np.sqrt(X.shape[1] * width)
    found = taylor.gaps_alike(lambda z: z, start, X, radius)
    np.testing.assert_allclose(found[:2], np.sqrt(np.mean(expected**2)), rtol=1e-12)


def test_the_forms_agree_and_the_walk_leaves_the_quadratic_model_where_gates_flip():
    found = taylor.forms_of_relu(jax.random.key(0), jnp.asarray(X), 5)
    np.testing.assert_allclose(found.value - found.value.sel(form="autodiff"), 0.0, atol=1e-13)
    assert float(found.slope_gap.max()) < 1e-13 * max(1.0, float(found.slope_size))
    whole = found.flips == 0
    assert bool(whole[0].all())
    np.testing.assert_allclose((found.network - found.quadratic).where(whole, 0.0), 0.0, atol=1e-13)
    assert float(np.abs(found.network - found.quadratic).where(~whole).max()) > 1e-4
    assert gates(jnp.eye(3), jnp.asarray(X)).tolist() == [[1, 0, 1], [1, 1, 0]]


def test_models_miss_a_smooth_network_by_the_next_power_of_the_distance():
    sizes = np.array([1e-2, 2e-2])
    found = taylor.distances_by_size(nets.mlp([4], activation="tanh"), jax.random.key(1), jnp.asarray(X), sizes, 3)
    assert found.shape == (2, 2, 3)
    powers = np.log2(found[:, 1] / found[:, 0])
    np.testing.assert_allclose(powers, [[2.0] * 3, [3.0] * 3], atol=0.1)
