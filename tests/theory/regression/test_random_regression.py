"""Random quadratic regression: closed forms against the dense answer, flows and Monte Carlo."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from secant.theory.regression import quadratic_regression as qr
from secant.theory.regression import random_regression as rr


def draw(key, D, P, sigma_z=1.0, sigma_J=1.0):
    tensor, start = jax.random.split(key)
    z, J = qr.random_start(start, D, P, jnp.float64)
    return qr.random_tensor(tensor, D, P, "averaged", jnp.float64), qr.Regression(sigma_z * z, sigma_J * J)


@functools.partial(jax.jit, static_argnums=(1, 2, 3))
def squares_of_a_step(seed, count, D, P):
    """Squared lengths of what a step of draws adds to their residuals: of second order, and of first."""

    def one(key):
        Q, start = draw(key, D, P)
        w = start.J.T @ start.z
        return jnp.sum((Q @ w @ w / 2) ** 2), jnp.sum((start.J @ w) ** 2)

    return jax.lax.map(one, jax.random.split(jax.random.key(seed), count), batch_size=max(1, 50_000 // (D * P * P)))


def test_eigenvalue_derivatives_are_those_of_the_flow():
    Q, start = jax.jit(functools.partial(draw, D=8, P=16, sigma_z=0.3, sigma_J=0.4))(jax.random.key(0))
    h = 2e-4

    @jax.jit
    def after(Q, start, time):
        field, dt = qr.flow_field(Q), time / 40

        def move(_, state):  # Runge and Kutta, whose error is far below that of the differences
            a = field(state)
            b = field(jax.tree.map(lambda s, k: s + dt / 2 * k, state, a))
            c = field(jax.tree.map(lambda s, k: s + dt / 2 * k, state, b))
            d = field(jax.tree.map(lambda s, k: s + dt * k, state, c))
            return jax.tree.map(lambda s, a, b, c, d: s + dt / 6 * (a + 2 * b + 2 * c + d), state, a, b, c, d)

        state = jax.lax.fori_loop(0, 40, move, start)
        return jnp.linalg.eigvalsh(state.J @ state.J.T)[-1]

    back, here, ahead = (float(after(Q, start, time)) for time in (-h, 0.0, h))
    found = jax.jit(rr.eigenvalue_derivatives)(start, Q)
    assert float(found.first) == pytest.approx((ahead - back) / (2 * h), rel=1e-5)
    assert float(found.second) == pytest.approx((ahead - 2 * here + back) / h**2, rel=1e-3)


@pytest.mark.parametrize(("convention", "over"), [("averaged", 2.0), ("goe", 2**0.5), ("independent", None)])
def test_the_mean_acceleration_is_exact(convention, over):
    """What is averaged is of second degree in the residuals and in the tensors: a sum over unit ones is its mean."""
    D, P = 3, 4
    J = jnp.asarray(np.random.default_rng(9).normal(size=(D, P)))
    units = np.eye(D * P * P).reshape(-1, D, P, P)
    # Each of them is made of independent entries of variance one.
    tensors = units if over is None else (units + np.swapaxes(units, 2, 3)) / over

    def bent(tensor, residual):
        def second(sign):
            return rr.eigenvalue_derivatives(qr.Regression(residual, J), sign * tensor).second

        return (second(1.0) + second(-1.0)) / 2  # what is odd in the tensor averages out

    mean = np.sum(jax.jit(jax.vmap(lambda tensor: jax.vmap(lambda z: bent(tensor, z))(jnp.eye(D))))(tensors))
    assert float(rr.mean_acceleration(J, 1.0, rr.VARIANCE[convention])) == pytest.approx(float(mean), rel=1e-12)


def test_the_mean_acceleration_tends_to_its_limit():
    J = np.random.default_rng(0).normal(size=(300, 30, 60))
    means = np.asarray(jax.jit(jax.vmap(lambda J: rr.mean_acceleration(J, 0.7)))(J))
    # Repulsion by the second eigenvalue has a heavy tail: the median is compared, which lies a few percent lower.
    assert np.median(means) == pytest.approx(rr.acceleration_limit(30, 60, 0.7, 1.0), rel=0.08)
    assert rr.acceleration_limit(30, 60, 0.7, 1.0) == pytest.approx(30 * 60 * 0.49 * rr.edge(30, 60))


@pytest.mark.parametrize(("D", "P"), [(20, 40), (60, 60)])
def test_the_mean_of_the_top_eigenvalue(D, P):
    J = np.random.default_rng(1).normal(size=(400, D, P))
    top = np.linalg.norm(J, 2, axis=(1, 2)) ** 2
    assert top.mean() == pytest.approx(rr.mean_top(D, P), rel=0.01)
    assert rr.mean_top(D, P) < rr.edge(D, P)


@pytest.mark.parametrize(("D", "P", "printed"), [(60, 120, 30.0), (20, 40, 10.0)])
def test_nonlinearity_ratio_is_exact(D, P, printed):
    normal, count = np.random.default_rng(0).normal, 300 if D < 40 else 20
    curved, linear = np.empty(count), np.empty(count)
    for draw in range(count):
        A, J = normal(size=(D, P, P)), normal(size=(D, P))
        Q, w = (A + np.swapaxes(A, 1, 2)) / 2, J.T @ normal(size=D)
        curved[draw], linear[draw] = np.sum((Q @ w @ w / 2) ** 2), np.sum((J @ w) ** 2)
    ratio = np.sqrt(curved.mean() / linear.mean())
    error = 0.5 * ratio * np.hypot(curved.std() / curved.mean(), linear.std() / linear.mean()) / np.sqrt(len(curved))
    assert rr.nonlinearity_ratio(D, P, 1.0) == pytest.approx(ratio, abs=4 * error)
    assert rr.nonlinearity_ratio(D, P, 1.0) < 0.9 * printed


def test_nonlinearity_ratio_of_sixty_by_a_hundred_and_twenty():
    assert rr.nonlinearity_ratio(60, 120, 1.0) == pytest.approx(25.04, abs=0.005)


@pytest.mark.parametrize(("D", "P"), [(2, 30), (8, 80), (20, 20)])
def test_how_far_draws_of_the_nonlinearity_ratio_spread(D, P):
    random, n = np.random.default_rng(5), 1_000_000
    a, b = random.chisquare(D, n), random.chisquare(P, n)  # squared lengths of z and of J'z, over that of z
    curved = (a * b) ** 2 * random.chisquare(D, n)
    linear = a * b * (b + random.chisquare(D - 1, n))
    assert np.sqrt(curved.mean() / linear.mean()) / 2 == pytest.approx(rr.nonlinearity_ratio(D, P, 1.0), rel=0.02)
    measured = (curved / curved.mean() - linear / linear.mean()).std() / 2
    assert rr.nonlinearity_spread(D, P) == pytest.approx(measured, rel=0.05)


def test_the_two_squares_of_a_step_are_products_of_chi_squares():
    # Mean, and mean square, of both, against draws of the tensors themselves.
    D, P, n = 3, 4, 20_000
    curved, linear = map(np.asarray, squares_of_a_step(0, n, D, P))
    measured = (curved / curved.mean() - linear / linear.mean()).std() / 2
    assert rr.nonlinearity_spread(D, P) == pytest.approx(measured, rel=0.25)


def eigenvalues(count, D, P, sigma_J=1.0, seed=5):
    J = sigma_J * np.random.default_rng(seed).normal(size=(count, D, P))
    return np.linalg.eigvalsh(J @ J.swapaxes(1, 2))


@pytest.mark.parametrize(("convention", "over"), [("averaged", 2.0), ("goe", 2**0.5), ("independent", None)])
def test_the_mean_square_velocity_is_exact(convention, over):
    """Of second degree in the residuals and in the tensors, as the acceleration."""
    D, P = 3, 4
    J = jnp.asarray(np.random.default_rng(9).normal(size=(D, P)))
    units = np.eye(D * P * P).reshape(-1, D, P, P)
    tensors = units if over is None else (units + np.swapaxes(units, 2, 3)) / over

    def squared(tensor, residual):
        return rr.eigenvalue_derivatives(qr.Regression(residual, J), tensor).first ** 2

    mean = np.sum(jax.jit(jax.vmap(lambda tensor: jax.vmap(lambda z: squared(tensor, z))(jnp.eye(D))))(tensors))
    values = np.linalg.eigvalsh(np.asarray(J @ J.T))
    found = rr.mean_square_velocity(values, 0.7, rr.VARIANCE[convention])
    assert found == pytest.approx(0.49 * float(mean) / (4 * values[-1]), rel=1e-12)


@pytest.mark.parametrize("variance", [0.5, 1.0, None])
@pytest.mark.parametrize("P", [2, 5])
def test_the_smooth_form_has_the_mean_of_the_one_given_the_jacobian(P, variance):
    given, smooth = rr.two_residual_acceleration(P, 0.8, 0.5, variance)
    assert given == pytest.approx(smooth, rel=1e-10)
    drawn = rr.smooth_acceleration(eigenvalues(40_000, 2, P, 0.5)[:, -1], 2, P, 0.8, 0.5, variance)
    assert abs(drawn.mean() - smooth) < 4 * drawn.std() / np.sqrt(drawn.size)


@pytest.mark.parametrize(("D", "P"), [(2, 6), (4, 3)])
def test_repulsion_and_what_replaces_it_have_the_same_mean(D, P):
    repelled, instead = rr.repulsion(eigenvalues(40_000, D, P, 0.5), P, 0.5)
    # One over the distance to the next eigenvalue has no variance: an average is as close as its largest terms allow.
    capped = np.minimum(repelled, np.quantile(repelled, 0.9999))
    assert np.mean(capped) == pytest.approx(np.mean(instead), rel=0.03)


def test_one_residual_repels_nothing():
    values = eigenvalues(3, 1, 4)
    np.testing.assert_array_equal(rr.repulsion(values, 4, 1.0)[0], 0.0)
    given = rr.acceleration_given(values, 4, 1.0, None)
    np.testing.assert_allclose(given, rr.smooth_acceleration(values[:, -1], 1, 4, 1.0, 1.0, None), rtol=1e-14)
