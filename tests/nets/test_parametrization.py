"""A parametrisation draws and scales as its table says."""

import functools
import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from secant import nets
from secant.nets import Parametrization
from secant.nets.parametrization import NAMES

DRAWS = 4000
KEYS = jax.jit(lambda key: jax.random.split(key, DRAWS))
RULES = [Parametrization(name) for name in NAMES] + [Parametrization("mup", optimizer="adam")]


def spread_of(net, x):
    """Second moment of the output over draws of the parameters, and its standard error.

    Operation by operation: those of one rule serve the others too.
    """
    keys = KEYS(jax.random.key(0))
    params = jax.vmap(lambda key: net.init(key, x.shape))(keys)
    squares = np.asarray(jax.vmap(net.apply, (0, None))(params, x)).reshape(DRAWS, -1) ** 2
    for many, one in zip(jax.tree.leaves(params), jax.tree.leaves(net.init(keys[1], x.shape)), strict=True):
        np.testing.assert_allclose(np.asarray(many)[1], one, rtol=1e-12)
    return squares.mean(), squares.mean(axis=1).std() / math.sqrt(DRAWS)


@pytest.mark.parametrize(
    ("rule", "factor"),
    [
        # each hidden layer halves the second moment of a ReLU network, the gain's square multiplies it
        (Parametrization("ntk"), 1 / 4),
        (Parametrization("standard"), 1 / 4),
        (Parametrization("ntk", gain=math.sqrt(2)), 2),
        (Parametrization("pytorch"), 1 / 27 / 4),
        (Parametrization("mean-field"), 1 / 4 / 8),
        (Parametrization("mup"), 1 / 4 / 8),
        (Parametrization("mup", optimizer="adam"), 1 / 4 / 8),
        (Parametrization("mup", gain=math.sqrt(2)), 2 / 8),
        (Parametrization("ntk", output_signs=True), 1 / 4),
        (Parametrization("near-zero", spread=0.5), 5 * 6 * 8 / 2**6 / 4),
    ],
    ids=lambda value: value.name if isinstance(value, Parametrization) else "",
)
def test_the_output_of_a_relu_network_has_the_variance_of_theory(rule, factor):
    x = np.random.default_rng(1).normal(size=(1, 5))
    moment, error = spread_of(nets.mlp([6, 8], activation="relu", parametrization=rule), x)
    assert abs(moment - factor * np.mean(x**2)) < 5 * error


def test_the_output_of_a_convolutional_network_has_the_variance_of_theory():
    x = np.random.default_rng(1).normal(size=(1, 4, 4, 2))
    moment, error = spread_of(nets.cnn([6], activation="identity"), x)
    # a pixel is read as often as windows reach it: the mean is over the zero padding too
    padded = np.pad(x[0], ((1, 1), (1, 1), (0, 0))) ** 2
    windows = [padded[i : i + 3, j : j + 3].mean() for i in range(4) for j in range(4)]
    assert abs(moment - np.mean(windows)) < 5 * error


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_draws_have_the_spread_they_say(rule):
    for draw in (rule.weight(9, 5), rule.weight(9, 5, last=True), rule.bias(9, 5), rule.bias(9, 5, last=True)):
        sample = np.asarray(draw.sample(jax.random.key(0), (20_000,), jnp.float64)) * draw.scale
        assert sample.var() == pytest.approx(draw.variance, rel=0.06)
        assert abs(sample.mean()) < 5 * math.sqrt(draw.variance / 20_000)


@pytest.mark.parametrize(("shape", "dtype"), [((3, 2, 5), "float64"), ((70, 1000), "float64")])
def test_draws_are_those_of_jax_inside_and_outside_of_jit(shape, dtype):
    key, draw = jax.random.key(3), Parametrization("ntk").weight(4)
    expected = jax.random.normal(key, shape, dtype)
    np.testing.assert_array_equal(draw.sample(key, shape, dtype), expected)
    np.testing.assert_array_equal(jax.jit(lambda key: draw.sample(key, shape, dtype))(key), expected)


def test_signs_keep_the_spread_and_the_scale():
    for rule in RULES:
        plain, signs = (replace(rule, output_signs=s).weight(9, last=True) for s in (False, True))
        assert signs.variance == pytest.approx(plain.variance)
        assert signs.scale == plain.scale
        values = np.abs(signs.sample(jax.random.key(0), (50,), jnp.float64))
        np.testing.assert_allclose(values, values[0])
        assert replace(rule, output_signs=True).weight(9, 5) == rule.weight(9, 5)


def test_biases_are_scaled_and_drawn_as_the_table_says():
    x = np.zeros((1, 5))
    for rule, variance in (
        (Parametrization("ntk", bias_gain=0.5), 0.25),
        (Parametrization("standard", bias_gain=0.5), 0.25),
        (Parametrization("pytorch"), 1 / 15),
        (Parametrization("mup", bias_gain=0.5), 0.25),
        (Parametrization("mup", bias_gain=0.5, optimizer="adam"), 0.25),
        (Parametrization("near-zero"), 1e-4),
    ):
        moment, error = spread_of(nets.dense(6, parametrization=rule, bias=True), x)
        assert abs(moment - variance) < 5 * error


