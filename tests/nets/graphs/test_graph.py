"""Layers, in-degrees and width are those of the definition, and a bad list of edges is refused by name."""

import functools
from dataclasses import replace

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secant.nets import Graph, graphs
from secant.nets.graphs.builders import Block, Shared

KEY = jax.random.key(0)


@st.composite
def acyclic_edges(draw):
    """Edges from lower to higher numbers, renamed and shuffled, so that nothing is in order by luck."""
    count = draw(st.integers(2, 8))
    pairs = [(a, b) for b in range(count) for a in range(b)]
    edges = draw(st.lists(st.sampled_from(pairs), min_size=1, unique=True))
    names = draw(st.permutations([f"v{i}" for i in range(count)]))
    return [(names[a], names[b]) for a, b in draw(st.permutations(edges))]


@given(acyclic_edges())
def test_a_layer_is_the_length_of_the_longest_path(edges):
    graph = Graph.from_edges(edges, outputs_anywhere=True)
    sources = {v: [a for a, b in edges if b == v] for edge in edges for v in edge}

    @functools.cache
    def longest(v):
        return max((longest(u) + 1 for u in sources[v]), default=0)

    assert {v: level for level, layer in enumerate(graph.layers) for v in layer} == {v: longest(v) for v in sources}
    degrees = {graph.label(v): degree for v, degree in enumerate(graph.in_degrees)}
    assert degrees == {v: len(own) for v, own in sources.items()}
    deep = [len(own) for v, own in sources.items() if longest(v) >= 2]
    assert graph.width == min(deep, default=None)
    assert graph.edges == graph.parameters == len(edges)
    assert {graph.label(v) for v in graph.outputs} == {
        v for v in sources if sources[v] and all(a != v for a, _ in edges)
    }


@given(acyclic_edges())
def test_every_neuron_reads_what_its_edges_say(edges):
    graph = Graph.from_edges(edges, outputs_anywhere=True)
    read = {
        (graph.label(source), graph.label(graph.inputs + index))
        for index, own in enumerate(graph.incoming())
        for source in own.sources
    }
    numbers = [number for own in graph.incoming() for number in own.weights]
    assert read == set(edges)
    assert sorted(numbers) == list(range(len(edges)))


def test_a_neuron_reached_by_a_long_and_a_short_path_sits_at_the_end_of_the_long_one():
    graph = Graph.from_edges([("x", "a"), ("a", "b"), ("b", "c"), ("x", "c"), ("c", "f")])
    assert graph.layers == [["x"], ["a"], ["b"], ["c"], ["f"]]
    assert graph.depth == 4
    assert graph.width == 1


@pytest.mark.parametrize(
    ("edges", "options", "message"),
    [
        ([], {}, "there is none"),
        ([("x", "a"), ("a", "b"), ("b", "c"), ("c", "a"), ("c", "f")], {}, "a cycle, 'a' -> 'b' -> 'c' -> 'a'"),
        ([("a", "b"), ("b", "a")], {}, "a cycle, "),
        ([("x", "x")], {}, "'x' has an edge to itself"),
        ([("x", "f"), ("x", "f")], {}, "from 'x' to 'f' is there twice"),
        ([("x", "f"), ("u", "f")], {"inputs": ["x"]}, "'u' has no incoming edge and is not among `inputs`"),
        ([("x", "a"), ("a", "f")], {"inputs": ["x", "a"]}, "input 'a' has an incoming edge from 'x'"),
        ([("x", "a"), ("x", "b"), ("b", "f")], {}, "output 'a' lies in layer 1, but the last layer is 2"),
        ([("x", "f")], {"outputs": ["g"]}, "output 'g' has no edge"),
        ([("x", "a"), ("a", "f")], {"outputs": ["a"], "outputs_anywhere": True}, "output 'a' is read by another"),
    ],
)
def test_bad_edges_are_refused_by_name(edges, options, message):
    with pytest.raises(ValueError, match=message):
        Graph.from_edges(edges, **options)


