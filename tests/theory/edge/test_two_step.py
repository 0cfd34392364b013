"""Two-step polynomials, nullclines and local dynamics, re-derived by computer algebra and checked against the map."""

import jax.numpy as jnp
import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from secant.theory.edge import nullclines, two_step
from secant.theory.edge.two_eigenvalue import Point, two_eigenvalue

z, T, e, y = sp.symbols("z T e y")


def one_step(z, T):
    T1 = 2 * e * z + (1 - e) * T
    T2 = T + e * (e - 1) * (T - 2 * z)
    return z - z * T + z**2 * T1 / 2, T - 2 * z * T1 + z**2 * T2


@pytest.fixture(scope="module")
def derived():
    """The two-step changes as polynomials in z, T and e."""
    start = [sp.Poly(variable, z, T, e, domain="QQ") for variable in (z, T)]
    return [after - before for after, before in zip(one_step(*one_step(*start)), start, strict=True)]


def table(rows):
    return sp.Poly(sum(sp.nsimplify(c(e)) * z**k * T**i for i, row in enumerate(rows) for k, c in row.items()), z, T, e)


def test_the_polynomials_are_the_two_step_map(derived):
    dz, dT = derived
    assert table(two_step.P) == dz
    assert table(two_step.Q) == dT


def test_degrees_and_number_of_terms(derived):
    assert [p.degree(T) for p in derived] == [3, 3]
    assert [p.degree(z) for p in derived] == [9, 9]
    assert [p.degree(e) for p in derived] == [5, 6]
    assert [len(p.terms()) for p in derived] == [82, 110]


@settings(max_examples=60, deadline=None)
@given(st.floats(-1.2, 1.2), st.floats(0, 4), st.floats(0, 1))
def test_the_polynomials_are_two_iterations(z, T, eps):
    system = two_eigenvalue(-eps)
    after = system.step(system.step(Point(z, T)))
    np.testing.assert_allclose(
        two_step.two_step_change(z, T, eps), (after.z - z, after.T - T), rtol=1e-11, atol=1e-11 * (1 + abs(after.T))
    )


def test_the_truncation_keeps_powers_up_to_three():
    z = 1e-3
    full, cut = (two_step.two_step_change(z, 2.3, 0.1, order) for order in (9, 3))
    np.testing.assert_allclose(full, cut, atol=100 * z**4)
    assert abs(float(full[0] - cut[0])) > 0


def test_the_nullcline_series_solve_the_polynomials(derived):
    for poly, series, order in [
        (derived[0], nullclines.residual_series, 5),
        (derived[1], nullclines.curvature_series, 3),
    ]:
        value = sp.Integer(2)
        for k in range(1, order + 1):
            # The coefficient of z^k is the slope of the function in its polynomial order.
            value += sp.nsimplify(sp.simplify(_series_term(series, k))) * z**k
        # At fixed rational e the coefficients are numbers; each is of low degree in e, so a few points decide.
        for eps in (sp.Rational(k, 7) for k in range(1, 6)):
            remainder = sp.Poly(sp.expand(poly.as_expr().subs(e, eps).subs(T, value.subs(e, eps))), z)
            assert all(c == 0 for (power,), c in remainder.terms() if power <= order + 1)


def _series_term(series, k):
    """Coefficient of z^k, read off the numerical function through its dependence on symbols."""
    rational = {
        nullclines.residual_series: {
            1: 2 * (1 - e),
            2: 2 * (1 - e + e**2),
            3: 2 * (1 - e) * (1 - e + e**2),
            4: (2 - 3 * e + 2 * e**2) ** 2 / 2,
            5: (1 - e) * (8 - 24 * e + 35 * e**2 - 24 * e**3 + 8 * e**4) / 4,
        },
        nullclines.curvature_series: {
            1: (2 - 3 * e + 2 * e**2) / (1 - e),
            2: (4 - e + 4 * e**2) / 2,
            3: (8 - 13 * e + 18 * e**2 - 13 * e**3 + 8 * e**4) / (4 * (1 - e)),
        },
    }[series][k]
    for eps in (0.1, 0.37):
        got = (series(0.5, eps, k) - series(0.5, eps, k - 1)) / 0.5**k
        assert float(got) == pytest.approx(float(rational.subs(e, eps)), rel=1e-12)
    return rational


@pytest.mark.parametrize("of", ["residual", "curvature"])
def test_without_second_eigenvalue_both_nullclines_are_the_two_cycles(of):
    z = np.linspace(-0.95, 0.95, 39)
    np.testing.assert_allclose(nullclines.nullcline(z, 0.0, of), nullclines.skeleton_nullcline(z), rtol=1e-6)


