"""The landscape of the top eigenvector."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secant.theory.landscape import rank_one


def matrix(seed, d=6):
    rng = np.random.default_rng(seed)
    q = np.linalg.qr(rng.normal(size=(d, d)))[0]
    return q @ np.diag(rng.uniform(0.1, 3, d)) @ q.T


@given(st.integers(0, 2**31), st.integers(1, 7))
def test_critical_points_and_spectra_are_those_of_the_dense_hessian(seed, d):
    M = matrix(seed, d)
    found = rank_one.critical_points(M)
    assert found.points.shape == (d + 1, d)
    np.testing.assert_allclose(rank_one.gradient(M, found.points), 0, atol=1e-13)
    np.testing.assert_allclose(rank_one.objective(M, found.points), found.values, atol=1e-12)
    for H, spectrum in zip(rank_one.hessian(M, found.points), found.spectra, strict=True):
        np.testing.assert_allclose(np.linalg.eigvalsh(H), np.sort(spectrum), atol=1e-12)
        np.testing.assert_allclose(found.directions @ H, spectrum[:, None] * found.directions, atol=1e-12)


def test_numbers_of_a_six_by_six_matrix():
    values = (3, 2, 1.5, 1, 0.5, 0.1)
    found = rank_one.critical_points(np.diag(values))
    assert found.values[0] == pytest.approx(sum(v**2 for v in values[1:]) / 4)
    assert found.spectra[1].tolist() == [-1, 4, 0.5, 1, 1.5, 1.9]
    assert (found.spectra[1:].min(1) < 0).all()
    assert found.spectra[0].min() == pytest.approx(1)


def test_derivatives_are_those_of_the_objective():
    M, x = matrix(1, 4), np.random.default_rng(0).normal(size=(3, 4))
    with jax.enable_x64(True):
        slope = jax.jit(jax.vmap(jax.grad(lambda x: rank_one.objective(M, x))))(jnp.asarray(x))
        bend = jax.jit(jax.vmap(jax.hessian(lambda x: rank_one.objective(M, x))))(jnp.asarray(x))
    np.testing.assert_allclose(slope, rank_one.gradient(M, x), atol=1e-12)
    np.testing.assert_allclose(bend, rank_one.hessian(M, x), atol=1e-12)


def test_the_second_best_point_and_its_way_down():
    M = matrix(3)
    saddle, known = rank_one.second_best(M), rank_one.critical_points(M)
    H = rank_one.hessian(M, saddle.point)
    np.testing.assert_allclose(H @ saddle.way, -saddle.curvature * saddle.way, atol=1e-13)
    assert rank_one.objective(M, saddle.point) - known.values[0] == pytest.approx(saddle.height)
    expected = rank_one.smoothness(M, 2**0.5 * np.linalg.norm(known.points[0]))  # the same radius but for its rounding
    np.testing.assert_allclose((saddle.smooth, saddle.turn), expected, rtol=1e-14)
    with pytest.raises(ValueError, match="`M`"):
        rank_one.second_best(np.eye(3))


def test_a_matrix_with_negative_eigenvalues_has_fewer_points():
    found = rank_one.critical_points(np.diag([2.0, -1.0]))
    assert found.points.shape == (2, 2)
    np.testing.assert_allclose(found.spectra, [[4, 3], [-2, 1]])


def test_lipschitz_constants_bound_the_hessian():
    M, rng = matrix(2), np.random.default_rng(0)
    smooth, turn = rank_one.smoothness(M, 2.0)
    x, y = (2 * v / np.maximum(1, np.linalg.norm(v, axis=1, keepdims=True)) for v in rng.normal(size=(2, 200, 6)))
    H, G = rank_one.hessian(M, x), rank_one.hessian(M, y)
    assert np.linalg.norm(H, 2, (1, 2)).max() <= smooth
    assert (np.linalg.norm(H - G, 2, (1, 2)) <= turn * np.linalg.norm(x - y, axis=1)).all()
    v = rank_one.critical_points(M).directions[-1]
    assert v @ rank_one.hessian(M, 2 * v) @ v == pytest.approx(smooth)


@given(st.integers(0, 2**31))
def test_the_two_coordinates_of_a_point_tell_its_slopes(seed):
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=(2, 5))
    z /= np.linalg.norm(z)
    M, a = np.outer(z, z), x @ z
    found = rank_one.improvement(a, np.linalg.norm(x - a * z))
    g, H, unit = rank_one.gradient(M, x), rank_one.hessian(M, x), x / np.linalg.norm(x)
    direct = (rank_one.objective(M, x), abs(g @ unit), abs(g @ z), unit @ H @ unit, z @ H @ z)
    np.testing.assert_allclose(found, direct, atol=1e-11 * (1 + x @ x) ** 2)


@pytest.mark.parametrize("gamma", [0.05, 0.25, 0.5, 0.9])
def test_no_point_of_the_plane_breaks_the_robust_constant(gamma):
    c = rank_one.robust_constant(gamma)
    at = rank_one.improvement(*np.meshgrid(np.linspace(0, 2, 501), np.linspace(0, 2, 501)))
    free = (at.bend_x >= -gamma) & (at.bend_z >= -gamma) & (at.value > 0)
    slope = np.maximum(at.slope_x, at.slope_z)[free] / np.minimum(at.value[free], 1)
    assert c <= slope.min() <= c + 0.02


def test_the_robust_constant_at_a_quarter_is_known():
    assert rank_one.robust_constant(0.25) == pytest.approx(2**-0.5, abs=1e-14)
    at = rank_one.improvement(8**-0.5, (3 / 8) ** 0.5)
    np.testing.assert_allclose(at, (0.25, 32**-0.5, 32**-0.5, 1.25, -0.25), atol=1e-15)


def test_what_has_no_meaning_is_refused_by_name():
    for wrong in (np.ones((2, 3)), np.array([[1.0, 2.0], [0.0, 1.0]])):
        with pytest.raises(ValueError, match="`M`"):
            rank_one.critical_points(wrong)
    with pytest.raises(ValueError, match="`curvature`"):
        rank_one.robust_constant(1.5)
    with pytest.raises(ValueError, match="`radius`"):
        rank_one.smoothness(np.eye(2), 0)
