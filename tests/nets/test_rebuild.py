"""A network with other parametrisations is otherwise the same."""

import jax
import numpy as np
import pytest

from secant import nets
from secant.nets import Parametrization
from secant.nets.rebuild import parametrizations

NETS = {
    "mlp": (nets.mlp([4, 3], 2, bias=True, activation="tanh"), (2, 5)),
    "cnn": (nets.cnn([4, 3], pool="average", padding="CIRCULAR"), (2, 4, 4, 2)),
    "resnet": (nets.resnet([4, 8], norm="layer", bias=True), (2, 4, 4, 2)),
    "vit": (nets.vit(blocks=1, patch=2, dim=8, heads=2), (2, 4, 4, 2)),
    "densenet": (nets.densenet([4, 3]), (2, 5)),
}


@pytest.mark.parametrize("name", NETS)
def test_the_same_rules_give_the_same_network(name):
    net, shape = NETS[name]
    again = nets.with_parametrizations(net, parametrizations(net))
    x = np.random.default_rng(0).normal(size=shape)
    params = net.init(jax.random.key(0), shape)
    jax.tree.map(np.testing.assert_array_equal, params, again.init(jax.random.key(0), shape))
    run = [jax.jit(one.apply, compiler_options={"xla_backend_optimization_level": 0}) for one in (again, net)]
    np.testing.assert_array_equal(*(one(params, x) for one in run))
    assert (again.name, again.axes) == (net.name, net.axes)


@pytest.mark.parametrize("name", NETS)
def test_another_rule_reaches_every_layer(name):
    net, _ = NETS[name]
    rule = Parametrization("standard", gain=1.3)
    assert set(parametrizations(nets.with_parametrizations(net, rule))) == {rule}
    several = [Parametrization("ntk", gain=1 + i / 10) for i in range(len(parametrizations(net)))]
    assert parametrizations(nets.with_parametrizations(net, several)) == several


def test_a_wrong_number_of_rules_is_refused():
    with pytest.raises(ValueError, match="one for each of 3 layers, got 2"):
        nets.with_parametrizations(NETS["mlp"][0], ["ntk", "ntk"])
