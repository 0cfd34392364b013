"""The one-hidden-layer linear network is a quartic loss with a symmetric spectrum."""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from secant.theory import linear_network as net
from secant.theory import quartic

WIDTH, INPUTS = 5, 7


def start(seed):
    rng = np.random.default_rng(seed)
    return jnp.array(rng.normal(size=WIDTH * (INPUTS + 1))), jnp.array(rng.normal(size=INPUTS))


def test_the_second_derivative_is_constant_and_correct():
    theta, x = start(0)
    hessian = jax.jit(jax.hessian(lambda t: net.output(t, x, WIDTH)))(theta)
    np.testing.assert_allclose(net.second_derivative(x[None], WIDTH)[0], hessian, atol=1e-12)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**31 - 1))
def test_the_spectrum_is_plus_minus_the_norm_of_the_input(seed):
    _, x = start(seed)
    Q = net.second_derivative(x[None], WIDTH)[0]
    np.testing.assert_allclose(np.linalg.eigvalsh(Q), net.spectrum(x, WIDTH), atol=1e-11)
    counts = np.unique(np.sign(np.round(net.spectrum(x, WIDTH), 9)), return_counts=True)[1]
    assert counts.tolist() == [5, 30, 5]
    for sign in (1, -1):
        V = net.eigenvectors(x, WIDTH, sign)
        np.testing.assert_allclose(V @ Q, sign * np.linalg.norm(x) * V, atol=1e-11)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**31 - 1))
def test_the_jacobian_has_no_weight_on_the_zero_modes(seed):
    theta, x = start(seed)
    J = jax.grad(lambda t: net.output(t, x, WIDTH))(theta)
    plus, minus = net.mode_weights(theta, x, WIDTH)
    np.testing.assert_allclose(plus + minus, J @ J, rtol=1e-12)
    np.testing.assert_allclose((plus - minus) / jnp.linalg.norm(x), 2 * net.output(theta, x, WIDTH), rtol=1e-9)


def test_the_offset_is_twice_the_target():
    theta, x = start(3)
    target = 0.7
    Q = net.second_derivative(x[None], WIDTH)[0]
    np.testing.assert_allclose(
        quartic.residual(theta, Q, net.offset(target)), net.output(theta, x, WIDTH) - target, atol=1e-12
    )
    plus, minus = net.mode_weights(theta, x, WIDTH)
    invariant = (plus - minus) / jnp.linalg.norm(x) - 2 * (net.output(theta, x, WIDTH) - target)
    np.testing.assert_allclose(invariant, 1.4, atol=1e-12)
