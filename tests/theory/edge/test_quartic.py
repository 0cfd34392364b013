"""The quartic loss in all its forms is gradient descent on the actual loss."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secant.theory.edge import quartic

seeds = st.integers(0, 2**31 - 1)


def problem(seed, size=6, lr=0.1):
    """A random symmetric Q, its spectrum, a start in the eigenbasis and an offset."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(size, size))
    Q = (A + A.T) / 2
    spectrum, basis = np.linalg.eigh(Q)
    return Q, spectrum, basis, rng.normal(size=size) / 2, rng.normal()


@jax.jit
def _descend(Q, spectrum, basis, theta, E, lr):
    """Thirty steps by autodiff, by the parameter map, by modes and by moments; all in rescaled variables."""
    by_loss = lambda t: t - lr * jax.grad(quartic.loss)(t, Q, E)  # noqa: E731
    system, modal, moments = (
        quartic.quartic(Q, lr, E),
        quartic.quartic_modes(spectrum),
        quartic.quartic_moments(spectrum),
    )
    start = quartic.modes(basis.T @ theta, spectrum, lr, E)
    powers = spectrum[None, :] ** jnp.arange(spectrum.shape[0])[:, None]
    carry = (theta, theta, start, quartic.Moments(start.z, powers @ start.J**2))

    def step(carry, _):
        a, b, c, d = carry
        carry = by_loss(a), system.step(b), modal.step(c), moments.step(d)
        return carry, (carry, quartic.invariant(carry[2], spectrum))

    path, conserved = jax.lax.scan(step, carry, None, length=30)[1]
    return path, conserved, jax.vmap(lambda t: quartic.residual(t, Q, E))(path[1])


@settings(max_examples=15, deadline=None)
@given(seeds)
def test_every_form_is_gradient_descent_on_the_loss(seed):
    Q, spectrum, basis, theta, E = problem(seed)
    lr = 0.1
    (a, b, c, d), conserved, residuals = jax.tree.map(np.asarray, _descend(Q, spectrum, basis, theta, E, lr))
    scale = np.abs(c.z).max() + np.abs(c.J).max() ** 2 + 1
    if not np.isfinite(scale) or scale > 1e2:
        return  # a diverging run amplifies rounding without bound
    np.testing.assert_allclose(b, a, atol=1e-12 * scale)
    J = np.sqrt(lr) * (b @ Q @ basis)
    np.testing.assert_allclose(c.J, J, atol=1e-11 * scale)
    np.testing.assert_allclose(c.z, lr * residuals, atol=1e-11 * scale)
    np.testing.assert_allclose(d.z, c.z, atol=1e-9 * scale * np.abs(spectrum).max() ** 6)
    np.testing.assert_allclose(d.T[:, 0], np.sum(c.J**2, -1), atol=1e-9 * scale * np.abs(spectrum).max() ** 6)
    np.testing.assert_allclose(conserved, lr * E, atol=1e-10 * scale / np.abs(spectrum).min())


@jax.jit
def _modes_after(spectrum, state):
    return quartic.quartic_modes(spectrum).step(state)


@settings(max_examples=30, deadline=None)
@given(seeds, st.floats(-2.5, 2.5))
def test_every_real_moment_obeys_the_hierarchy(seed, k):
    rng = np.random.default_rng(seed)
    spectrum = jnp.array(rng.uniform(0.1, 1.5, size=4))  # positive, so that any real power is defined
    state = quartic.Modes(z=rng.normal(), J=jnp.array(rng.normal(size=4)))
    after = _modes_after(spectrum, state)
    T = [quartic.moment(k + j, spectrum, state.J) for j in range(3)]
    np.testing.assert_allclose(
        quartic.moment_step(state.z, *T), quartic.moment(k, spectrum, after.J), rtol=1e-10, atol=1e-10
    )


@jax.jit
def _velocities(Q, spectrum, basis, theta, E):
    """Of the parameters by the flow and by autodiff, and of the modes by their flow and by the chain rule."""
    flow, local = quartic.quartic_flow(Q, E)(theta), basis.T @ theta
    _, expected = jax.jvp(lambda t: tuple(quartic.modes(t, spectrum, 1.0, E)), (local,), (basis.T @ flow,))
    got = quartic.quartic_modes_flow(spectrum)(quartic.modes(local, spectrum, 1.0, E))
    return flow, -jax.grad(quartic.loss)(theta, Q, E), got, expected


