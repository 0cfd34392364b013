"""Block Lanczos finds what a dense solver finds, and what it says about its errors is true."""

import functools

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matfree import decomp, eig

from secant.linalg import block_lanczos

SIZE = 60  # above the capacity, so that nothing here is solved densely
ENDS = ("largest", "magnitude", "smallest")


@functools.cache
def compiled(k, which, capacity):
    def run(matrix, rows, limits):
        return block_lanczos(lambda v: matrix @ v, rows, k, which=which, capacity=capacity, **limits)

    return jax.jit(run)


def solver(k=3, which="largest", capacity=None, *, tol=1e-6, min_products=0, max_products=400):
    """What stops it is no part of the compiled code."""
    limits = {"tol": tol, "min_products": min_products, "max_products": max_products}
    return lambda matrix, rows: jax.tree.map(np.asarray, compiled(k, which, capacity)(matrix, rows, limits))


def start(rows=1, size=SIZE, dtype=float, seed=0):
    return np.random.default_rng(seed).normal(size=(rows, size)).astype(dtype)


def ordered(values, which):
    keys = {"largest": -values, "magnitude": -np.abs(values), "smallest": values}[which]
    return values[np.argsort(keys, kind="stable")]


# Every pair is compiled once, and used by all tests.
PAIRS = [("largest", np.float64), ("largest", np.float32), ("magnitude", np.float64), ("smallest", np.float64)]


@pytest.mark.parametrize(("which", "dtype"), PAIRS)
def test_eigenpairs_are_those_of_the_dense_matrix(symmetric, which, dtype):
    values = np.random.default_rng(1).normal(size=SIZE)
    matrix = symmetric(values).astype(dtype)
    found = solver(which=which, tol=1e-10 if dtype == np.float64 else 1e-6)(matrix, start(dtype=dtype))
    slack = 1e-9 if dtype == np.float64 else 2e-5
    assert found.converged
    assert found.values.dtype == found.vectors.dtype == dtype
    np.testing.assert_allclose(found.values, ordered(values, which)[:3], atol=slack)
    np.testing.assert_allclose(found.vectors @ found.vectors.T, np.eye(3), atol=slack)
    np.testing.assert_allclose(
        found.vectors @ matrix, found.values[:, None] * found.vectors, atol=1e-4 if dtype == np.float64 else 3e-3
    )


def test_it_agrees_with_the_partial_decomposition_of_matfree(symmetric):
    matrix = symmetric(np.random.default_rng(2).normal(size=SIZE))
    row = start()
    theirs = eig.eigh_partial(decomp.tridiag_sym(24, reortho="full"))
    nodes, vectors = map(np.asarray, jax.jit(lambda v: theirs(lambda u: matrix @ u, v))(row[0]))
    # The same Krylov space of 24 vectors: the same Ritz values, converged or not.
    found = solver(tol=0.0, max_products=24)(matrix, row)
    np.testing.assert_allclose(found.values, nodes[::-1][:3], atol=1e-10)
    np.testing.assert_allclose(np.abs(np.sum(found.vectors * vectors[::-1][:3], axis=1)), 1.0, atol=1e-7)


SPECTRA = st.lists(st.integers(-50, 50), min_size=SIZE, max_size=SIZE)


@pytest.mark.parametrize(("which", "dtype"), PAIRS)
def test_an_eigenvalue_lies_within_the_residual(symmetric, which, dtype):
    solve = solver(which=which, tol=1e-3, max_products=40)

    @given(SPECTRA, st.integers(0, 100), st.integers(-6, 6))
    @settings(max_examples=25, deadline=None)
    def check(spectrum, seed, exponent):
        values = np.array(spectrum, float) * 10.0**exponent
        found = solve(symmetric(values, seed).astype(dtype), start(dtype=dtype, seed=seed))
        distance = np.min(np.abs(np.asarray(found.values, float)[:, None] - values), axis=1)
        assert np.all(distance <= np.asarray(found.residuals))
        assert np.all(np.asarray(found.errors) <= np.asarray(found.residuals) * (1 + 1e-6))
        np.testing.assert_allclose(found.vectors @ found.vectors.T, np.eye(3), atol=100 * np.finfo(dtype).eps)

    check()


@pytest.mark.parametrize("scale", [1e-20, 1e-8, 1e8, 1e17])
def test_the_scale_of_the_operator_does_not_matter(symmetric, scale):
    values = np.linspace(-1, 2, SIZE)
    found = solver(tol=1e-6)((symmetric(values) * scale).astype(np.float32), start(dtype=np.float32))
    np.testing.assert_allclose(found.values / scale, values[:-4:-1], atol=2e-5)


@pytest.mark.parametrize("which", ENDS)
@pytest.mark.parametrize("rank", [0, 1, 2, 5])
def test_an_operator_of_low_rank_yields_what_exists(symmetric, rank, which):
    values = np.r_[np.arange(rank, 0.0, -1), np.zeros(SIZE - rank)]
    found = solver(which=which, min_products=7)(symmetric(values), start())
    assert found.converged
    assert found.products < 20
    np.testing.assert_allclose(found.values, ordered(values, which)[:3], atol=1e-6)
    np.testing.assert_allclose(found.vectors @ found.vectors.T, np.eye(3), atol=1e-12)


