"""A recommendation is critical, and what it says of a network is what its signals do."""

import math

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

import secant as sc
from secant import nets
from secant.kernels import next_covariance


@pytest.mark.parametrize("name", ["ntk", "standard"])
def test_recommended_variances_are_critical(name):
    for activation, weights, biases in (("relu", 2.0, 0.0), ("tanh", 1.0, 0.0), ("gelu", 1.9830582574, 0.1729223908)):
        net = nets.mlp([32] * 3, activation=activation, bias=True, parametrization=name)
        found = sc.recommend(net)
        assert_allclose((found.point.weights, found.point.biases), (weights, biases), atol=1e-8)
        again = sc.recommend(
            nets.mlp([32] * 3, activation=activation, bias=True, parametrization=found.parametrization)
        )
        assert_allclose((again.parallel, again.perpendicular), 1.0, atol=1e-8)
        assert again.depth > 1e6


def test_the_depth_is_that_of_two_signals():
    """Two inputs followed through many layers: their correlation tends to its limit by the factor that is told."""
    rule = nets.Parametrization("ntk", gain=1.2, bias_gain=0.5)
    found = sc.recommend(nets.mlp([32] * 3, activation="tanh", bias=True, parametrization=rule))
    assert_allclose((found.weights, found.biases), (1.44, 0.25))

    def layer(state, _):
        state = tuple(next_covariance("tanh", *state, weights=found.weights, biases=found.biases))
        return state, 1 - state[2] / state[0]

    state = tuple(np.array([1.0, 1.0, 0.999]) * found.variance)
    gaps = np.asarray(jax.jit(lambda state: jax.lax.scan(layer, state, length=40)[1])(state))
    assert_allclose(gaps[-1] / gaps[-2], found.perpendicular, rtol=1e-3)
    assert_allclose(found.depth, -1 / math.log(found.perpendicular))


def test_other_networks():
    assert math.isinf(sc.recommend(nets.cnn([8, 8], parametrization=nets.Parametrization("ntk", gain=2**0.5))).depth)
    fading = sc.recommend(nets.mlp([8, 8], activation="relu", parametrization="ntk"))
    assert_allclose((fading.variance, fading.perpendicular), (0.0, 0.5), atol=1e-12)
    torch = sc.recommend(nets.mlp([8, 8], activation="relu", parametrization="pytorch", bias=True))
    assert torch.parametrization is None
    assert_allclose(torch.weights, 1 / 3)
    for match, net in (
        ("one kind of activation", nets.deep_linear([4, 4])),
        ("near-zero", nets.mlp([4, 4], activation="relu", parametrization="near-zero")),
    ):
        with pytest.raises(ValueError, match=match):
            sc.recommend(net)
    with pytest.raises(TypeError, match="`net` must be"):
        sc.recommend(jax.nn.relu)