def test_inputs_and_outputs_keep_the_order_that_is_asked_for():
    edges = [("a", "f"), ("b", "g"), ("b", "f")]
    graph = Graph.from_edges(edges, inputs=["b", "unused", "a"], outputs=["g", "f"])
    assert graph.layers[0] == ["b", "unused", "a"]
    assert [graph.label(v) for v in graph.outputs] == ["g", "f"]


def test_fully_connected_graphs_are_as_wide_as_their_smallest_hidden_layer():
    graph = graphs.fully_connected(2, [7, 3, 5], 4)
    assert (graph.width, graph.depth, graph.edges) == (3, 4, 14 + 21 + 15 + 20)
    assert [len(layer) for layer in graph.layers] == [2, 7, 3, 5, 4]


def test_dense_graphs_read_everything_before():
    graph = graphs.densenet(2, [3, 4])
    assert graph.in_degrees.tolist() == [0] * 2 + [2] * 3 + [5] * 4 + [9]
    graph = graphs.densenet(2, [3, 4], concat_input=False)
    assert graph.in_degrees.tolist() == [0] * 2 + [2] * 3 + [3] * 4 + [7]
    assert graph.width == 3


def test_random_graphs_have_their_in_degree_and_layers():
    graph = graphs.random(KEY, 3, [20, 20], 2, in_degree=8)
    assert [len(layer) for layer in graph.layers] == [3, 20, 20, 2]
    assert graph.in_degrees.tolist() == [0] * 3 + [3] * 20 + [8] * 22
    assert graph.width == 8
    second = [own.sources for own in graph.incoming()][20:40]
    assert set(graph.levels[np.concatenate(second)]) == {0, 1}  # every layer before is read
    other = graphs.random(jax.random.key(1), 3, [20, 20], 2, in_degree=8)
    assert not np.array_equal(graph.blocks[1].edges, other.blocks[1].edges)


def test_dropped_edges_are_gone_at_the_given_rate_and_none_is_new():
    full = graphs.densenet(50, [40, 40])
    for normalize in ("new", "original"):
        graph = graphs.drop_edges(full, KEY, 0.3, normalize=normalize)
        spread = np.sqrt(full.edges * 0.3 * 0.7)
        assert abs(graph.edges - 0.7 * full.edges) < 5 * spread
        for block, before in zip(graph.blocks, full.blocks, strict=True):
            expected = block.in_degrees if normalize == "new" else before.fans
            np.testing.assert_array_equal(block.fans, expected)


def test_a_neuron_never_loses_its_last_edge():
    graph = graphs.drop_edges(graphs.fully_connected(2, [30, 30], 5), KEY, 0.99)
    assert graph.in_degrees[2:].min() == 1
    assert graphs.drop_edges(graph, KEY, 0.0).edges == graph.edges


def test_a_neuron_that_keeps_only_short_paths_moves_to_an_earlier_layer():
    graph = graphs.densenet(1, [1, 1])
    second = graph.blocks[1]
    short = replace(
        graph, blocks=(graph.blocks[0], replace(second, edges=np.array([[True], [False]])), graph.blocks[2])
    )
    assert short.levels.tolist() == [0, 1, 1, 2]


def test_bottleneck_neurons_have_a_single_edge_and_repair_adds_those_of_a_wide_layer():
    graph = graphs.fully_connected(3, [16, 16, 16])
    narrow = graphs.bottleneck_neurons(graph, layer=2)
    assert sorted(narrow.in_degrees[narrow.levels == 2])[:3] == [1, 1, 16]
    assert narrow.width == 1
    assert narrow.levels.tolist() == graph.levels.tolist()
    layer = graphs.fully_connected(3, [16, 2, 16])
    assert layer.width == 2
    repaired = graphs.connect(layer, source=1, target=3)
    assert repaired.width == 16
    assert repaired.in_degrees[repaired.levels == 3].tolist() == [18] * 16
    assert graphs.connect(repaired, source=1, target=3).edges == repaired.edges


