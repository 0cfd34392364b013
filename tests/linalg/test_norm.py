"""The spectral norm by a short Lanczos recurrence."""

import functools

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secant.linalg.norm import largest_eigenvalue, leading_pair, spectral_norm


def normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def symmetric(seed, size=40):
    matrix = normal(seed, size, size)
    return matrix + matrix.T


@functools.partial(jax.jit, static_argnums=2)
def norm_of(matrix, start, steps):
    return spectral_norm(lambda v: matrix @ v, start, steps)


@functools.partial(jax.jit, static_argnums=2)
def pair_of(matrix, start, steps):
    return leading_pair(lambda v: matrix @ v, start, steps)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 1000))
def test_it_is_the_norm_of_the_dense_matrix(seed):
    matrix = symmetric(seed)
    found = norm_of(matrix, normal(seed + 1, 40), 40)
    assert float(found.value) == pytest.approx(np.linalg.norm(matrix, 2), rel=1e-6)


def test_an_eigenvalue_lies_within_the_residual():
    matrix = symmetric(3)
    values = np.abs(np.linalg.eigvalsh(matrix))
    for steps in (2, 5, 10, 20):
        value, residual = map(float, norm_of(matrix, np.ones(40), steps))
        assert np.abs(values - value).min() <= residual + 1e-10
        assert value <= values.max() + 1e-10


def test_a_negative_end_counts():
    found = norm_of(np.diag([-3.0, *[-0.3] * 39]), normal(0, 40), 20)
    assert float(found.value) == pytest.approx(3.0)


def test_low_rank_and_zero_operators_end_early():
    a, start = normal(1, 40, 2), normal(2, 40)
    assert float(norm_of(a @ a.T, start, 20).value) == pytest.approx(np.linalg.norm(a, 2) ** 2, rel=1e-9)
    assert float(norm_of(np.zeros((40, 40)), start, 20).value) == 0.0


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_leading_pair_is_that_of_the_dense_matrix(sign):
    matrix = sign * symmetric(5)
    values, vectors = np.linalg.eigh(matrix)
    best = np.argmax(np.abs(values))
    found = jax.tree.map(np.asarray, pair_of(matrix, np.ones(40), 30))
    assert float(found.value) == pytest.approx(values[best], rel=1e-6)
    assert abs(float(found.vector @ vectors[:, best])) == pytest.approx(1.0, abs=1e-5)
    assert np.linalg.norm(matrix @ found.vector - found.value * found.vector) < 1e-2


def test_the_leading_pair_of_a_low_rank_operator_is_found_when_the_krylov_space_ends():
    a = normal(1, 40)
    found = pair_of(np.outer(a, a), normal(2, 40), 30)
    assert abs(float(np.asarray(found.vector) @ a)) == pytest.approx(np.linalg.norm(a), rel=1e-9)


def test_its_derivative_is_the_projector_on_the_eigenvector():
    """Through the products and the tridiagonal matrix they leave, where they have found the eigenvalue to rounding."""
    with jax.enable_x64(True):
        rows = np.random.default_rng(7).normal(size=(40, 80)) + 1.0
        kernel = rows @ rows.T / 80
        vector = np.linalg.eigh(kernel)[1][:, -1]
        found = np.asarray(jax.jit(jax.grad(largest_eigenvalue))(kernel))
        # Matrices stay symmetric: only that part of it has a meaning.
        np.testing.assert_allclose((found + found.T) / 2, np.outer(vector, vector), atol=1e-12)


@pytest.mark.parametrize("size", [1, 6, 32, 33, 60])
def test_the_largest_eigenvalue_of_a_kernel(size):
    """Like a tangent kernel, with one eigenvalue far above the others: both ways give it."""
    with jax.enable_x64(True):
        rows = np.random.default_rng(size).normal(size=(size, 80)) + 1.0
        kernel = rows @ rows.T / 80
        found = jax.jit(largest_eigenvalue)(kernel)
        np.testing.assert_allclose(found, np.linalg.eigvalsh(np.asarray(kernel))[-1], rtol=1e-9)
        batched = jax.jit(jax.vmap(largest_eigenvalue))(np.stack([kernel, 2 * kernel]))
        np.testing.assert_allclose(batched, [found, 2 * found], rtol=1e-9)
