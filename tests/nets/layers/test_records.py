"""Every layer says what it is."""

import pytest

from secant import nets
from secant.nets import graphs
from secant.nets import layers as records
from secant.nets.graphs.network import graph_of

MADE = {
    records.Identity: nets.identity(),
    records.Flatten: nets.flatten(),
    records.Scalar: nets.scalar(),
    records.Activation: nets.activation("erf"),
    records.Dense: nets.dense(3, bias=True),
    records.Conv: nets.conv(4, (3, 5), strides=2, padding="VALID", last=True),
    records.AveragePool: nets.average_pool(2, strides=1),
    records.GlobalAveragePool: nets.global_average_pool(),
    records.Patches: nets.patches(2),
    records.LayerNorm: nets.layer_norm(over="sample", gain=False),
    records.GroupNorm: nets.group_norm(2),
    records.BatchNorm: nets.batch_norm(),
    records.Frozen: nets.frozen(nets.dense(3)),
    records.Attention: nets.attention(2, features=8),
    records.Positions: nets.positions(),
    records.Serial: nets.serial(nets.dense(3)),
    records.Residual: nets.residual(nets.dense(3)),
    records.Concat: nets.concat(nets.dense(3)),
    records.Sum: nets.add(nets.dense(3)),
    records.Product: nets.multiply(nets.dense(3)),
}


@pytest.mark.parametrize("kind", MADE, ids=lambda kind: kind.__name__)
def test_a_layer_has_its_record(kind):
    assert type(MADE[kind].layer) is kind


def test_there_is_a_layer_for_every_record():
    assert set(records.Layer.__subclasses__()) - {graphs.network.Dag} == set(MADE)


def test_a_record_holds_the_choices():
    conv, dense = MADE[records.Conv].layer, MADE[records.Dense].layer
    assert (conv.channels, conv.window, conv.strides, conv.padding, conv.last) == (4, (3, 5), 2, "VALID", True)
    assert (dense.features, dense.bias, dense.last, dense.parametrization.name) == (3, True, False, "ntk")
    assert MADE[records.AveragePool].layer == records.AveragePool((2, 2), (1, 1))


def test_a_network_of_a_graph_knows_it():
    graph = graphs.fully_connected(3, [4])
    assert graph_of(nets.dag(graph)) is graph
    with pytest.raises(TypeError, match="must be the network of a graph, made by `dag`, got mlp"):
        graph_of(nets.mlp([4]))
