"""Exact one-step updates of quadratic models, against autodiff."""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from secant.theory.catapult import one_sample as ct
from secant.theory.regression import quadratic_model as qm

N, P = 4, 7


@jax.jit
def one_step(w, features, second, y, lr):
    def outputs(p):
        return qm.quadratic_output(p, features, second, 0.3)

    gradient = jax.grad(lambda p: jnp.sum((outputs(p) - y) ** 2) / 2)(w)
    after = w - lr * gradient
    return outputs(w) - y, jax.jacobian(outputs)(w), outputs(after) - y, jax.jacobian(outputs)(after)


@jax.jit
def predicted(w, features, second, r, J, lr):
    """Jacobian, and residuals and kernel a step later, by their formulas."""
    G = qm.pull(r, J, 0.3 * second)
    return (
        qm.quadratic_jacobian(w, features, second, 0.3),
        qm.residual_update(r, J, G, lr),
        qm.kernel_update(J, G, lr),
    )


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.01, 1.0))
def test_residual_and_kernel_updates_are_exact(seed, lr):
    normal = np.random.default_rng(seed).normal
    features, w, y, second = normal(size=(N, P)), normal(size=P), normal(size=N), normal(size=(N, P, P))
    second = second + np.swapaxes(second, 1, 2)
    r, J, r_after, J_after = map(np.asarray, one_step(w, features, second, y, lr))
    jacobian, residuals, kernel = predicted(w, features, second, r, J, lr)
    np.testing.assert_allclose(jacobian, J, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(residuals, r_after, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(kernel, J_after @ J_after.T, rtol=1e-9, atol=1e-8)


def test_the_linear_network_is_a_quadratic_model_without_linear_part():
    m, d = 5, 3
    normal = np.random.default_rng(0).normal
    u, v, x = normal(size=(m, d)), normal(size=m), normal(size=d)
    w = np.concatenate([u.ravel(), v])

    @jax.jit
    def both(u, v, x, w):
        sigma = qm.linear_network_matrix(x, m)
        g = qm.quadratic_output(w, jnp.zeros((1, w.size)), sigma[None], 1 / np.sqrt(m))[0]
        return sigma, g, qm.linear_network(u, v, x)

    sigma, g, expected = map(np.asarray, both(u, v, x, w))
    np.testing.assert_allclose(g, expected, atol=1e-13)
    np.testing.assert_allclose(sigma @ sigma @ sigma, (x @ x) * sigma, atol=1e-12)
    assert np.abs(sigma @ sigma - (x @ x) * np.eye(m * d + m)).max() > 0.1


@jax.jit
def followed(u, v, x, ratio):
    """Ten steps: output and curvature by the homogeneous map, by the rescaled one, and of the descent."""
    m = len(v)

    def f(p):
        return qm.linear_network(p[0], p[1], x)

    def seen(p):
        return f(p), sum(jnp.sum(g**2) for g in jax.grad(f)(p))

    params = (u, v)
    lr = ratio / seen(params)[1]
    system, rescaled = qm.homogeneous_catapult(lr, m**-0.5, x @ x), ct.catapult(lr, m, 0.0, x @ x)

    def step(carry, _):
        params, state, twin = carry
        slope = jax.grad(lambda p: f(p) ** 2 / 2)(params)
        params = jax.tree.map(lambda w, g: w - lr * g, params, slope)
        state, twin = system.step(state), rescaled.step(twin)
        found = tuple(state), tuple(ct.unscale(twin, lr, m, 0.0, x @ x)), seen(params)
        return (params, state, twin), jnp.array(found)

    begin = params, system.init(seen(params)), rescaled.init(seen(params))
    return jax.lax.scan(step, begin, length=10)[1]


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 1000), st.floats(0.5, 3.8))
def test_the_homogeneous_map_is_gradient_descent_on_the_linear_network(seed, ratio):
    m, d = 8, 3
    normal = np.random.default_rng(seed).normal
    for state, twin, descended in np.asarray(followed(normal(size=(m, d)), normal(size=m), normal(size=d), ratio)):
        np.testing.assert_allclose(state, descended, rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(twin, state, rtol=1e-8, atol=1e-9)


def test_network_and_gated_model_agree_at_initialisation():
    params = qm.two_layer_init(jax.random.key(1), 16, 4)
    x = jax.random.normal(jax.random.key(2), (5, 4))
    np.testing.assert_allclose(qm.gated_bilinear(params, qm.gates(params.u, x), x), qm.two_layer(params, x), atol=1e-14)
    assert set(np.unique(params.v)) == {-1.0, 1.0}
