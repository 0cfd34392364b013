"""Every architecture has the shape, the size and the independence of samples that it promises."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from secant import nets


def test_the_outputs_have_one_row_a_sample_and_the_parameters_their_number(case):
    outputs = case.backward(case.params, case.x)[0]
    assert outputs.shape == (len(case.x), *case.outputs) == case.net.output_shape(case.x.shape)
    assert nets.count_parameters(case.params) == case.parameters
    assert np.all(np.isfinite(outputs))


def test_every_sample_is_treated_alone(case):
    others = np.array(case.x)
    others[::2] = 7.0
    outputs, changed = (case.backward(case.params, x)[0] for x in (case.x, others))
    np.testing.assert_array_equal(changed[1], outputs[1])
    assert not np.allclose(changed[0], outputs[0])


def test_parameters_and_outputs_keep_their_precision(case):
    x = jax.ShapeDtypeStruct(case.x.shape, jnp.float32)
    params = jax.eval_shape(lambda key: case.net.init(key, x.shape, jnp.float32), jax.random.key(1))
    assert {leaf.dtype for leaf in jax.tree.leaves(params)} == {np.dtype("float32")}
    assert jax.eval_shape(case.net.apply, params, x).dtype == jnp.float32


def test_the_same_key_gives_the_same_parameters_and_another_does_not(case):
    again, other = (case.net.init(jax.random.key(k), case.x.shape) for k in (1, 2))
    jax.tree.map(np.testing.assert_array_equal, again, case.params)
    assert not np.allclose(jax.tree.leaves(other)[0], jax.tree.leaves(case.params)[0])


def test_an_mlp_is_its_formula():
    net = nets.mlp([6, 7], 2, activation="tanh", bias=True, parametrization=nets.Parametrization("ntk", 1.5, 0.3))
    x = np.random.default_rng(0).normal(size=(4, 5))
    params = net.init(jax.random.key(0), x.shape)
    a = x
    for index, own in enumerate(params[::2]):
        a = 1.5 * a @ np.asarray(own["weight"]) / np.sqrt(a.shape[1]) + 0.3 * np.asarray(own["bias"])
        a = np.tanh(a) if index < 2 else a
    np.testing.assert_allclose(jax.jit(net.apply)(params, x), a, rtol=1e-12)


def test_the_two_layer_network_is_its_formula():
    net, width, d = nets.two_layer(50), 50, 3
    x = np.random.default_rng(1).normal(size=(6, d))
    params = net.init(jax.random.key(0), x.shape)
    u, v = np.asarray(params[0]["weight"]), np.asarray(params[2]["weight"])[:, 0]
    assert set(v) == {-1.0, 1.0}
    sums = [sum(v[i] * max(u[:, i] @ row / np.sqrt(d), 0) for i in range(width)) for row in x]
    np.testing.assert_allclose(jax.jit(net.apply)(params, x), np.array(sums) / np.sqrt(width), rtol=1e-12)


def test_a_densenet_is_its_formula():
    for concat_input in (True, False):
        net = nets.densenet([3, 4], activation="tanh", concat_input=concat_input)
        x = np.random.default_rng(2).normal(size=(4, 5))
        params = net.init(jax.random.key(0), x.shape)
        weights = [np.asarray(leaf) for leaf in jax.tree.leaves(params)]
        first = np.tanh(x @ weights[0] / np.sqrt(5))
        read = np.hstack([x, first]) if concat_input else first
        read = np.hstack([read, np.tanh(read @ weights[1] / np.sqrt(read.shape[1]))])
        np.testing.assert_allclose(
            jax.jit(net.apply)(params, x), (read @ weights[2])[:, 0] / np.sqrt(read.shape[1]), rtol=1e-12
        )


def test_a_deep_linear_network_is_a_product_of_matrices():
    net, x = nets.deep_linear([3, 4], 2), np.random.default_rng(3).normal(size=(4, 5))
    params = net.init(jax.random.key(0), x.shape)
    product = np.linalg.multi_dot([np.asarray(leaf) for leaf in jax.tree.leaves(params)])
    np.testing.assert_allclose(jax.jit(net.apply)(params, x), x @ product / np.sqrt(5 * 3 * 4), rtol=1e-12)


def parameters_of(net, shape):
    return nets.count_parameters(jax.eval_shape(lambda key: net.init(key, shape), jax.random.key(0)))


@pytest.mark.parametrize(("depth", "widen"), [(10, 10), (16, 2)])
def test_named_sizes_of_wide_residual_networks(depth, widen):
    stages = ((16, 16 * widen), (16 * widen, 32 * widen), (32 * widen, 64 * widen))
    # in a stage one convolution changes the channels, beside a projection, and the others keep them
    keeping = (depth - 4) // 3 - 1
    expected = 27 * 16 + sum((9 + 1) * a * b + keeping * 9 * b * b for a, b in stages) + 640 * widen
    assert parameters_of(nets.wide_resnet(depth, widen, 10), (1, 32, 32, 3)) == expected


def test_a_vision_transformer_of_four_blocks():
    # 64 tokens of 48 numbers; in a block two norms, four dense layers, and two with twice the features between
    block = 2 * 128 + 4 * 64**2 + 2 * 64 * 128
    assert parameters_of(nets.vit4(10), (1, 32, 32, 3)) == 48 * 64 + 64 * 64 + 4 * block + 128 + 640


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nets.mlp([0]), "dense: `features` must be a whole number of at least 1, got 0"),
        (lambda: nets.mlp([4], 0), "`outputs` must be a whole number of at least 1, got 0"),
        (lambda: nets.mlp([4], activation="tahn"), "unknown activation 'tahn'. Did you mean 'tanh'?"),
        (lambda: nets.mlp([4], parametrization="NTK"), "unknown parametrization 'NTK'"),
        (lambda: nets.cnn([4], pool="max"), "`pool` must be 'average' or None, got 'max'"),
        (lambda: nets.cnn([4], window=(1, 2, 3)), "`window` must have one or two lengths"),
        (lambda: nets.resnet(norm="batch"), "`norm` must be 'layer' or None, got 'batch'"),
        (lambda: nets.resnet(()), "must name at least one stage"),
        (lambda: nets.wide_resnet(12), "`depth` must be 10, 16, 22, ..., got 12"),
        (lambda: nets.vit(dim=6, heads=4).output_shape((1, 8, 8, 3)), "6 features cannot be split over 4 heads"),
        (lambda: nets.vit().output_shape((1, 9, 9, 3)), "9 by 9 cannot be cut into patches of size 4"),
    ],
)
def test_what_cannot_be_built_is_refused(make, message):
    with pytest.raises(ValueError, match=message.replace("?", r"\?")):
        make()
