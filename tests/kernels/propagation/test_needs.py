"""What layers need of the signals in front of them."""

from secant import nets
from secant.kernels.propagation.needs import planned
from secant.kernels.propagation.place import Need


def test_pools_need_pairs_of_positions_and_bends_sizes():
    plan = planned(nets.cnn([4], pool="average", activation="relu"))  # conv, activation, pool, dense
    assert plan.before[(3,)] == plan.after[(3,)] == Need()
    assert plan.before[(2,)] == plan.after[(1,)] == Need(full=True)
    assert plan.before[(1,)] == plan.after[(0,)] == Need(full=True, sizes=True)
    assert plan.bent
    assert not planned(nets.mlp([4], activation="erf")).bent


def test_flat_positions_are_needed_each_alone():
    plan = planned(nets.cnn([4], activation="erf"))
    assert not any(need.full or need.own for need in plan.before.values())


def test_sets_of_weights_are_counted_in_the_order_of_the_network():
    mixing = nets.residual(nets.serial(nets.dense(4), nets.attention(scores="identity")))
    plan = planned(nets.serial(nets.dense(4), mixing, nets.flatten(), nets.dense(1)))
    found = [plan.weights[path] for path in ((0,), (1, 0, 0), (1, 0, 1), (3,))]
    assert found == [0, 1, 2, 6]  # attention has four
