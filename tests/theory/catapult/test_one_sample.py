"""The one-sample map against gradient descent on the model itself, and against its own factorisations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secant.theory.catapult import one_sample as ct
from secant.theory.regression.quadratic_model import (
    TwoLayer,
    gated_bilinear,
    gated_curvature,
    gates,
    imbalance,
    two_layer,
    two_layer_init,
)

WIDTH, DIM = 24, 3
ROUNDINGS = 32
"""Rounding errors a step may add up, where sums of 24 terms are made in pairs."""

residuals = st.floats(-2.5, 2.5)
curvatures = st.floats(0.0, 6.0)
targets = st.floats(-1.9, 1.9)


@jax.jit
def descend(params, on, x, y, lr):
    """Twenty steps of gradient descent by autodiff; output, curvature and imbalance before each."""

    def loss(p):
        return (gated_bilinear(p, on, x) - y) ** 2 / 2

    def step(p, _):
        record = gated_bilinear(p, on, x), gated_curvature(p, on, x), imbalance(p, on, x)
        return jax.tree.map(lambda w, g: w - lr * g, p, jax.grad(loss)(p)), record

    return jax.lax.scan(step, params, length=20)[1]


@jax.jit
def model(seed):
    """A random model, with its output and curvature."""
    init, data = jax.random.split(jax.random.key(seed))
    x = jax.random.normal(data, (DIM,))
    params = two_layer_init(init, WIDTH, DIM)
    on = gates(params.u, x)
    return params, on, x, gated_bilinear(params, on, x), gated_curvature(params, on, x)


@jax.jit
def stepped(outputs, curvatures, lr, y, size):
    """One step of the map from each of several points."""
    system = ct.catapult(lr, WIDTH, y, size)
    return ct.unscale(system.step(system.init((outputs, curvatures))), lr, WIDTH, y, size)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.floats(-1.5, 1.5), st.floats(0.1, 3.8))
def test_the_map_is_gradient_descent_on_the_quadratic_model(seed, y, ratio):
    params, on, x, _, curvature = model(seed)
    size = float(np.sum(np.asarray(x) ** 2)) / DIM
    lr = ratio / float(curvature)
    outputs, curvatures, _ = (np.asarray(record) for record in descend(params, on, x, y, lr))
    # One step from each point of the descent: over twenty, a rounding error grows with the orbit.
    after = stepped(outputs[:-1], curvatures[:-1], lr, y, size)
    kept = 1 + np.argmin(np.append(np.abs(outputs) < 1e6, False))  # a run that diverges, until it has
    outputs, curvatures = outputs[:kept], curvatures[:kept]
    # The largest terms of the sums behind an output and a curvature; a step multiplies weights by up to 1 + |a|.
    e = np.sqrt(size / WIDTH)
    a, b = lr * e * np.abs(outputs - y), lr * e * abs(y)
    terms = {
        "output": abs(y) + curvatures * (1 + a) ** 2 / (2 * e),
        "curvature": curvatures * (1 + a) ** 2 + 4 * a * (a + b) / lr,
    }
    for name, found, exact in zip(terms, after, (outputs, curvatures), strict=True):
        limit = ROUNDINGS * np.finfo(float).eps * terms[name][:-1]
        assert (np.abs(np.asarray(found)[: kept - 1] - exact[1:]) < limit).all(), name


def test_the_gated_model_is_the_taylor_polynomial_of_the_network():
    params, on, x, *_ = model(3)
    move = jax.tree.map(lambda p: np.cos(np.arange(p.size)).reshape(p.shape), params)

    def f(p):
        return two_layer(p, x)

    def first(p):
        return jax.jvp(f, (p,), (move,))[1]

    @jax.jit
    def both(params):
        taylor = f(params) + first(params) + jax.jvp(first, (params,), (move,))[1] / 2
        return gated_bilinear(jax.tree.map(jnp.add, params, move), on, x), taylor

    found, taylor = both(params)
    np.testing.assert_allclose(found, taylor, atol=1e-13)


def test_its_curvature_is_the_squared_gradient():
    params, on, x, _, curvature = model(5)
    gradient = jax.tree.map(np.asarray, jax.jit(jax.grad(gated_bilinear))(params, on, x))
    total = sum(np.sum(g**2) for g in jax.tree.leaves(gradient))
    np.testing.assert_allclose(curvature, total, rtol=1e-13)
    difference = np.sum(gradient.u**2) - np.sum(gradient.v**2)
    np.testing.assert_allclose(imbalance(params, on, x), difference, rtol=1e-12)


@settings(max_examples=60, deadline=None)
@given(residuals, curvatures, targets)
def test_the_separatrix_is_multiplied(a, v, b):
    after = ct.step(a, v, b)
    expected = ct.separatrix_factor(a, b) * ct.separatrix(a, v, b)
    np.testing.assert_allclose(ct.separatrix(after.a, after.v, b), expected, atol=1e-11)
    assert ct.separatrix_factor(a, b) > 0


@settings(max_examples=60, deadline=None)
@given(residuals, curvatures, targets)
def test_the_edges_are_multiplied_and_stay_feasible(a, v, b):
    plus, minus = ct.edges(a, v, b)
    after = ct.step(a, v, b)
    np.testing.assert_allclose(ct.edges(after.a, after.v, b), ((1 - a) ** 2 * plus, (1 + a) ** 2 * minus), atol=1e-11)


@settings(max_examples=60, deadline=None)
@given(residuals, curvatures, targets)
def test_squares_and_signed_map_agree(a, v, b):
    state = ct.squares_catapult().step(ct.squares(ct.Catapult(jnp.asarray(a), jnp.asarray(v)), b))
    np.testing.assert_allclose(state, ct.squares(ct.step(a, v, b), b), atol=1e-10)


@settings(max_examples=60, deadline=None)
@given(residuals, curvatures, targets)
def test_confinement_bounds_the_residual_and_is_kept(a, v, b):
    if bool(ct.confined(a, v, b)):
        assert abs(a) < 2
        after = ct.step(a, v, b)
        # rounding may put a state on the rim just outside
        assert ct.separatrix(after.a, after.v, b) < 1e-12
        assert after.v - 2 * abs(after.a + b) > -1e-12


def test_the_imbalance_is_multiplied_and_its_ratio_to_the_edges_conserved():
    params, on, x, _, curvature = model(11)
    y, size = 0.7, float(np.sum(np.asarray(x) ** 2)) / DIM
    lr = 2.7 / float(curvature)
    outputs, curvatures, differences = map(np.asarray, descend(params, on, x, y, lr))
    states = ct.rescale(outputs, curvatures, lr, WIDTH, y, size)
    np.testing.assert_allclose(differences[1:], ct.imbalance_factor(states.a[:-1]) * differences[:-1], atol=1e-12)
    plus, minus = ct.edges(states.a, states.v, ct.rescaled_target(lr, WIDTH, y, size))
    ratio = (lr * differences) ** 2 / (plus * minus)
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-9)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.floats(-3, 3))
def test_the_maximal_step_separates_convergence_from_divergence(seed, y):
    *_, x, output, curvature = model(seed)
    size, output, curvature = float(np.sum(np.asarray(x) ** 2)) / DIM, float(output), float(curvature)
    limit = float(ct.max_step(output, curvature, WIDTH, y, size))
    assert np.isfinite(limit)
    assert abs(float(ct.rescaled_target(limit, WIDTH, y, size))) <= 2 + 1e-12
    for factor, sign in ((1 - 1e-9, -1), (1 + 1e-9, 1)):
        state = ct.rescale(output, curvature, factor * limit, WIDTH, y, size)
        b = ct.rescaled_target(factor * limit, WIDTH, y, size)
        assert np.sign(ct.separatrix(state.a, state.v, b)) == sign


def test_bisection_finds_the_maximal_step():
    output, curvature, width, y = 0.6, 1.1, 50, -0.8

    @jax.jit
    def diverges(lr):
        system = ct.catapult(lr, width, y)
        final = jax.lax.fori_loop(0, 3000, lambda _, s: system.step(s), system.init((output, curvature)))
        return ~(jnp.abs(final.a) < 10)

    low, high = 2.5, 5.0
    for _ in range(26):
        middle = (low + high) / 2
        low, high = (low, middle) if bool(diverges(middle)) else (middle, high)
    np.testing.assert_allclose(low, ct.max_step(output, curvature, width, y), rtol=1e-6)


def test_on_the_separatrix_the_residual_is_a_chebyshev_orbit():
    a, b = jnp.asarray(1.3), 0.4
    orbit = ct.separatrix_orbit(a, 8)
    state = ct.Catapult(a, 4 + a * b)
    for expected in orbit:
        np.testing.assert_allclose(state.a, expected, atol=1e-9)
        state = ct.step(state.a, state.v, b)


def test_the_transverse_exponent_is_the_arcsine_average():
    angles = (np.arange(4000) + 0.5) * np.pi / 4000
    average = np.mean(np.log1p(4 * np.cos(angles) ** 2))
    np.testing.assert_allclose(ct.transverse_exponent(), average, atol=1e-12)


@pytest.mark.parametrize("b", [0.0, 0.3, -1.1])
def test_equilibria_return_and_have_the_stated_multipliers(b):
    for point in ct.equilibria(b):
        state = ct.Catapult(jnp.asarray(point.a), jnp.asarray(point.v))
        derivative = np.eye(2)
        for _ in range(point.period):
            derivative = np.asarray(ct.jacobian(state.a, state.v, b)) @ derivative
            state = ct.step(state.a, state.v, b)
        np.testing.assert_allclose((state.a, state.v), (point.a, point.v), atol=1e-12)
        eigenvalues = np.sort(np.linalg.eigvals(np.asarray(derivative)).real)
        np.testing.assert_allclose(eigenvalues, np.sort(point.multipliers), atol=1e-6)
        assert max(map(abs, point.multipliers)) > 1 or b == 0


def test_jacobian_is_the_derivative():
    def move(s):
        return jnp.stack(ct.step(s[0], s[1], 0.4))

    point = jnp.array([0.3, 2.2])
    np.testing.assert_allclose(ct.jacobian(point[0], point[1], 0.4), jax.jit(jax.jacobian(move))(point), atol=1e-14)


def test_conversions_invert_each_other():
    state = ct.rescale(0.4, 1.3, 2.0, 64, -0.5, 1.7)
    np.testing.assert_allclose(ct.unscale(state, 2.0, 64, -0.5, 1.7), (0.4, 1.3), atol=1e-14)
    np.testing.assert_allclose(ct.loss_from_square(state.a**2, 2.0, 64, 1.7), 0.9**2 / 2, atol=1e-14)
    assert isinstance(two_layer_init(jax.random.key(0), 4, 2), TwoLayer)