def test_equal_eigenvalues_are_found_as_often_as_the_start_has_rows(symmetric):
    values = np.r_[5.0, 5, 5, np.linspace(-1, 4, SIZE - 3)]
    found = solver(tol=1e-8)(symmetric(values), start(rows=3))
    np.testing.assert_allclose(found.values, [5, 5, 5], atol=1e-6)
    np.testing.assert_allclose(found.vectors @ found.vectors.T, np.eye(3), atol=1e-12)


def test_an_exhausted_krylov_space_is_widened(symmetric):
    # Two distinct eigenvalues: a single vector's Krylov space has two dimensions, yet all copies come.
    found = solver(min_products=7)(symmetric(np.r_[[2.0] * 4, [1.0] * (SIZE - 4)]), start())
    np.testing.assert_allclose(found.values, [2, 2, 2], atol=1e-9)
    assert found.converged


def test_exact_eigenvectors_are_confirmed_in_one_round(symmetric):
    matrix = symmetric(np.random.default_rng(3).normal(size=SIZE))
    exact = np.linalg.eigh(matrix)[1][:, ::-1].T[:3]
    found = solver()(matrix, exact)
    assert (int(found.products), bool(found.converged)) == (3, True)
    np.testing.assert_allclose(found.values, np.linalg.eigvalsh(matrix)[::-1][:3], rtol=1e-12)


def test_eigenvectors_of_a_nearby_operator_save_most_products(symmetric):
    values = np.random.default_rng(4).normal(size=SIZE)
    before, noise = symmetric(values), symmetric(np.random.default_rng(5).normal(size=SIZE), seed=1)
    near = np.linalg.eigh(before)[1][:, ::-1].T[:3]
    matrix = before + 1e-3 * noise
    cold, warm = solver(tol=1e-5)(matrix, start()), solver(tol=1e-5)(matrix, near)
    np.testing.assert_allclose(warm.values, np.linalg.eigvalsh(matrix)[::-1][:3], atol=1e-5)
    assert int(warm.products) <= 6 < int(cold.products)


def test_a_short_basis_restarts_until_it_converges(symmetric):
    matrix, row = symmetric(np.linspace(0, 1, SIZE)), start()
    found = solver(tol=1e-9)(matrix, row)
    assert found.converged
    assert int(found.products) > 24  # the capacity: there were restarts
    np.testing.assert_allclose(found.values, np.linspace(0, 1, SIZE)[:-4:-1], atol=1e-8)
    longer = solver(capacity=50, tol=1e-9)(matrix, row)
    assert int(longer.products) < int(found.products)


def test_giving_up_is_said(symmetric):
    values = np.linspace(0, 1, SIZE)
    found = solver(tol=1e-10, max_products=20)(symmetric(values), start())
    assert (int(found.products), bool(found.converged)) == (20, False)
    distance = np.min(np.abs(np.asarray(found.values)[:, None] - values), axis=1)
    assert np.all(distance <= np.asarray(found.residuals))


def test_as_many_products_are_spent_as_pairs_are_asked_for(symmetric):
    found = solver(max_products=1)(symmetric(np.linspace(0, 1, SIZE)), start())
    assert int(found.products) == 3
    assert np.all(np.isfinite(found.residuals))


@pytest.mark.parametrize("size", [1, 2, 5])
def test_a_small_operator_is_solved_exactly_and_gives_as_many_as_it_has(symmetric, size):
    values = np.arange(1.0, size + 1)
    found = solver(4)(symmetric(values), start(size=size))
    np.testing.assert_allclose(found.values, values[::-1][:4], rtol=1e-12)
    assert found.vectors.shape == (min(4, size), size)
    assert found.converged


def test_a_product_that_is_not_finite_stops_at_once():
    found = solver()(np.full((SIZE, SIZE), np.nan), start())
    assert (int(found.products), bool(found.converged)) == (1, False)


def test_rows_that_depend_on_each_other_do_no_harm(symmetric):
    matrix = symmetric(np.linspace(-1, 2, SIZE))
    row = start()
    for rows in (np.tile(row, (3, 1)), np.zeros((3, SIZE)), row + 1e-14 * start(rows=3, seed=1)):
        found = solver(tol=1e-9)(matrix, rows)
        np.testing.assert_allclose(found.values, np.linspace(-1, 2, SIZE)[::-1][:3], atol=1e-8)
        np.testing.assert_allclose(found.vectors @ found.vectors.T, np.eye(3), atol=1e-12)


@pytest.mark.parametrize("which", ENDS)
@pytest.mark.parametrize(("low", "high"), [(1.0, 10.0), (-3.0, -1.0), (1.0, 1.5)])
def test_a_spectrum_far_from_zero_costs_no_orthogonality(low, high, which):
    values = np.linspace(low, high, 301)
    found = solver(1, which, 128, tol=1e-8)(np.diag(values), start(size=301))
    expected = ordered(values, which)[0]
    np.testing.assert_allclose(found.values[0], expected, atol=1e-6)
    assert abs(float(found.values[0]) - expected) <= float(found.residuals[0])
    assert bool(found.converged)
