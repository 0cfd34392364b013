"""Exact one-step updates of quadratic models, against autodiff."""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from secant.theory import catapult as ct
from secant.theory import quadratic_model as qm

N, P = 4, 7


@jax.jit
def one_step(w, features, second, y, lr):
    def outputs(p):
        return qm.quadratic_output(p, features, second, 0.3)

    gradient = jax.grad(lambda p: jnp.sum((outputs(p) - y) ** 2) / 2)(w)
    after = w - lr * gradient
    return outputs(w) - y, jax.jacobian(outputs)(w), outputs(after) - y, jax.jacobian(outputs)(after)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.01, 1.0))
def test_residual_and_kernel_updates_are_exact(seed, lr):
    keys = jax.random.split(jax.random.key(seed), 4)
    features, w = jax.random.normal(keys[0], (N, P)), jax.random.normal(keys[1], (P,))
    second = jax.random.normal(keys[2], (N, P, P))
    second = second + jnp.swapaxes(second, 1, 2)
    y = jax.random.normal(keys[3], (N,))
    r, J, r_after, J_after = one_step(w, features, second, y, lr)
    np.testing.assert_allclose(qm.quadratic_jacobian(w, features, second, 0.3), J, rtol=1e-11, atol=1e-11)
    G = qm.pull(r, J, 0.3 * second)
    np.testing.assert_allclose(qm.residual_update(r, J, G, lr), r_after, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(qm.kernel_update(J, G, lr), J_after @ J_after.T, rtol=1e-9, atol=1e-8)


def test_the_linear_network_is_a_quadratic_model_without_linear_part():
    m, d = 5, 3
    keys = jax.random.split(jax.random.key(0), 3)
    u, v, x = (jax.random.normal(k, s) for k, s in zip(keys, ((m, d), (m,), (d,)), strict=True))
    sigma = qm.linear_network_matrix(x, m)
    w = jnp.concatenate([u.ravel(), v])
    g = qm.quadratic_output(w, jnp.zeros((1, w.size)), sigma[None], 1 / np.sqrt(m))[0]
    np.testing.assert_allclose(g, qm.linear_network(u, v, x), atol=1e-13)
    np.testing.assert_allclose(sigma @ sigma @ sigma, (x @ x) * sigma, atol=1e-12)
    assert float(jnp.max(jnp.abs(sigma @ sigma - (x @ x) * jnp.eye(m * d + m)))) > 0.1


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 1000), st.floats(0.5, 3.8))
def test_the_homogeneous_map_is_gradient_descent_on_the_linear_network(seed, ratio):
    m, d = 8, 3
    keys = jax.random.split(jax.random.key(seed), 3)
    u, v, x = (jax.random.normal(k, s) for k, s in zip(keys, ((m, d), (m,), (d,)), strict=True))

    def f(p):
        return qm.linear_network(p[0], p[1], x)

    def curvature(p):
        return sum(jnp.sum(g**2) for g in jax.grad(f)(p))

    params = (u, v)
    lr = ratio / curvature(params)
    system = qm.homogeneous_catapult(lr, m**-0.5, x @ x)
    state = system.init((f(params), curvature(params)))
    rescaled = ct.catapult(lr, m, 0.0, x @ x)
    twin = rescaled.init((f(params), curvature(params)))
    for _ in range(10):
        slope = jax.grad(lambda p: f(p) ** 2 / 2)(params)
        params = jax.tree.map(lambda w, g: w - lr * g, params, slope)
        state, twin = system.step(state), rescaled.step(twin)
        np.testing.assert_allclose(state, (f(params), curvature(params)), rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(ct.unscale(twin, lr, m, 0.0, x @ x), state, rtol=1e-8, atol=1e-9)


def test_network_and_gated_model_agree_at_initialisation():
    params = qm.two_layer_init(jax.random.key(1), 16, 4)
    x = jax.random.normal(jax.random.key(2), (5, 4))
    np.testing.assert_allclose(qm.gated_bilinear(params, qm.gates(params.u, x), x), qm.two_layer(params, x), atol=1e-14)
    assert set(np.unique(params.v)) == {-1.0, 1.0}