def test_ntk_and_standard_are_the_same_function_with_rescaled_weights():
    x = np.random.default_rng(1).normal(size=(3, 5))
    ntk, standard = (nets.mlp([6, 7], parametrization=Parametrization(name, gain=1.3)) for name in ("ntk", "standard"))
    params = jax.tree.map(np.asarray, ntk.init(jax.random.key(0), x.shape))
    moved = jax.tree.map(lambda w: 1.3 * w / math.sqrt(len(w)), params)
    np.testing.assert_allclose(jax.jit(standard.apply)(moved, x), jax.jit(ntk.apply)(params, x), rtol=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "mean_field"}, "Did you mean 'mean-field'"),
        ({"name": "zzz"}, "Known parametrisations: ntk"),
        ({"gain": -1.0}, "`gain` must be a number of at least 0, got -1.0"),
        ({"gain": math.inf}, "`gain` must be a number of at least 0"),
        ({"spread": -1.0}, "`spread` must be a positive number"),
        ({"bias_gain": -1.0}, "`bias_gain` must be a number of at least 0"),
        ({"name": "pytorch", "gain": 2.0}, "'pytorch' has no gain"),
        ({"name": "mup", "optimizer": "lamb"}, "`optimizer` must be 'sgd' or 'adam', got 'lamb'"),
        ({"name": "ntk", "optimizer": "adam"}, "'ntk' is the same for every optimizer. Use 'mup'"),
    ],
)
def test_bad_options_are_refused_by_name(options, message):
    with pytest.raises(ValueError, match=message):
        Parametrization(**options)


@pytest.mark.parametrize("signs", [False, True])
def test_without_gain_only_the_biases_are_left(signs):
    rule = Parametrization("ntk", gain=0.0, output_signs=signs)
    net = nets.mlp([4], outputs=2, activation="tanh", parametrization=rule, bias=True)
    x = np.random.default_rng(0).normal(size=(3, 5))
    params = net.init(jax.random.key(0), x.shape)
    np.testing.assert_allclose(jax.jit(net.apply)(params, x), np.tile(params[2]["bias"], (3, 1)), rtol=1e-12)


def test_every_layer_may_have_a_rule_of_its_own():
    rules = ["ntk", Parametrization("standard", gain=2.0), "pytorch"]
    net = nets.mlp([4, 3], parametrization=rules)
    assert [part.layer.parametrization.name for part in net.parts if part.name == "dense"] == [
        "ntk",
        "standard",
        "pytorch",
    ]
    image = nets.cnn([4, 3], parametrization=rules, padding="CIRCULAR")
    assert [part.layer.parametrization.name for part in image.parts if hasattr(part.layer, "parametrization")] == [
        "ntk", "standard", "pytorch"
    ]  # fmt: skip
    assert image.parts[0].layer.padding == "CIRCULAR"
    with pytest.raises(ValueError, match="mlp: `parametrization` must be one rule or one for each of 3 layers, got 2"):
        nets.mlp([4, 3], parametrization=rules[:2])


def test_mup_for_sgd_asks_for_the_neurons_of_a_layer():
    rule = Parametrization("mup")
    for draw in (rule.weight, rule.bias):
        with pytest.raises(ValueError, match=r"'mup' for SGD depends on the neurons of a layer\. Pass `fan_out`"):
            draw(9)
        draw(9, last=True)
    assert Parametrization("mup", optimizer="adam").weight(9).scale == 1 / 9


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("bias", [False, True])
def test_a_step_of_mup_is_one_with_step_sizes_for_every_tensor(optimizer, bias):
    """Weights with the variances of the standard network, and step sizes k/m (SGD) or 1/m (Adam) a tensor."""
    x, y = np.random.default_rng(0).normal(size=(4, 5)), np.array([1.0, -1.0, 0.5, 0.2])
    rule, power = Parametrization("mup", optimizer=optimizer), 2 if optimizer == "sgd" else 1
    net, plain = (nets.mlp([6, 8], activation="tanh", parametrization=r, bias=bias) for r in (rule, "standard"))
    params = net.init(jax.random.key(1), x.shape)

    @functools.partial(jax.jit, static_argnums=0)
    def slopes(one, params):
        found = jax.grad(lambda p: jnp.mean((one.apply(p, x) - y) ** 2))(params)
        return found if optimizer == "sgd" else jax.tree.map(jnp.sign, found)

    params = jax.tree.map(np.asarray, params)
    after = jax.tree.map(lambda p, g: p - 0.1 * np.asarray(g), params, slopes(net, params))
    scales = list(params)
    for at, m, k in ((0, 5, 6), (2, 6, 8), (4, 8, 1)):
        weight, shift = (draw(m, k, last=at == 4).scale for draw in (rule.weight, rule.bias))
        scales[at] = {name: {"weight": weight, "bias": shift}[name] for name in params[at]}
        steps = (k / m, k) if optimizer == "sgd" else (1 / m, 1.0)
        np.testing.assert_allclose((weight**power, shift**power), steps, rtol=1e-12)
    scales = tuple(scales)
    same = jax.tree.map(np.multiply, params, scales)
    of_plain, of_net = jax.jit(plain.apply), jax.jit(net.apply)
    np.testing.assert_allclose(of_plain(same, x), of_net(params, x), rtol=1e-12)
    moved = jax.tree.map(lambda p, s, g: p - 0.1 * s**power * np.asarray(g), same, scales, slopes(plain, same))
    np.testing.assert_allclose(of_plain(moved, x), of_net(after, x), rtol=1e-12)


def test_a_transformer_in_mup_divides_scores_by_the_size_of_a_head():
    for name, scaling in (("mup", "linear"), ("ntk", "root")):
        net = nets.vit(blocks=1, dim=8, heads=2, parametrization=name)
        assert net.parts[3].parts[0].parts[1].layer.scaling == scaling
