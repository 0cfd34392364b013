"""The limits below the edge, against the map, the flow and computer algebra."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.special
from hypothesis import given, settings
from hypothesis import strategies as st

from secant.theory.edge import edge_limit, nullclines, two_step
from secant.theory.edge.two_eigenvalue import Point, two_eigenvalue

flow_limit, first_integral = jax.jit(edge_limit.flow_limit), jax.jit(edge_limit.first_integral)


@jax.jit
def final_curvature(eps, E=0.0, z0=0.3, T0=2 / 0.7 + 0.02):
    system = two_eigenvalue(-eps, E)
    go = lambda c: (jnp.abs(c[0].z) > 1e-13) & (c[1] < 3_000_000)  # noqa: E731
    start = Point(jnp.asarray(z0, float), jnp.asarray(T0, float))
    return jax.lax.while_loop(go, lambda c: (system.step(c[0]), c[1] + 1), (start, 0))[0].T


@pytest.mark.parametrize(("eps", "expected"), [(0.005, -0.0025212445), (0.01, -0.0050855920), (0.02, -0.0103474186)])
def test_golden_limits_of_the_map(eps, expected):
    got = float(final_curvature(eps)) - 2
    assert got == pytest.approx(expected, abs=1e-8)
    assert float(edge_limit.limit_series(eps)) == pytest.approx(got, abs=10 * eps**5)


def test_the_second_coefficient_is_27_over_32():
    eps = 0.001
    got = (float(final_curvature(eps)) - 2 + eps / 2) / eps**2
    assert got == pytest.approx(-0.844948, abs=1e-5)


@pytest.mark.parametrize(("E", "expected"), [(0.5, -0.001889), (-1.0, -0.003788)])
def test_an_offset_moves_the_limit(E, expected):
    z0 = 0.3
    got = float(final_curvature(0.005, E, z0, 2 / (1 - z0) + 0.02)) - 2
    assert got == pytest.approx(expected, abs=2e-5)
    assert float(edge_limit.limit_with_offset(0.005, E)) == pytest.approx(got, rel=0.02)


@pytest.mark.parametrize("eps", [0.005, 0.02, 0.1])
@pytest.mark.parametrize("z", [0.04, 0.12, 0.3])
def test_the_limit_from_a_point_is_the_maps_within_its_error(eps, z):
    """Above the nullcline, on it and below, from starts that are forgotten and starts that are not."""
    for y in (-2 * eps, -0.3 * eps, 0.0, 0.5 * z**2, 2 * z**2):
        end = float(final_curvature(eps, 0.0, z, float(nullclines.nullcline(z, eps)) + y)) - 2
        limit, error = (float(part) for part in edge_limit.limit_from(z, y, eps))
        assert abs(end - limit) < error + 1e-11, y
        # Below y* the exponent is the difference of two large ones, and the error is large; elsewhere it is small.
        assert y < 2 * float(edge_limit.fixed_point(eps)) or error < 0.15 * abs(limit), y


def test_from_the_fixed_point_itself_nothing_is_remembered():
    eps = 0.01
    limit, _ = edge_limit.limit_from(0.1, edge_limit.fixed_point(eps), eps)
    assert float(limit) == pytest.approx(float(edge_limit.limit_series(eps)), rel=1e-12)


def test_the_flow_limit_agrees_with_the_integrated_flow():
    field = jax.jit(lambda s, eps: jnp.stack(two_step.lowest_order_flow(eps)(two_step.Local(*s))))
    for eps, z0, y0 in [(0.1, 0.3, 0.02), (0.1, 0.2, 0.01), (0.03, 0.15, 0.005)]:
        solution = scipy.integrate.solve_ivp(
            lambda _, s, eps=eps: np.asarray(field(s, eps)),
            (0, 400 / eps), (z0, y0), rtol=1e-12, atol=1e-15, method="LSODA",
        )  # fmt: skip
        assert float(flow_limit(z0, y0, eps)) == pytest.approx(solution.y[1, -1], abs=1e-9)
        along = np.array([first_integral(z, y, eps) for z, y in solution.y.T])
        np.testing.assert_allclose(along, along[0], atol=1e-9)


def test_golden_value_of_the_flow_limit():
    assert float(flow_limit(0.3, 0.02, 0.1)) == pytest.approx(-0.0526646056, abs=1e-9)


def test_the_flow_limit_does_not_overflow_for_tiny_epsilon():
    got = edge_limit.flow_limit(0.3, 0.02, jnp.array([1e-2, 1e-4, 1e-8]))
    np.testing.assert_allclose(got, edge_limit.fixed_point(jnp.array([1e-2, 1e-4, 1e-8])), rtol=1e-10)


def test_the_memory_of_the_start_is_exponential_in_four_z_squared_over_epsilon():
    eps, z0, y0 = 0.002, 0.05, 0.0005
    exact = float(edge_limit.flow_limit(z0, y0, eps) - edge_limit.fixed_point(eps))
    assert exact == pytest.approx(float(edge_limit.memory(z0, y0, eps)), rel=0.03)


@settings(max_examples=80, deadline=None)
@given(st.floats(-1 / np.e + 1e-9, 1e6))
def test_lambert_w_solves_its_equation(x):
    got = float(edge_limit.lambert_w(x))
    assert got == pytest.approx(float(scipy.special.lambertw(x).real), rel=1e-10, abs=1e-7 if x < -0.3678 else 1e-12)


def test_lambert_w_has_no_real_value_below_its_branch_point():
    assert np.isnan(edge_limit.lambert_w(-0.4))


@settings(deadline=None)
@given(st.floats(1e-4, 0.5))
def test_the_fixed_point_stops_the_lowest_order_dynamics(eps):
    y = edge_limit.fixed_point(eps)
    assert float(two_step.lowest_order_change(0.2, y, eps)[1]) == pytest.approx(0, abs=1e-15)


def test_orbits_run_along_the_slow_manifold():
    eps, z = 0.004, 0.06
    system = two_eigenvalue(-eps)
    orbit = jax.jit(lambda start: jax.lax.fori_loop(0, 2000, lambda _, point: system.step(point), start))
    point = Point(*map(float, orbit(Point(z, float(edge_limit.slow_manifold(z, eps))))))
    assert pytest.approx(float(edge_limit.slow_manifold(point.z, eps)), abs=2e-7) == point.T
    assert abs(float(edge_limit.slow_manifold(0.0, eps)) - 2 - float(edge_limit.limit_series(eps))) < 1e-15
    assert nullclines.edge_distance(point.z, point.T, eps) < 0
