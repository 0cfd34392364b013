"""Kernels of networks of infinite width: their slopes, their limits, and what is no kernel."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import secant as sc
from secant import nets
from secant.core.device import jit
from secant.nets import activations


def test_slopes_of_the_kernel_are_those_of_differences():
    net = nets.mlp([8, 8], activation="relu", bias=True)
    x, weights = (np.random.default_rng(seed).normal(size=(3, size)) for seed, size in enumerate((4, 3)))
    x[2] = x[0]  # coincident
    weights[0, 2] = weights[2, 0] = 0.0
    both = jit(
        jax.value_and_grad(lambda x, v: jnp.sum(weights * sc.kernel(net, x, variances=v).ntk), (0, 1)), quick=True
    )
    value = lambda x, v: float(both(x, v)[0])  # noqa: E731
    variances = [(1.5, 0.1), (2.0, 0.2), (1.0, 0.3)]
    slopes, by_variance = jax.tree.map(np.asarray, both(x, variances)[1])
    assert np.isfinite(slopes).all()
    for at in ((1, 2), (1, 0)):
        step = np.zeros_like(x)
        step[at] = 1e-5
        assert_allclose(slopes[at], (value(x + step, variances) - value(x - step, variances)) / 2e-5, rtol=1e-6)
    for layer, which in itertools.product(range(3), range(2)):
        sides = []
        for sign in (1, -1):
            moved = [list(pair) for pair in variances]
            moved[layer][which] += sign * 1e-5
            sides.append(value(x, [tuple(pair) for pair in moved]))
        assert_allclose(by_variance[layer][which], (sides[0] - sides[1]) / 2e-5, rtol=1e-6)


@pytest.mark.parametrize("activation", ["relu", "erf", "tanh", "gelu", "sign", "step", activations.leaky(0.1)])
@pytest.mark.parametrize("bias", [False, True])
def test_strange_inputs_have_their_limits(activation, bias):
    """Zeros, one vector, its double, its opposite, itself again; and in all of it nothing that is no number."""
    a = np.array([1.0, -2.0, 0.5])
    x = np.stack([np.zeros(3), a, 2 * a, -a, a, 1e-30 * a, 1e12 * a])
    found = jax.tree.map(np.asarray, sc.kernel(nets.mlp([8, 8], activation=activation, bias=bias), x))
    for kernel in (found.nngp, found.ntk):
        assert np.isfinite(kernel).all()
        assert_allclose(kernel[1, :], kernel[4, :], rtol=1e-14)
        assert_allclose(kernel, kernel.T, rtol=1e-14, atol=10 * float(found.error))
    if activation in ("relu", "erf") and not bias:
        assert (found.nngp[0] == 0).all()
    if activation == "erf" and not bias:  # nearly linear for small signals, however small
        assert_allclose(found.nngp[5, 5], 1e-60 * 5.25 / 3 * (4 / np.pi) ** 2, rtol=1e-12)
    if activation == "relu" and not bias:
        assert (found.ntk[0] == 0).all()
        assert_allclose(found.ntk[1, 2], 2 * found.ntk[1, 1], rtol=1e-14)


def test_a_network_without_hidden_layers():
    x = np.random.default_rng(0).normal(size=(3, 5))
    assert_allclose(sc.kernel(nets.mlp([]), x).ntk, x @ x.T / 5, rtol=1e-12)
    assert sc.kernel(nets.mlp([]), x[:1]).ntk.shape == (1, 1)


def test_bad_arguments_are_named():
    net = nets.mlp([4])
    x = np.ones((2, 3))
    for match, arguments, options in (
        ("`x1` must hold finite", (np.array([[1.0], [np.nan]]),), {}),
        ("`x1` must have shape", (x[:0],), {}),
        ("floating-point", (np.ones((2, 3), int),), {}),
        ("samples of `x2`", (x, x[:, :2]), {}),
        ("`only`", (x,), {"only": "both"}),
        ("`memory` of 7 bytes", (x,), {"memory": 7}),
    ):
        with pytest.raises(ValueError, match=match):
            sc.kernel(net, *arguments, **options)
    with pytest.raises(TypeError, match="`net` must be"):
        sc.kernel(lambda x: x, x)
    with pytest.raises(ValueError, match="positions"):
        sc.kernel(nets.conv(4), np.ones((2, 4, 4, 1)))
    with pytest.raises(ValueError, match="not finite"):
        sc.kernel(nets.mlp([4], activation=lambda z: jnp.exp(z**2)), 3 * x)
