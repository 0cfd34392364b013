"""The gradient of random ReLU networks."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from secant import nets
from secant.theory.wide import relu_gradients as rg


@functools.cache
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
    found, _ = squares(width, depth, 40_000 if width == 1 else 4000)
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


@pytest.mark.parametrize("depth", [2, 4])
def test_the_gradient_of_a_chain_is_that_of_the_network(depth):
    net = nets.mlp([1] * (depth - 1), activation="relu")
    drawn = np.random.default_rng(depth).normal(size=(60, depth + 1))

    def gradient(row):
        params = jax.tree.unflatten(structure, [weight.reshape(1, 1) for weight in row[1:]])
        slopes = jax.grad(lambda p: net.apply(p, row[:1, None])[0])(params)
        return jnp.abs(jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(slopes)]))

    structure = jax.tree.structure(jax.eval_shape(lambda key: net.init(key, (1, 1)), jax.random.key(0)))
    expected = np.asarray(jax.jit(jax.vmap(gradient))(drawn))
    assert 0 < np.mean(expected[:, 0] > 0) < 1
    np.testing.assert_allclose(jax.jit(rg.chain_gradient)(drawn[:, 0], drawn[:, 1:]), expected, atol=1e-13)


def test_alignment_of_a_wide_networks_gradients_with_the_identity():
    dim, samples, width = 20, 30, 4_000
    found = []
    for seed in range(8):
        random = np.random.default_rng(seed)
        x, u, v = random.normal(size=(samples, dim)), random.normal(size=(width, dim)), random.normal(size=width)
        g = ((x @ u.T > 0) * v) @ u / np.sqrt(width)
        G = g.T @ g / samples
        found.append(np.trace(G) / (np.sqrt(dim) * np.linalg.norm(G)))
    # The mean square stands for the mean: traces fluctuate by 1/d in their square.
    assert np.mean(found) == pytest.approx(rg.alignment_with_identity(dim, samples), rel=2 / dim)