@given(seeds)
@settings(max_examples=10, deadline=None)
def test_the_mode_flow_is_minus_the_gradient(seed):
    flow, descent, got, expected = _velocities(*problem(seed))
    np.testing.assert_allclose(flow, descent, atol=1e-12)
    np.testing.assert_allclose(got.z, expected[0], atol=1e-11)
    np.testing.assert_allclose(got.J, expected[1], atol=1e-11)


def test_equal_weights_sharpen_at_all_times_under_gradient_flow():
    spectrum, z0, weight = jnp.array([-1.0, 1.0]), 0.4, 0.3
    field = quartic.quartic_modes_flow(spectrum)
    h = 1e-3

    def step(s, _):
        add = lambda a, b, c: jax.tree.map(lambda x, y: x + c * y, a, b)  # noqa: E731
        k1 = field(s)
        k2 = field(add(s, k1, h / 2))
        k3 = field(add(s, k2, h / 2))
        k4 = field(add(s, k3, h))
        out = jax.tree.map(lambda x, a, b, c, d: x + h / 6 * (a + 2 * b + 2 * c + d), s, k1, k2, k3, k4)
        return out, out

    start = quartic.Modes(jnp.array(z0), jnp.asarray(np.sqrt(weight) * np.ones(2)))
    _, path = jax.lax.scan(step, start, None, length=20_000)
    T = np.sum(np.asarray(path.J) ** 2, -1)
    assert np.all(np.diff(T) > -1e-13)
    np.testing.assert_allclose(T, jax.jit(quartic.equal_weight_curvature)(path.z, -2 * z0, weight), atol=1e-10)
    assert T[-1] == pytest.approx(1.0, abs=1e-6)


@jax.jit
def _two_step_drift(z, spectrum, weights):
    """The change of the distance from the edge in two steps, and what it should be."""
    # Scale the weights so that T(0) = 2 + T(1) z: on the nullcline up to O(z^3).
    scale = 2 / (weights.sum() - z * (spectrum @ weights))
    state = quartic.Modes(z, jnp.sqrt(scale * weights))
    T = [quartic.moment(k, spectrum, state.J) for k in range(3)]
    system = quartic.quartic_modes(spectrum)
    after = system.step(system.step(state))
    T_after = [quartic.moment(k, spectrum, after.J) for k in range(2)]
    distance = lambda z, T0, T1: T0 - 2 - T1 * z  # noqa: E731
    return distance(after.z, *T_after) - distance(state.z, *T[:2]), quartic.edge_drift(z, *T)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(-1, 1).filter(lambda w: abs(w) > 0.05), min_size=2, max_size=5), seeds)
def test_on_the_nullcline_the_two_step_drift_is_minus_the_spectral_variance(spectrum, seed):
    weights = np.random.default_rng(seed).uniform(0.2, 1, size=len(spectrum))
    z = 1e-3
    drift, expected = _two_step_drift(z, np.array(spectrum), weights)
    np.testing.assert_allclose(drift, expected, atol=40 * z**3)
    assert expected <= 1e-12 * z**2


def test_the_limit_of_a_three_mode_spectrum_is_half_its_relative_variance():
    spectrum, weights, z = np.array([1.0, 0.9, 0.8]), np.array([1.0, 0.6, 0.4]), 0.2
    system = quartic.quartic_modes(jnp.asarray(spectrum))
    fractions = weights / weights.sum()
    J = np.sqrt(fractions * (2 + 2 * z * (spectrum @ fractions) + z**2 / 2))

    def keep_going(carry):
        state, t = carry
        return (jnp.abs(state.z) > 1e-13) & (t < 200_000)

    end, _ = jax.lax.while_loop(
        keep_going, lambda c: (system.step(c[0]), c[1] + 1), (quartic.Modes(jnp.array(z), jnp.asarray(J)), 0)
    )
    T = [float(spectrum**k @ np.asarray(end.J) ** 2) for k in range(3)]
    assert abs(float(end.z)) < 1e-13
    assert T[0] - 2 == pytest.approx(float(quartic.edge_limit(*T)), rel=0.02)


def test_two_steps_on_a_parabola():
    theta, curvature = 0.7, 1.8
    assert quartic.linear_two_step(curvature, theta) == pytest.approx((1 - curvature) ** 2 * theta - theta)


def test_a_single_eigenvalue_is_refused_by_the_moment_recursion():
    with pytest.raises(ValueError, match="`spectrum` has 1 eigenvalue"):
        quartic.quartic_moments(jnp.array([1.0]))