def test_skips_lead_from_earlier_neurons_to_hidden_ones():
    graph = graphs.fully_connected(2, [3, 4], 2)
    plain = graphs.skip(graph)
    assert plain.blocks[0].skips.tolist() == [0, 1, 0]
    assert plain.blocks[1].skips.tolist() == [2, 3, 4, 2]
    assert plain.blocks[2].skips is None
    drawn = graphs.skip(graph, KEY)
    assert all(block.skips.max() < start for block, start in zip(drawn.blocks[:2], drawn.starts, strict=False))
    assert plain.edges == graph.edges


def test_shared_weights_count_once():
    graph = graphs.convolutional(6, [4, 5], 2, window=3)
    assert graph.parameters == 3 * 4 + 3 * 4 * 5 + 6 * 5 * 2
    assert graph.edges == 6 * 3 * 4 + 6 * 12 * 5 + 60
    assert graph.width == 12
    assert [len(layer) for layer in graph.layers] == [6, 24, 30, 2]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: graphs.fully_connected(2, [3, 0]), "must be a whole number of at least 1, got 0"),
        (lambda: graphs.random(KEY, 2, [3], in_degree=0), "`in_degree` must be"),
        (lambda: graphs.drop_edges(graphs.fully_connected(2, [3]), KEY, 1.0), "`rate` must be at least 0 and below 1"),
        (
            lambda: graphs.drop_edges(graphs.fully_connected(2, [3]), KEY, normalize="old"),
            "must be 'new' or 'original'",
        ),
        (lambda: graphs.drop_edges(graphs.convolutional(4, [2]), KEY), "`graph` shares weights"),
        (lambda: graphs.bottleneck_neurons(graphs.fully_connected(2, [3]), 5), "layer 5 must be a block of its own"),
        (lambda: graphs.bottleneck_neurons(graphs.fully_connected(2, [3]), 2), "fewer than `count`=2"),
        (lambda: graphs.bottleneck_neurons(graphs.fully_connected(2, [3, 3]), 2, 1, 4), "fewer than `in_degree`=4"),
        (lambda: graphs.connect(graphs.fully_connected(2, [3]), 2, 2), "must be a layer before `target`"),
    ],
)
def test_changes_that_make_no_sense_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def block(sources, edges, **options):
    edges = np.array(edges, bool)
    return Block(np.array(sources), edges, **{"fans": edges.sum(axis=0)} | options)


@pytest.mark.parametrize(
    ("blocks", "options", "message"),
    [
        ([], {}, "at least one input and one block"),
        ([block([0, 2], [[1], [1]])], {}, "block 0: reads neuron 2, but only the 2 neurons before it exist"),
        ([block([1, 0], [[1], [1]])], {}, "`sources` must increase"),
        ([block([0], [[0]])], {}, "neuron 0 of it reads nothing"),
        ([block([0], [[1]], fans=np.array([0]))], {}, "`fans` must be positive"),
        ([block([0], [[1]], skips=np.array([7]))], {}, "reads neuron 7"),
        ([block([0], [[1]], skips=np.array([0, 0]))], {}, "`skips` must have shape"),
        ([Block(np.array([0]), np.ones((1, 1)), np.array([1]))], {}, "`edges` must be bool"),
        ([Shared(np.array([[-1, -1]]), 1)], {}, "a window reads nothing"),
        ([Shared(np.array([0, 1]), 1)], {}, "`windows` must have shape"),
        ([block([0], [[1]])], {"outputs": np.array([0])}, "not an input"),
        ([block([0], [[1]])], {"outputs": np.array([2, 2])}, "each once"),
        ([block([0], [[1]])], {"labels": ("x",)}, "`labels` must have 3 entries, got 1"),
    ],
)
def test_blocks_that_cannot_be_evaluated_are_refused(blocks, options, message):
    with pytest.raises(ValueError, match=message):
        Graph(**{"inputs": 2, "blocks": tuple(blocks), "outputs": np.array([2])} | options)
