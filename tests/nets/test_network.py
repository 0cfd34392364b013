"""A network refuses what it cannot take, in words, and before anything is computed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from secant import nets

MLP = nets.mlp([6, 7], activation="tanh")
CNN = nets.cnn([4])


def params_of(net, shape):
    return net.init(jax.random.key(0), shape)


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["eager", "jit"])
@pytest.mark.parametrize(
    ("net", "drawn", "given", "message"),
    [
        (
            MLP,
            (1, 784),
            np.ones((2, 3072)),
            r"mlp.apply: `x` has 3072 features per sample but the first layer of `params` takes 784. "
            r"Pass x with shape \(samples, 784\)",
        ),
        (CNN, (1, 8, 8, 3), np.ones((2, 8, 8, 1)), r"has 1 features per sample .* takes 3. .*\(samples, 8, 8, 3\)"),
        (CNN, (1, 8, 8, 3), np.ones((2, 9, 9, 3)), r"`x` has shape \(2, 9, 9, 3\), which gives the layer `dense` 324"),
        (
            nets.serial(nets.flatten(), MLP),
            (1, 2, 3),
            np.ones((2, 2, 4)),
            r"has shape \(2, 2, 4\), which has 8 features per sample where `params` takes 6",
        ),
        (MLP, (1, 4), np.ones((2, 4), int), r"must hold real floating-point numbers, got int"),
        (MLP, (1, 4), np.ones((2, 4), complex), "must hold real floating-point numbers, got complex"),
        (MLP, (1, 4), np.ones((0, 4)), r"holds no samples, its shape is \(0, 4\)"),
        (MLP, (1, 4), np.ones(4), r"must have shape \(samples, \*features\), got \(4,\).* x\[None\]"),
        (
            MLP,
            (1, 4),
            np.ones((2, 2, 2)),
            r"must have shape \(samples, features\), got \(2, 2, 2\). Put `flatten\(\)`",
        ),
        (CNN, (1, 8, 8, 3), np.ones((2, 64)), r"must have shape \(samples, height, width, channels\), got \(2, 64\)"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(net, drawn, given, message, wrap):
    with pytest.raises(ValueError, match=message):
        wrap(net.apply)(params_of(net, drawn), given)


def test_complex_parameters_are_refused():
    params = jax.tree.map(lambda w: np.asarray(w) + 0j, params_of(MLP, (1, 4)))
    with pytest.raises(ValueError, match="`params` must be real, got an array of type complex128"):
        MLP.apply(params, np.ones((2, 4)))


@pytest.mark.parametrize(
    ("shape", "options", "message"),
    [
        ((4,), {}, r"`shape` must be \(samples, \*features\)"),
        ((4, 0), {}, "features of at least 1"),
        ((4, 2, 2), {}, r"must have shape \(samples, features\)"),
        ((4, 2), {"dtype": int}, "`dtype` must be a real floating-point type"),
        ((4, 2), {"dtype": complex}, "`dtype` must be a real floating-point type"),
    ],
)
def test_shapes_that_make_no_sense_are_refused(shape, options, message):
    with pytest.raises(ValueError, match=message):
        MLP.init(jax.random.key(0), shape, **options)


def test_the_default_precision_is_the_widest_that_is_on():
    assert jax.tree.leaves(params_of(MLP, (1, 4)))[0].dtype == jnp.float64
    with jax.enable_x64(False):
        assert jax.tree.leaves(params_of(MLP, (1, 4)))[0].dtype == jnp.float32


def test_pre_activations_are_what_the_activations_get_and_the_outputs():
    x = np.random.default_rng(0).normal(size=(3, 4))
    params = jax.tree.map(np.asarray, params_of(MLP, x.shape))
    first, second, outputs = jax.device_get(jax.jit(MLP.pre_activations)(params, x))
    np.testing.assert_allclose(first, x @ params[0]["weight"] / 2, rtol=1e-12)
    np.testing.assert_allclose(second, np.tanh(first) @ params[2]["weight"] / np.sqrt(6), rtol=1e-12)
    np.testing.assert_allclose(outputs, MLP.apply(params, x), rtol=1e-12)
