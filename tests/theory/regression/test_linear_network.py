"""The one-hidden-layer linear network is a quartic loss with a symmetric spectrum."""

import jax
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from secant.theory.edge import quartic
from secant.theory.regression import linear_network as net

WIDTH, INPUTS = 5, 7


def start(seed):
    rng = np.random.default_rng(seed)
    return rng.normal(size=WIDTH * (INPUTS + 1)), rng.normal(size=INPUTS)


@jax.jit
def spectral(x):
    """The second derivative, its spectrum, and eigenvectors of both signs."""
    vectors = (net.eigenvectors(x, WIDTH, 1), net.eigenvectors(x, WIDTH, -1))
    return net.second_derivative(x[None], WIDTH)[0], net.spectrum(x, WIDTH), vectors


@jax.jit
def at(theta, x):
    """The output, its gradient, and the weights of the two modes."""
    value, gradient = jax.value_and_grad(lambda t: net.output(t, x, WIDTH))(theta)
    return value, gradient, net.mode_weights(theta, x, WIDTH)


def test_the_second_derivative_is_constant_and_correct():
    theta, x = start(0)
    hessian = jax.jit(jax.hessian(net.output), static_argnums=2)(theta, x, WIDTH)
    np.testing.assert_allclose(spectral(x)[0], hessian, atol=1e-12)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**31 - 1))
def test_the_spectrum_is_plus_minus_the_norm_of_the_input(seed):
    _, x = start(seed)
    Q, spectrum, vectors = jax.tree.map(np.asarray, spectral(x))
    np.testing.assert_allclose(np.linalg.eigvalsh(Q), spectrum, atol=1e-11)
    counts = np.unique(np.sign(np.round(spectrum, 9)), return_counts=True)[1]
    assert counts.tolist() == [5, 30, 5]
    for sign, V in zip((1, -1), vectors, strict=True):
        np.testing.assert_allclose(V @ Q, sign * np.linalg.norm(x) * V, atol=1e-11)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**31 - 1))
def test_the_jacobian_has_no_weight_on_the_zero_modes(seed):
    theta, x = start(seed)
    output, J, (plus, minus) = jax.tree.map(np.asarray, at(theta, x))
    np.testing.assert_allclose(plus + minus, J @ J, rtol=1e-12)
    np.testing.assert_allclose((plus - minus) / np.linalg.norm(x), 2 * output, rtol=1e-9)


def test_the_offset_is_twice_the_target():
    theta, x = start(3)
    target = 0.7
    output, _, (plus, minus) = jax.tree.map(np.asarray, at(theta, x))
    residual = jax.jit(quartic.residual)(theta, spectral(x)[0], net.offset(target))
    np.testing.assert_allclose(residual, output - target, atol=1e-12)
    invariant = (plus - minus) / np.linalg.norm(x) - 2 * (output - target)
    np.testing.assert_allclose(invariant, 1.4, atol=1e-12)
