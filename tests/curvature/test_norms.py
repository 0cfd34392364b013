"""Norms of second derivatives, against Hessians that are written out."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from secant import nets
from secant.curvature import norms


@pytest.fixture(scope="module")
def network():
    net = nets.dag(nets.graphs.fully_connected(2, [4, 3]), "tanh")
    x = np.array([[0.6, -0.8]])
    with jax.enable_x64(True):
        params = jax.jit(lambda key: net.init(key, x.shape))(jax.random.key(0))
        flat, unravel = ravel_pytree(params)
    start = np.random.default_rng(1).normal(size=flat.shape)
    return net, x, params, flat, unravel, start


def spectral(matrix):
    return np.linalg.norm(np.asarray(matrix), 2)


def test_the_norm_of_every_neuron_is_that_of_its_hessian(network):
    net, x, params, flat, unravel, start = network

    def sums(flat):
        return jnp.concatenate([z.reshape(-1) for z in net.pre_activations(unravel(flat), x)])

    dense = [spectral(matrix) for matrix in np.asarray(jax.jit(jax.hessian(sums))(flat))]
    found = np.asarray(jax.jit(lambda p: norms.neuron_norms(net, p, x, start, 2, 40))(params))
    np.testing.assert_allclose(found[0], 0.0, atol=1e-12)
    np.testing.assert_allclose(found[1:, 0], [dense[4], dense[7]], rtol=1e-6)
    assert found[2, 1] == 0  # there is one output


def test_blocks_are_those_of_the_written_hessian(network):
    net, x, params, flat, unravel, start = network
    found = jax.jit(lambda p: norms.layer_blocks(net, p, x, start, 40))(params)
    hessian = np.asarray(jax.jit(jax.hessian(lambda flat: net.apply(unravel(flat), x)[0]))(flat))
    ends = np.cumsum([0, *(sum(leaf.size for leaf in jax.tree.leaves(layer)) for layer in params)])
    cut = [slice(a, b) for a, b in itertools.pairwise(ends)]
    dense = [spectral(hessian[cut[a - 1], cut[b - 1]]) for a, b in norms.layer_pairs(3)]
    np.testing.assert_allclose(found.block, dense, rtol=1e-5, atol=1e-12)
    np.testing.assert_allclose(found.slope, [dense[2], dense[4]], rtol=1e-5)
    np.testing.assert_allclose(found.gap, 0.0, atol=1e-12)


def test_pairs_of_layers_come_once():
    assert norms.layer_pairs(3) == [(1, 1), (1, 2), (1, 3), (2, 2), (2, 3), (3, 3)]


def test_the_norm_of_a_tensor_is_the_largest_over_mixtures_of_outputs():
    matrices = np.random.default_rng(3).normal(size=(2, 5, 5))
    matrices = matrices + matrices.swapaxes(1, 2)

    def f(params, x):
        return jnp.einsum("kij,i,j->k", matrices, params, params)[None] / 2

    start = jnp.asarray(np.random.default_rng(4).normal(size=5))
    own, joint = jax.jit(lambda p: norms.joint_norm(f, p, np.ones((1, 1)), start, 60, 5))(np.ones(5))
    np.testing.assert_allclose(own, [spectral(matrix) for matrix in matrices], rtol=1e-10)
    angles = np.linspace(0, np.pi, 2001)
    mixtures = [spectral(np.cos(a) * matrices[0] + np.sin(a) * matrices[1]) for a in angles]
    assert float(joint) == pytest.approx(max(mixtures), rel=1e-5)
