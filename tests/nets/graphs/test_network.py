"""The network of a graph is its neuron functions, and its Hessian obeys their recursion."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secant import nets
from secant.nets import Graph, graphs

KEY = jax.random.key(0)
FAST = {"xla_backend_optimization_level": 0}


def run(net, params, x):
    """Outputs, by one compiled program."""
    return np.asarray(jax.jit(net.apply, compiler_options=FAST)(params, x))


def by_neuron(graph, params, x, sigma=np.tanh, special=()):
    """The values of all neurons, one edge at a time."""
    weights = np.asarray(nets.edge_weights(graph, params))
    values = [*x]
    skips = np.concatenate([np.full(b.size, -1) if b.skips is None else b.skips for b in graph.blocks])
    for own, skip in zip(graph.incoming(), skips, strict=True):
        neuron = len(values)
        z = own.factor * sum(weights[w] * values[u] for u, w in zip(own.sources, own.weights, strict=True))
        if neuron not in graph.outputs:
            z = dict(special).get(neuron, sigma)(z)
        values.append(z + values[skip] if skip >= 0 else z)
    return np.array(values)


def random_graph(seed):
    """A small graph with something of everything."""
    keys = jax.random.split(jax.random.key(seed), 3)
    graph = graphs.random(keys[0], 2, [3, 4], 2, in_degree=3)
    graph = graphs.drop_edges(graph, keys[1], 0.3, normalize=("new", "original")[seed % 2])
    return graphs.skip(graph, keys[2]) if seed % 3 else graph


@given(st.integers(0, 1000))
@settings(max_examples=5, deadline=None)
def test_a_network_of_a_graph_is_its_neuron_functions(seed):
    graph = random_graph(seed)
    net, x = nets.dag(graph), np.random.default_rng(seed).normal(size=(3, 2))
    params = net.init(jax.random.key(seed), x.shape)
    expected = [by_neuron(graph, params, row)[graph.outputs] for row in x]
    np.testing.assert_allclose(run(net, params, x), expected, rtol=1e-12, atol=1e-14)


def test_a_graph_from_edges_is_evaluated_in_its_own_order():
    edges = [("b", "f"), ("a", "b"), ("x", "b"), ("x", "a"), ("y", "a"), ("x", "f")]
    graph = Graph.from_edges(edges, inputs=["x", "y"])
    weights = dict(zip(["xa", "ya", "xb", "ab", "xf", "bf"], [0.3, -0.7, 1.1, 0.4, -0.2, 0.9], strict=True))
    params = nets.with_edge_weights(graph, np.array(list(weights.values())))
    x, y = 0.5, -1.5
    a = np.tanh((0.3 * x - 0.7 * y) / np.sqrt(2))
    b = np.tanh((1.1 * x + 0.4 * a) / np.sqrt(2))
    expected = (-0.2 * x + 0.9 * b) / np.sqrt(2)
    np.testing.assert_allclose(run(nets.dag(graph), params, np.array([[x, y]])), [expected], rtol=1e-12)


def test_outputs_in_early_layers_are_linear():
    graph = Graph.from_edges([("x", "f"), ("x", "a"), ("a", "g")], outputs=["f", "g"], outputs_anywhere=True)
    params = nets.with_edge_weights(graph, np.array([2.0, 3.0, 5.0]))
    np.testing.assert_allclose(run(nets.dag(graph), params, np.ones((1, 1))), [[2, 5 * np.tanh(3)]], rtol=1e-12)


def test_a_neuron_may_have_an_activation_of_its_own():
    graph = graphs.fully_connected(2, [3])
    net, x = nets.dag(graph, "tanh", exceptions={3: "sin"}), np.array([[0.3, -0.8]])
    params = net.init(KEY, x.shape)
    expected = by_neuron(graph, params, x[0], special=[(3, np.sin)])[-1]
    np.testing.assert_allclose(run(net, params, x), [expected], rtol=1e-12)
    with pytest.raises(ValueError, match="`exceptions` names 5, which is not a hidden neuron"):
        nets.dag(graph, exceptions={5: "sin"})


@pytest.mark.parametrize("concat_input", [None, True, False])
def test_graphs_of_layers_are_the_networks_of_layers(concat_input):
    x = np.random.default_rng(0).normal(size=(4, 3))
    if concat_input is None:
        net, graph = nets.mlp([5, 6], 2, activation="tanh"), graphs.fully_connected(3, [5, 6], 2)
    else:
        net = nets.densenet([5, 6], 2, activation="tanh", concat_input=concat_input)
        graph = graphs.densenet(3, [5, 6], 2, concat_input=concat_input)
    params = net.init(KEY, x.shape)
    own = tuple({"weight": leaf} for leaf in jax.tree.leaves(params))
    np.testing.assert_allclose(run(nets.dag(graph, "tanh"), own, x), run(net, params, x), rtol=1e-12)


@pytest.mark.parametrize("window", [3, 4])
def test_a_graph_with_shared_weights_is_a_convolutional_network(window):
    net = nets.cnn([3, 4], 2, window=(window,), activation="tanh")
    graph = graphs.convolutional(6, [3, 4], 2, window=window, input_channels=2)
    x = np.random.default_rng(0).normal(size=(3, 6, 2))
    params = net.init(KEY, x.shape)
    own = tuple({"weight": np.asarray(leaf).reshape(-1, leaf.shape[-1])} for leaf in jax.tree.leaves(params))
    outputs = run(nets.dag(graph, "tanh"), own, x.reshape(3, -1))
    np.testing.assert_allclose(outputs, run(net, params, x), rtol=1e-12, atol=1e-14)


def test_entries_without_an_edge_start_at_zero_and_never_matter():
    graph = graphs.drop_edges(graphs.fully_connected(3, [6, 6]), KEY)
    net, x = nets.dag(graph), np.random.default_rng(0).normal(size=(2, 3))
    params = net.init(KEY, x.shape)
    for own, part in zip(params, graph.blocks, strict=True):
        assert np.all((np.asarray(own["weight"]) != 0) == part.edges)
    moved = [
        {"weight": np.asarray(own["weight"]) + 9.0 * ~b.edges} for own, b in zip(params, graph.blocks, strict=True)
    ]
    apply = jax.jit(net.apply, compiler_options=FAST)
    np.testing.assert_array_equal(apply(tuple(moved), x), apply(params, x))
    assert graph.edges == graph.parameters == nets.edge_weights(graph, params).size


def test_edge_weights_and_parameters_are_the_same_thing():
    for graph in (random_graph(1), graphs.convolutional(4, [2, 3])):
        weights = np.arange(1.0, 1 + graph.parameters)
        params = nets.with_edge_weights(graph, weights)
        np.testing.assert_array_equal(nets.edge_weights(graph, params), weights)
        with pytest.raises(ValueError, match="`weights` must have shape"):
            nets.with_edge_weights(graph, weights[1:])


@pytest.mark.parametrize("graph", [random_graph(1), random_graph(2), graphs.convolutional(3, [2], window=2)])
def test_the_hessian_of_every_neuron_obeys_the_recursion(graph):
    net = nets.dag(graph, "tanh")
    x = np.random.default_rng(0).normal(size=graph.inputs)
    params = net.init(KEY, (1, graph.inputs))

    def pre_activations(weights):
        found = net.pre_activations(nets.with_edge_weights(graph, weights), x[None])
        return jnp.concatenate([part.ravel() for part in found])

    hessians = jax.jit(jax.hessian(pre_activations), compiler_options=FAST)(nets.edge_weights(graph, params))
    for index in (0, graph.blocks[0].size, graph.neurons - graph.inputs - 1):
        found = nets.pre_activation_hessian(graph, params, x, graph.inputs + index)
        np.testing.assert_allclose(found, hessians[index], rtol=0, atol=1e-13)


def test_the_recursion_knows_only_neurons_that_are_computed():
    graph = graphs.fully_connected(2, [3])
    with pytest.raises(ValueError, match="0 is not a neuron of the graph that is computed"):
        nets.pre_activation_hessian(graph, nets.dag(graph).init(KEY, (1, 2)), np.ones(2), 0)


def test_inputs_that_do_not_fit_the_graph_are_refused():
    net = nets.dag(graphs.fully_connected(3, [4]))
    with pytest.raises(ValueError, match="the graph has 3 inputs but a sample has shape"):
        net.init(KEY, (1, 4))
    with pytest.raises(ValueError, match="`x` has 4 features per sample but the first layer of `params` takes 3"):
        net.apply(net.init(KEY, (1, 3)), np.ones((1, 4)))
