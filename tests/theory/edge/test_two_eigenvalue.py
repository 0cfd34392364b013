"""The two-number map is gradient descent on the two-parameter quartic loss."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from secant.theory.edge import quartic
from secant.theory.edge import two_eigenvalue as two

seconds = st.floats(-1, 0.9).filter(lambda s: abs(s) > 1e-3)
offsets = st.floats(-1, 1)
residuals = st.floats(-1, 1)
above = st.floats(0.01, 2)


@jax.jit
def _both(theta, second, E, lr):
    gradient = jax.grad(lambda t: quartic.loss(t, jnp.diag(jnp.stack([1.0, second])), E))
    after = theta - lr * gradient(theta)
    point = two.phase_point(theta, second, E, lr)
    return two.two_eigenvalue(second, lr * E).step(point), two.phase_point(after, second, E, lr)


@settings(max_examples=60, deadline=None)
@given(st.floats(-2, 2), st.floats(-2, 2), seconds, offsets, st.floats(0.05, 2))
def test_one_step_is_one_step_of_gradient_descent(a, b, second, E, lr):
    reduced, full = _both(jnp.array([a, b]), second, E, lr)
    np.testing.assert_allclose(reduced, full, rtol=1e-11, atol=1e-11 * (1 + abs(full.z) + full.T))


@settings(max_examples=60, deadline=None)
@given(residuals, above, seconds, offsets, st.floats(0.05, 2))
def test_parameters_invert_the_phase_point(z, height, second, E, lr):
    W = 2 * z + E
    T = max(W, second * W) + height if second < 0 else second * W + (W - second * W) * height / 2.1
    assume(bool(two.admissible(z, T, second, E)))
    theta = two.parameters(z, T, second, E, lr)
    back = two.phase_point(theta, second, E / lr, lr)
    np.testing.assert_allclose(back, (z, T), rtol=1e-10, atol=1e-10)


@settings(max_examples=60, deadline=None)
@given(residuals, st.floats(-3, 3), seconds, offsets)
def test_the_admissible_region_is_the_cone(z, T, second, E):
    W = 2 * z + E
    cone = (T >= W and second * W <= T) if second < 0 else (second * W <= T <= W)
    assume(min(abs(T - W), abs(T - second * W)) > 1e-12)
    assert bool(two.admissible(z, T, second, E)) == cone


@settings(max_examples=60, deadline=None)
@given(residuals.filter(lambda z: abs(z) > 1e-3), seconds, offsets)
def test_on_a_one_step_nullcline_nothing_changes(z, second, E):
    f_z, f_T = two.one_step_nullclines(z, second, E)
    assume(abs(f_z) < 100 and abs(f_T) < 100)
    system = two.two_eigenvalue(second, E)
    np.testing.assert_allclose(system.step(two.Point(z, f_z)).z, z, atol=1e-9)
    np.testing.assert_allclose(system.step(two.Point(z, f_T)).T, f_T, atol=1e-9)


@given(residuals, st.floats(0, 5))
def test_the_catapult_changes_curvature_towards_or_away_from_four(z, T):
    after = two.symmetric().step(two.Point(z, T))
    assert pytest.approx(z**2 * (T - 4), abs=1e-12) == after.T - T


@pytest.mark.parametrize(("T0", "expected"), [(1.9, 1.8989), (2.1, 1.8918), (2.5, 1.282), (3.0, 0.223)])
def test_catapults_end_where_they_should(T0, expected):
    end = jax.lax.fori_loop(
        0, 4000, lambda _, p: two.symmetric().step(p), two.Point(jnp.asarray(0.01), jnp.asarray(T0))
    )
    assert float(end.T) == pytest.approx(expected, abs=1e-3)


def test_the_catapult_diverges_above_four():
    point = two.Point(0.01, 4.1)
    for _ in range(60):
        point = two.symmetric().step(point)
        if abs(point.z) > 1e6:
            return
    pytest.fail("did not diverge")
