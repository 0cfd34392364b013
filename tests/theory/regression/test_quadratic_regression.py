"""The quadratic regression model in its two forms, its scalings and its random draws."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secant.theory.regression import quadratic_regression as qr


@functools.partial(jax.jit, static_argnums=(1, 2))
def draw(seed, D, P, residual=0.5, jacobian=0.4):
    one, two = jax.random.split(jax.random.key(seed))
    Q = qr.random_tensor(one, D, P, dtype=jnp.float64)
    start, sigma = qr.random_start(two, D, P, jnp.float64), qr.scales(residual, jacobian, D, P)
    return Q, qr.Regression(sigma.z * start.z, sigma.J * start.J)


@jax.jit
def both_forms(Q, start, lr):
    """After fifty steps: residuals and Jacobian by their own map, and of the parameters that have descended."""
    model = qr.Model(start.z, start.J, Q)
    own, moved = qr.descent(Q, lr).step, qr.parameter_descent(model, lr).step
    after = jax.lax.fori_loop(0, 50, lambda _, state: own(state), start)
    theta = jax.lax.fori_loop(0, 50, lambda _, theta: moved(theta), jnp.zeros(Q.shape[-1]))
    return after, model.residuals(theta), model.jacobian(theta)


def test_residuals_and_jacobian_are_those_of_the_polynomial():
    Q, start = draw(0, 6, 9)
    model = qr.Model(start.z, start.J, Q)
    theta = np.random.default_rng(3).normal(size=9)
    plain = lambda t: start.z + start.J @ t + jnp.einsum("aij,i,j->a", Q, t, t) / 2  # noqa: E731
    found, expected = jax.jit(lambda t: ((model.residuals(t), model.jacobian(t)), (plain(t), jax.jacobian(plain)(t))))(
        theta
    )
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13)


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**31), lr=st.floats(0.05, 1.5))
def test_the_two_forms_of_descent_are_one(seed, lr):
    Q, start = draw(seed, 6, 9, residual=0.3)
    by_residuals, residuals, jacobian = both_forms(Q, start, lr)
    if not np.isfinite(by_residuals.z).all() or np.abs(by_residuals.J).max() > 10:
        return  # on its way to infinity rounding grows with everything else
    np.testing.assert_allclose(by_residuals.z, residuals, atol=1e-11)
    np.testing.assert_allclose(by_residuals.J, jacobian, atol=1e-11)


def test_sixty_residuals_to_rounding():
    Q, start = draw(1, 60, 120, residual=0.5, jacobian=0.3)
    after, residuals, _ = both_forms(Q, start, 1.0)
    np.testing.assert_allclose(after.z, residuals, atol=1e-13)


def test_the_step_size_drops_out_of_rescaled_variables():
    Q, start = draw(2, 6, 9)
    plain = both_forms(Q, jax.tree.map(lambda leaf, by: leaf / by, start, qr.Regression(0.3, 0.3**0.5)), 0.3)[0]
    unit = both_forms(Q, start, 1.0)[0]
    np.testing.assert_allclose(qr.rescaled(plain, 0.3).z, unit.z, atol=1e-13)
    np.testing.assert_allclose(qr.rescaled(plain, 0.3).J, unit.J, atol=1e-13)


def test_the_first_order_ablation_leaves_out_one_term():
    Q, start = draw(3, 6, 9)
    w = np.asarray(start.J).T @ np.asarray(start.z)
    both = jax.jit(lambda Q, start: [qr.descent(Q, second_order=kept).step(start) for kept in (True, False)])
    full, part = jax.tree.map(np.asarray, both(Q, start))
    np.testing.assert_allclose(full.z - part.z, np.einsum("aij,i,j->a", np.asarray(Q), w, w) / 2, rtol=1e-9)
    np.testing.assert_array_equal(full.J, part.J)


def test_flow_is_the_limit_of_small_steps_and_has_a_scaling():
    Q, start = jax.tree.map(np.asarray, draw(4, 6, 9))
    field = jax.jit(lambda state: qr.flow_field(jnp.asarray(Q))(state))
    after = jax.jit(lambda Q, start: qr.descent(Q, 1e-7).step(start))(Q, start)
    for exact, new, old in zip(field(start), after, start, strict=True):
        np.testing.assert_allclose(exact, (np.asarray(new) - old) / 1e-7, atol=1e-6)
    larger, plain = field(qr.Regression(4 * start.z, 2 * start.J)), field(start)
    np.testing.assert_array_equal(larger.z, 16 * np.asarray(plain.z))  # powers of two: to the bit
    np.testing.assert_array_equal(larger.J, 8 * np.asarray(plain.J))


def test_the_top_mode_acts_on_itself():
    Q, start = draw(5, 6, 9)
    value, z1, bend = jax.jit(qr.self_interaction)(start, Q)
    values, vectors = np.linalg.eigh(np.asarray(start.J) @ np.asarray(start.J).T)
    v = vectors[:, -1]
    w = np.asarray(start.J).T @ v * (v @ np.asarray(start.z))
    assert float(value) == pytest.approx(values[-1], rel=1e-12)
    assert abs(float(z1)) == pytest.approx(abs(v @ np.asarray(start.z)), rel=1e-9)
    assert abs(float(bend)) == pytest.approx(abs(np.einsum("a,aij,i,j", v, np.asarray(Q), w, w)), rel=1e-9)


@pytest.mark.parametrize(("convention", "variance"), [("averaged", 0.5), ("goe", 1.0), ("independent", 1.0)])
def test_conventions_have_their_variances(convention, variance):
    Q = np.asarray(qr.random_tensor(jax.random.key(0), 40, 60, convention))
    off = Q[:, ~np.eye(60, dtype=bool)]
    spread = variance * np.sqrt(2 / (off.size / 2))
    assert off.var() == pytest.approx(variance, abs=5 * spread)
    assert np.allclose(Q, np.swapaxes(Q, 1, 2)) == (convention != "independent")


def test_an_asymmetric_tensor_is_refused_or_mended():
    A = qr.random_tensor(jax.random.key(0), 3, 4, "independent")
    with pytest.raises(ValueError, match="not symmetric"):
        qr.symmetric(A)
    with pytest.warns(RuntimeWarning, match="symmetric part"):
        mended = qr.symmetric(A, "symmetrize")
    np.testing.assert_allclose(mended, (A + jnp.swapaxes(A, 1, 2)) / 2)
    assert qr.symmetric(mended) is mended
    with pytest.raises(ValueError, match="at least one"):
        qr.symmetric(jnp.ones((0, 4, 4)))
    with pytest.raises(ValueError, match="not finite"):
        qr.symmetric(jnp.full((1, 2, 2), jnp.nan))


def test_sizes_are_checked():
    for bad in (0, -1):
        with pytest.raises(ValueError, match="P: must be"):
            qr.random_tensor(jax.random.key(0), 2, bad)
        with pytest.raises(ValueError, match="D: must be"):
            qr.scales(1.0, 1.0, bad, 3)


def test_small_residuals_change_the_curvature_as_first_order_says():
    """Against the flow itself, by many small steps; the next order is smaller by the size of the residuals."""
    D, P, time, size = 3, 5, 2.0, 1e-4
    keys = jax.random.split(jax.random.key(0), 2)

    @jax.jit
    @jax.vmap
    def made(key):
        start = qr.random_start(key, D, P)
        return qr.random_tensor(jax.random.fold_in(key, 1), D, P), qr.Regression(size * start.z, 0.6 * start.J)

    @jax.jit
    def flowed(Q, start):
        step = qr.descent(Q, time / 20_000).step
        end = jax.lax.fori_loop(0, 20_000, lambda _, state: step(state), start)
        return qr.top_pair(end.J)[0] / qr.top_pair(start.J)[0] - 1

    Q, stacked = jax.tree.map(np.asarray, made(keys))
    stacked = jax.tree.map(jnp.asarray, stacked)
    found = qr.lazy_change(Q, stacked, time)
    for i in range(2):
        start = qr.Regression(stacked.z[i], stacked.J[i])
        change = float(flowed(Q[i], start))
        assert found[i] == pytest.approx(change, rel=5e-3)
        np.testing.assert_allclose(qr.lazy_change(Q[i], start, time), found[i], rtol=1e-10)
