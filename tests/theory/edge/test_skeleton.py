"""The skeleton is the two-eigenvalue map without its second eigenvalue."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st

from secant.theory.edge import skeleton as sk
from secant.theory.edge.two_eigenvalue import Point, two_eigenvalue

residuals = st.floats(-2, 2)
levels = st.floats(0.1, 5)


@settings(max_examples=60, deadline=None)
@given(residuals, levels)
def test_the_level_is_conserved_and_the_residual_follows_the_cubic(z, C):
    after = two_eigenvalue(0.0).step(Point(z, C + 2 * z))
    assert float(sk.conserved(after.z, after.T)) == pytest.approx(C, abs=1e-10)
    assert float(sk.skeleton(C).step(z)) == pytest.approx(float(after.z), abs=1e-10)


@settings(max_examples=60, deadline=None)
@given(st.floats(-2.5, 2.5), levels)
def test_the_jacobian_form_is_the_same_map(J, C):
    after = sk.jacobian_skeleton(C).step(J)
    z = (J**2 - C) / 2
    assert (after**2 - C) / 2 == pytest.approx(float(sk.skeleton(C).step(z)), abs=1e-9)


@settings(deadline=None)
@given(st.floats(2.001, 4))
def test_the_two_cycle_closes(C):
    low, high = sk.cycle(C)
    step = sk.skeleton(C).step
    np.testing.assert_allclose([step(low), step(high)], [high, low], atol=1e-12)


@pytest.mark.parametrize(("C", "expected"), [(2.1, 0.595), (2.4, -0.68), (2.5, -1.125), (sk.CYCLE_FLIP, -1.0)])
def test_the_multiplier_of_the_two_cycle(C, expected):
    low, high = sk.cycle(C)
    slope = lambda z: 3 * z**2 + 2 * (C / 2 - 2) * z + 1 - C  # noqa: E731
    assert float(slope(low) * slope(high)) == pytest.approx(expected, abs=1e-10)
    assert float(sk.cycle_multiplier(C)) == pytest.approx(expected, abs=1e-10)


def test_orbits_stay_up_to_the_escape_level_and_first_reach_zero_at_the_crisis():
    """The largest Jacobian an orbit can reach from inside is the local maximum of the cubic."""
    for C, escapes, flips in [(3.19, False, False), (3.2, False, True), (3.999, False, True), (4.001, True, True)]:
        m = 1 + C / 2
        top = (2 * m / 3) * np.sqrt(2 * m / 3)
        assert (top**2 > C + 4) == escapes  # beyond the fixed point z = 2
        assert (float(sk.jacobian_skeleton(C).step(top)) < 0) == flips


def test_the_sign_crisis_is_where_the_largest_jacobian_is_mapped_to_zero():
    """3 sqrt 3 - 2, to rounding: a little below the critical orbit stays positive, a little above it does not."""

    def twice(C):
        step = sk.jacobian_skeleton(C).step
        return float(step(step(np.sqrt((2 + C) / 3))))  # the cubic is largest where its slope 1 + C/2 - 3J^2/2 is zero

    assert scipy.optimize.brentq(twice, 3.0, 3.5, xtol=1e-14) == pytest.approx(sk.SIGN_CRISIS, abs=1e-10)


def test_the_escape_level_is_where_the_largest_jacobian_reaches_the_border():
    """J^2 = C + 4 is a two-cycle of J and -J: beyond it orbits grow."""

    def beyond(C):
        return float(sk.jacobian_skeleton(C).step(np.sqrt((2 + C) / 3))) ** 2 - (C + 4)

    for C in (3.5, 4.0, 4.5):
        border = np.sqrt(C + 4)
        assert float(sk.jacobian_skeleton(C).step(border)) == pytest.approx(-border)
    assert scipy.optimize.brentq(beyond, 3.0, 5.0, xtol=1e-14) == pytest.approx(sk.ESCAPE, abs=1e-10)


def test_below_the_window_the_level_ends_as_first_order_says():
    """Halving epsilon quarters what the first order leaves over."""
    C, z = 1.5, -0.6
    left = []
    for eps in (0.004, 0.002):
        system = two_eigenvalue(-eps)
        start = Point(jnp.asarray(z), jnp.asarray(C + 2 * z))
        end = jax.lax.fori_loop(0, 500, lambda _, p, system=system: system.step(p), start)
        left.append(float(end.T - sk.level_below(C, z, eps)))
        assert abs(float(end.T) - C) > 50 * abs(left[-1])
    assert left[0] / left[1] == pytest.approx(4, rel=0.05)


def test_the_step_window_is_the_level_between_two_and_four():
    low, high = sk.step_window(curvature=1.2, residual=-0.4)
    assert float(sk.conserved(low * -0.4, low * 1.2)) == pytest.approx(2.0)
    assert float(sk.conserved(high * -0.4, high * 1.2)) == pytest.approx(4.0)


@settings(max_examples=60, deadline=None)
@given(residuals, levels, st.floats(0.001, 1))
def test_a_second_eigenvalue_moves_the_level_by_a_square(z, C, eps):
    after = two_eigenvalue(-eps).step(Point(z, C + 2 * z))
    expected = float(sk.level_step(C, z, eps))
    assert float(sk.conserved(after.z, after.T)) == pytest.approx(expected, abs=1e-9)


def test_the_level_drifts_down_as_the_average_over_the_cycle_says():
    eps, C = 1e-4, 2.3
    z = float(sk.cycle(C)[1])
    point, t = Point(z, C + 2 * z), 20_000
    system = two_eigenvalue(-eps)
    point = jax.lax.fori_loop(0, t, lambda _, p: system.step(p), Point(*map(jnp.asarray, point)))
    drift = float(sk.level_drift(t, C, eps))
    assert C - drift > 0.2
    assert float(sk.conserved(*point)) == pytest.approx(drift, abs=2 * eps)


@pytest.mark.parametrize("C", [2.5, 3.2, 3.9])
def test_the_top_of_the_cubic_is_where_its_slope_is_zero(C):
    top = np.sqrt((2 + C) / 3)
    highest = top * (1 + C / 2 - top**2 / 2)
    assert sk.image_of_the_top(C) == pytest.approx(highest * (1 + C / 2 - highest**2 / 2), abs=1e-9)
    assert (sk.image_of_the_top(C) > 0) == (C < sk.SIGN_CRISIS)
