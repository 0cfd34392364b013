"""The gradient of random ReLU networks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from secant import nets
from secant.theory import relu_gradients as rg


def squares(width, depth, count=4000, seed=0):
    net = nets.mlp([width] * (depth - 1), activation="relu")

    def one(key):
        a, b = jax.random.split(key)
        x = jax.random.normal(a, (1, width))
        params = net.init(b, x.shape)
        gradient = jax.grad(lambda p: net.apply(p, x)[0])(params)
        return sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradient)), gradient[-2]["weight"][0, 0]

    found, last = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(seed), count))
    return np.asarray(found), np.asarray(last)


@pytest.mark.parametrize(("width", "depth"), [(1, 2), (3, 2), (4, 3)])
def test_the_mean_square_does_not_depend_on_the_width(width, depth):
    found, _ = squares(width, depth)
    error = found.std() / np.sqrt(found.size)
    assert abs(found.mean() - rg.mean_square_gradient(depth)) < 4 * error


def test_moments_of_the_narrowest_network():
    found, last = squares(1, 2, 40_000)
    fourth = float(rg.chain_fourth_moment(2))
    assert fourth == pytest.approx(12.0)
    assert abs((found**2).mean() - fourth) < 4 * (found**2).std() / np.sqrt(found.size)
    assert abs(np.abs(last).mean() - rg.chain_last_gradient(2)) < 4 * last.std() / np.sqrt(last.size)


@pytest.mark.parametrize("depth", [2, 3, 4, 5])
def test_the_fourth_moment_of_a_chain_is_a_sum_over_pairs_of_layers(depth):
    """The square of the squared norm, term by term: E w^4 = 3, E w^2 = 1, and all L - 1 gates open half of the time."""
    moments = {0: 1, 2: 1, 4: 3}
    total = 0
    for first in range(depth):
        for second in range(depth):
            powers = [2 * (layer != first) + 2 * (layer != second) for layer in range(depth)]
            total += moments[4] * np.prod([moments[power] for power in powers])
    assert float(rg.chain_fourth_moment(depth)) == pytest.approx(total / 2 ** (depth - 1), rel=1e-12)


def test_the_bound_from_moments_is_below_the_mean_and_exact_for_a_constant():
    x = np.random.default_rng(0).exponential(size=10_000)
    assert rg.mean_from_moments((x**2).mean(), (x**4).mean()) <= x.mean()
    assert float(rg.mean_from_moments(4.0, 16.0)) == pytest.approx(2.0)