def test_golden_values_of_the_nullcline():
    got = nullclines.nullcline([0.05, 0.2, 0.4, 0.6, -0.05, -0.2, -0.4, 0.0], 0.005)
    np.testing.assert_allclose(got, [2.1047, 2.4974, 3.3249, 4.9717, 1.9052, 1.6684, 1.4318, 2.0], atol=1e-4)
    z = np.array([0.05, 0.2, 0.4])
    gap = (nullclines.nullcline(z, 0.005) - nullclines.nullcline(z, 0.005, "curvature")) / 0.005
    np.testing.assert_allclose(gap, [-0.054, -0.293, -1.056], atol=1e-3)


def test_on_the_nullcline_two_steps_change_nothing():
    z = np.linspace(-0.8, 0.6, 29)
    for of, which in [("residual", 0), ("curvature", 1)]:
        change = two_step.two_step_change(z, nullclines.nullcline(z, 0.02, of), 0.02)[which]
        np.testing.assert_allclose(change, 0, atol=1e-12)


def test_the_nullcline_is_nan_where_it_is_lost():
    got = nullclines.nullcline([0.5, 0.92, 0.96], 0.2)
    assert np.isfinite(got[:2]).all()
    assert np.isnan(got[2])


def test_an_unknown_nullcline_is_refused():
    with pytest.raises(ValueError, match="`of` is 'T'"):
        nullclines.nullcline(0.1, 0.1, "T")


@pytest.mark.parametrize("eps", [0.0, 0.01, 0.3])
def test_the_local_series_is_the_map_in_the_distance_to_the_nullcline(eps):
    """Halving z and y must cut the error by the first power left out: 6 in z's change, 5 in y's."""
    errors = []
    for scale in (0.04, 0.02):
        z, y = scale, 0.7 * scale
        T = y + nullclines.nullcline(z, eps)
        dz, dT = map(float, two_step.two_step_change(z, T, eps))
        dy = dT - (nullclines.nullcline(z + dz, eps) - nullclines.nullcline(z, eps))
        sz, sy = map(float, two_step.local_change(z, y, eps))
        errors.append((abs(dz - sz) / scale**5, abs(dy - sy) / scale**5))
    assert np.all(np.array(errors) < 60)
    assert errors[0][0] == pytest.approx(errors[1][0], rel=0.5, abs=1e-3)


@pytest.mark.parametrize("eps", [0.02, 0.1])
@pytest.mark.parametrize("y", [-2e-3, 1e-3])
def test_the_lowest_order_is_that_of_the_map_near_the_edge(eps, y):
    """Two steps of gradient descent, written out: what is left over is smaller by the distance to the edge."""
    z = 1e-3
    system = two_eigenvalue(-eps)
    start = Point(jnp.array(z), jnp.array(y + nullclines.nullcline(z, eps)))
    end = system.step(system.step(start))
    dy = float(end.T) - float(nullclines.nullcline(float(end.z), eps)) - y
    dz_low, dy_low = map(float, two_step.lowest_order_change(z, y, eps))
    assert float(end.z) - z == pytest.approx(dz_low, rel=5 * (z + abs(y)))
    assert dy == pytest.approx(dy_low, abs=20 * z**2 * (z + abs(y)))
    assert abs(dy_low) > 20 * abs(dy - dy_low) or abs(dy_low) < 1e-7


def test_the_lowest_order_map_and_flow_share_their_change():
    state = two_step.Local(jnp.array(0.2), jnp.array(0.01))
    stepped = two_step.lowest_order(0.05).step(state)
    change = two_step.lowest_order_flow(0.05)(state)
    np.testing.assert_allclose(stepped.z - state.z, change.z, atol=1e-15)
    np.testing.assert_allclose(stepped.y - state.y, change.y, atol=1e-15)


def test_degrees_are_those_of_the_printed_polynomials():
    """Of the changes of z and T, each a row: in z, T and epsilon; the last is read off the tables of coefficients."""
    points = 0.5 + np.random.default_rng(0).uniform(size=(4, 3)) / 2
    found = two_step.two_step_degrees(points)
    assert found[:, :2].tolist() == [[9, 3], [9, 3]]
    eps = np.linspace(0.1, 2.0, 12)
    tables = [
        np.stack([np.asarray(c(eps)) + 0 * eps for row in t for c in row.values()]) for t in (two_step.P, two_step.Q)
    ]
    fits = [np.abs(np.polynomial.polynomial.polyfit(eps, table.T, 9)) > 1e-5 for table in tables]
    assert found[:, 2].tolist() == [int(np.flatnonzero(fit.any(axis=1)).max()) for fit in fits]
