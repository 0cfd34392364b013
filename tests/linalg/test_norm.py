"""The spectral norm by a short Lanczos recurrence."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secant.linalg.norm import largest_eigenvalue, leading_pair, spectral_norm


def symmetric(seed, size=40):
    matrix = jax.random.normal(jax.random.key(seed), (size, size))
    return matrix + matrix.T


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 1000))
def test_it_is_the_norm_of_the_dense_matrix(seed):
    matrix = symmetric(seed)
    start = jax.random.normal(jax.random.key(seed + 1), (40,))
    found = jax.jit(lambda v: spectral_norm(lambda u: matrix @ u, v, 40))(start)
    assert float(found.value) == pytest.approx(np.linalg.norm(matrix, 2), rel=1e-6)


def test_an_eigenvalue_lies_within_the_residual():
    matrix = symmetric(3)
    values = np.abs(np.linalg.eigvalsh(matrix))
    for steps in (2, 5, 10, 20):
        found = jax.jit(lambda start, steps=steps: spectral_norm(lambda u: matrix @ u, start, steps))(np.ones(40))
        assert np.abs(values - found.value).min() <= found.residual + 1e-10
        assert found.value <= values.max() + 1e-10


def test_a_negative_end_counts():
    found = spectral_norm(lambda v: -3 * v.at[1:].multiply(0.1), jax.random.normal(jax.random.key(0), (30,)))
    assert float(found.value) == pytest.approx(3.0)


def test_low_rank_and_zero_operators_end_early():
    a = jax.random.normal(jax.random.key(1), (30, 2))
    start = jax.random.normal(jax.random.key(2), (30,))
    low = spectral_norm(lambda v: a @ (a.T @ v), start, 20)
    assert float(low.value) == pytest.approx(np.linalg.norm(a, 2) ** 2, rel=1e-9)
    assert float(spectral_norm(jnp.zeros_like, start).value) == 0.0


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_leading_pair_is_that_of_the_dense_matrix(sign):
    matrix = sign * symmetric(5)
    values, vectors = np.linalg.eigh(matrix)
    best = np.argmax(np.abs(values))
    found = jax.jit(lambda v: leading_pair(lambda u: matrix @ u, v, 30))(jnp.ones(40))
    assert float(found.value) == pytest.approx(values[best], rel=1e-6)
    assert abs(float(found.vector @ vectors[:, best])) == pytest.approx(1.0, abs=1e-5)
    assert float(jnp.linalg.norm(matrix @ found.vector - found.value * found.vector)) < 1e-2


def test_the_leading_pair_of_a_low_rank_operator_is_found_when_the_krylov_space_ends():
    a = jax.random.normal(jax.random.key(1), (30, 1))
    found = leading_pair(lambda v: a @ (a.T @ v), jax.random.normal(jax.random.key(2), (30,)), 20)
    assert abs(float(found.vector @ a[:, 0])) == pytest.approx(float(jnp.linalg.norm(a)), rel=1e-9)


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
