"""Derivatives of all neurons of a graph, and what the output's Hessian is made of."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from secant import nets
from secant.curvature import neurons


@pytest.fixture(params=["dense", "skip"])
def case(request):
    graph = nets.graphs.densenet(2, [3, 3])
    if request.param == "skip":
        graph = nets.graphs.skip(nets.graphs.drop_edges(graph, jax.random.key(1), 0.3), jax.random.key(2))
    x = jnp.array([[0.5, -1.0]])
    params = nets.dag(graph, "tanh").init(jax.random.key(3), x.shape)
    return graph, params, x, neurons.neurons(graph, params, x)


def test_hessians_are_those_of_the_recursion_and_gradients_differences(case):
    graph, params, x, found = case
    recursion = nets.pre_activation_hessian(graph, params, x[0], graph.neurons - 1, "tanh")
    np.testing.assert_allclose(found.bends[-1], recursion, atol=1e-13)
    step, net = 1e-6 * np.arange(1.0, found.weights.size + 1), nets.dag(graph, "tanh")
    ahead, back = (net.apply(nets.with_edge_weights(graph, found.weights + s * step), x)[0] for s in (1, -1))
    assert found.slopes[-1] @ step == pytest.approx(float(ahead - back) / 2, rel=1e-6)


def test_blocks_cover_the_hessian(case):
    graph, _, _, found = case
    norms, ends = neurons.block_norms(found.bends[-1], graph), neurons.layer_ends(graph)
    assert ends[-1] == found.weights.size
    assert norms.shape == (3, 3)
    assert norms[0, 2] == pytest.approx(np.linalg.norm(found.bends[-1][: ends[0], ends[1] :], 2))
    assert norms.max() <= np.linalg.norm(found.bends[-1], 2) * (1 + 1e-12) <= norms.sum() * (1 + 1e-12)


def test_the_block_of_a_layer_with_the_last_is_the_slope_of_what_the_output_reads():
    graph = nets.graphs.densenet(2, [3, 3])
    x = jnp.array([[0.5, -1.0]])
    found = neurons.neurons(graph, nets.dag(graph, "tanh").init(jax.random.key(3), x.shape), x)
    norms = neurons.block_norms(found.bends[-1], graph)
    np.testing.assert_allclose(neurons.read_slopes(graph, found)[:-1], norms[:-1, -1], atol=1e-13)


def test_direct_derivatives_make_the_first_block_and_total_ones_count_paths_twice():
    graph = nets.graphs.densenet(2, [3, 3])
    x = jnp.array([[0.5, -1.0]])
    found = neurons.neurons(graph, nets.dag(graph, "tanh").init(jax.random.key(4), x.shape), x)
    total, direct = neurons.first_block_norms(graph, found)
    end = neurons.layer_ends(graph)[0]
    assert direct == pytest.approx(np.linalg.norm(found.bends[-1, :end, :end], 2), rel=1e-12)
    assert abs(total - direct) > 1e-3
