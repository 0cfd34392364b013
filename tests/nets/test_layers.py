"""Each layer is its formula."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secant import nets


def draw(net, shape, seed=0):
    """Inputs, parameters and outputs, by one compiled program."""
    x = np.random.default_rng(seed).normal(size=shape)
    params = jax.tree.map(np.asarray, net.init(jax.random.key(seed), shape))
    return x, params, np.asarray(jax.jit(net.apply)(params, x))


def convolve(x, weight, strides, padding):
    """A convolution by loops over positions and window."""
    *window, _, out = weight.shape
    sizes = x.shape[1:-1]
    if padding != "VALID":
        places = [-(-size // strides) for size in sizes]
        total = [max((p - 1) * strides + w - size, 0) for p, w, size in zip(places, window, sizes, strict=True)]
        around = [(0, 0), *((t // 2, t - t // 2) for t in total), (0, 0)]
        x = np.pad(x, around, mode="wrap" if padding == "CIRCULAR" else "constant")
    else:
        places = [-(-(size - w + 1) // strides) for size, w in zip(sizes, window, strict=True)]
    z = np.zeros((len(x), *places, out))
    for place in itertools.product(*map(range, places)):
        for delta in itertools.product(*map(range, window)):
            read = tuple(strides * p + d for p, d in zip(place, delta, strict=True))
            z[(slice(None), *place)] += x[(slice(None), *read)] @ weight[delta]
    return z


@pytest.mark.parametrize("padding", ["SAME", "VALID", "CIRCULAR"])
@pytest.mark.parametrize("strides", [1, 2])
@pytest.mark.parametrize(("shape", "window"), [((2, 6, 3), (3,)), ((2, 5, 4, 2), (3, 2))])
def test_a_convolution_is_a_sum_over_its_window(shape, window, strides, padding):
    net = nets.conv(4, window, strides=strides, padding=padding, bias=True)
    x, params, z = draw(net, shape)
    weight = np.asarray(params["weight"])
    expected = convolve(x, weight, strides, padding) / np.sqrt(weight[..., 0].size) + np.asarray(params["bias"])
    assert net.output_shape(shape) == expected.shape
    np.testing.assert_allclose(z, expected, rtol=1e-12, atol=1e-13)


def test_single_and_double_precision_meet():
    for net, shape in ((nets.conv(2), (1, 4, 4, 3)), (nets.dense(2, bias=True), (1, 3)), (nets.attention(), (1, 2, 3))):
        params = jax.eval_shape(lambda key, net=net, shape=shape: net.init(key, shape), jax.random.key(0))
        assert jax.eval_shape(net.apply, params, jax.ShapeDtypeStruct(shape, jnp.float32)).dtype == jnp.float64


def test_a_number_stands_for_a_square_window():
    assert nets.conv(4, 3).layer.window == (3, 3)
    assert nets.conv(4, 5).init(jax.random.key(0), (1, 8, 8, 2))["weight"].shape == (5, 5, 2, 4)


@given(
    size=st.integers(1, 3), strides=st.none() | st.integers(1, 2), shape=st.tuples(st.integers(3, 6), st.integers(3, 5))
)
@settings(max_examples=10, deadline=None)
def test_average_pools_are_means_over_windows(size, strides, shape):
    net = nets.average_pool(size, strides=strides)
    x, _, z = draw(net, (2, *shape, 3))
    step = size if strides is None else strides
    rows, columns = (range(0, length - size + 1, step) for length in shape)
    expected = [[x[:, i : i + size, j : j + size].mean(axis=(1, 2)) for j in columns] for i in rows]
    np.testing.assert_allclose(z, np.moveaxis(expected, 2, 0), rtol=1e-12)
    assert net.output_shape(x.shape) == z.shape


@pytest.mark.parametrize("padding", ["SAME", "CIRCULAR"])
@pytest.mark.parametrize("strides", [None, 1])
def test_padded_pools_are_convolutions_with_equal_weights(padding, strides):
    net = nets.average_pool(3, strides=strides, padding=padding)
    x, _, z = draw(net, (2, 5, 4, 2))
    weight = np.einsum("ab,io->abio", np.ones((3, 3)), np.eye(2)) / 9
    np.testing.assert_allclose(z, convolve(x, weight, strides or 3, padding), rtol=1e-12)
    assert net.output_shape(x.shape) == z.shape


def test_a_circular_convolution_moves_with_its_image():
    net = nets.conv(3, padding="CIRCULAR")
    x, params, z = draw(net, (2, 5, 4, 2))
    moved = jax.jit(net.apply)(params, np.roll(x, 2, axis=1))
    np.testing.assert_allclose(moved, np.roll(z, 2, axis=1), rtol=1e-11, atol=1e-13)


def test_the_global_pool_is_the_mean_over_positions():
    x, _, z = draw(nets.global_average_pool(), (2, 3, 4, 5))
    np.testing.assert_allclose(z, x.mean(axis=(1, 2)), rtol=1e-12)
    x, _, z = draw(nets.global_average_pool(), (2, 3, 5))
    np.testing.assert_allclose(z, x.mean(axis=1), rtol=1e-12)


@pytest.mark.parametrize(("over", "axes"), [("features", -1), ("sample", (1, 2))])
def test_a_layer_norm_has_mean_zero_and_variance_one(over, axes):
    x, params, z = draw(nets.layer_norm(over=over, epsilon=1e-3), (3, 4, 5))
    expected = (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-3)
    np.testing.assert_allclose(z, expected, rtol=1e-12, atol=1e-14)
    moved = {"gain": params["gain"] * 2, "shift": params["shift"] + 3}
    again = jax.jit(nets.layer_norm(over=over, epsilon=1e-3).apply)(moved, x)
    np.testing.assert_allclose(again, 2 * expected + 3, rtol=1e-12)


def test_a_layer_norm_may_have_no_parameters():
    assert nets.layer_norm(gain=False, shift=False).init(jax.random.key(0), (1, 3)) == ()
    assert set(nets.layer_norm(shift=False).init(jax.random.key(0), (1, 3))) == {"gain"}


def test_a_layer_norm_of_equal_entries_has_finite_gradients():
    gradient = jax.jit(jax.grad(lambda x: jnp.sum(jnp.sin(nets.layer_norm(gain=False, shift=False).apply((), x)))))
    assert np.all(np.isfinite(gradient(np.ones((2, 3)))))


def test_attention_is_a_weighted_mean_of_values():
    net = nets.attention(heads=2, features=6, bias=True)
    x, params, z = draw(net, (2, 5, 4))

    def project(role, a):
        return a @ params[role]["weight"] / np.sqrt(a.shape[-1]) + params[role]["bias"]

    query, key, value = (project(role, x) for role in ("query", "key", "value"))
    mixed = np.zeros((2, 5, 6))
    for n, head, t in itertools.product(range(2), range(2), range(5)):
        own = slice(3 * head, 3 * head + 3)
        weights = np.exp([query[n, t, own] @ key[n, s, own] / np.sqrt(3) for s in range(5)])
        mixed[n, t, own] = weights / weights.sum() @ value[n, :, own]
    np.testing.assert_allclose(z, project("output", mixed), rtol=1e-11, atol=1e-13)


def test_attention_without_softmax_is_linear_in_its_scores():
    net = nets.attention(heads=2, features=6, scores="identity", scaling="linear")
    x, params, z = draw(net, (2, 5, 4))
    query, key, value = (x @ params[role]["weight"] / 2 for role in ("query", "key", "value"))
    heads = [slice(0, 3), slice(3, 6)]
    mixed = [np.einsum("ntd,nsd->nts", query[..., h], key[..., h]) / 3 @ value[..., h] for h in heads]
    np.testing.assert_allclose(z, np.concatenate(mixed, -1) @ params["output"]["weight"] / np.sqrt(6), rtol=1e-11)


def test_attention_does_not_mind_the_order_of_tokens_and_positions_do():
    net = nets.attention(heads=1)
    x, params, z = draw(net, (2, 5, 4))
    np.testing.assert_allclose(jax.jit(net.apply)(params, x[:, ::-1]), z[:, ::-1], rtol=1e-11, atol=1e-13)
    x, params, z = draw(nets.positions(), (2, 5, 4))
    np.testing.assert_allclose(z - x, np.broadcast_to(params["table"], x.shape), rtol=1e-12)


def test_patches_are_pieces_of_the_image():
    x, _, tokens = draw(nets.patches(2), (2, 4, 6, 3))
    assert tokens.shape == (2, 6, 12) == nets.patches(2).output_shape(x.shape)
    np.testing.assert_array_equal(tokens[1, 4].reshape(2, 2, 3), x[1, 2:4, 2:4])


def test_flatten_and_scalar_only_reshape():
    x, _, z = draw(nets.flatten(), (2, 3, 4))
    np.testing.assert_array_equal(z, x.reshape(2, 12))
    x, _, z = draw(nets.scalar(), (5, 1))
    np.testing.assert_array_equal(z, x[:, 0])


@pytest.mark.parametrize(
    ("layer", "shape", "message"),
    [
        (lambda: nets.scalar(), (4, 2), r"scalar: takes one output a sample"),
        (lambda: nets.conv(3), (4, 5), r"conv.output_shape: inputs must have shape \(samples, height, width"),
        (lambda: nets.conv(3, (3,)), (4, 5, 5, 1), r"inputs must have shape \(samples, length, channels\)"),
        (lambda: nets.conv(3, 4, padding="VALID"), (4, 3, 3, 1), r"window \(4, 4\) does not fit"),
        (lambda: nets.conv(3, padding="same"), None, "`padding` must be 'SAME', 'VALID' or 'CIRCULAR', got 'same'"),
        (lambda: nets.serial(nets.flatten(), nets.conv(3)), (4, 3, 3, 1), r"conv: with window \(3, 3\) one sample"),
        (lambda: nets.average_pool(4), (4, 3, 3, 1), r"window \(4, 4\) does not fit"),
        (lambda: nets.attention(2), (4, 3), r"must have shape \(samples, length, channels\)"),
        (lambda: nets.serial(nets.flatten(), nets.attention(2)), (4, 3), r"\(tokens, features\), got \(3,\)"),
        (lambda: nets.average_pool(padding="same"), None, "average_pool: `padding` must be 'SAME', 'VALID' or"),
        (lambda: nets.attention(scores="relu"), None, "`scores` must be 'softmax' or 'identity', got 'relu'"),
        (lambda: nets.attention(scaling=2), None, "`scaling` must be 'root' or 'linear', got 2"),
        (lambda: nets.layer_norm(over="batch"), None, "`over` must be 'features' or 'sample', got 'batch'"),
        (lambda: nets.dense(2.0), None, "`features` must be a whole number of at least 1, got 2.0"),
    ],
)
def test_layers_refuse_what_they_cannot_take(layer, shape, message):
    with pytest.raises(ValueError, match=message):
        layer().output_shape(shape)
