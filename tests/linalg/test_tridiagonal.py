"""The largest eigenvalue of a tridiagonal matrix, against all eigenvalues of the dense one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import eigh_tridiagonal

from secant.linalg.tridiagonal import largest_of_tridiagonal

largest = jax.jit(largest_of_tridiagonal)


def close(found, diagonal, beside):
    """To what rounding moves an eigenvalue: a few units of the last place of the largest row sum, a row."""
    rows = np.abs(diagonal) + np.abs(np.pad(beside, (1, 0))) + np.abs(np.pad(beside, (0, 1)))
    expected = eigh_tridiagonal(np.float64(diagonal), np.float64(beside), eigvals_only=True)[-1]
    return abs(float(found) - expected) <= 4 * np.finfo(found.dtype).eps * rows.max()


entries = st.floats(-1e3, 1e3, width=32)


@settings(max_examples=30, deadline=None)
@given(st.lists(entries, min_size=9, max_size=9), st.sampled_from(["float32", "float64"]))
def test_it_is_the_largest_of_all_eigenvalues(numbers, dtype):
    with jax.enable_x64(True):
        diagonal, beside = np.array(numbers[:5], dtype), np.array(numbers[5:], dtype)
        assert close(largest(diagonal, beside), diagonal, beside)


@pytest.mark.parametrize(
    ("diagonal", "beside"),
    [
        ([0.0] * 5, [0.0] * 4),
        ([1.0] * 5, [0.0] * 4),
        ([3.0, 0.0, 3.0, 0.0, 3.0], [0.0] * 4),
        ([-1.0, -2.0, -3.0, -2.0, -1.0], [0.0, 1.0, 0.0, 1.0]),
        ([5.0, 1.0, 0.0, 0.0, 0.0], [2.0, 0.0, 0.0, 0.0]),
        ([1e-30, 0.0, 1e-30, 0.0, 1e-30], [1e-30] * 4),
        ([1.0, 1.0, 1.0, 1.0, 1e6], [1e-6] * 4),
    ],
)
def test_blocks_that_do_not_touch_and_pivots_of_zero(diagonal, beside):
    diagonal, beside = np.float32(diagonal), np.float32(beside)
    assert close(largest(diagonal, beside), diagonal, beside)


def test_one_row_is_its_own_eigenvalue():
    assert float(largest(jnp.array([-7.0]), jnp.zeros(0))) == -7.0


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"one entry less than `diagonal`, got shapes \(3,\) and \(3,\)"):
        largest(jnp.ones(3), jnp.ones(3))


def test_what_is_not_a_number_stays_so():
    assert np.isnan(largest(jnp.array([1.0, jnp.nan, 0.0]), jnp.ones(2)))


def test_its_derivative_is_that_of_the_dense_eigenvalue():
    with jax.enable_x64(True):
        diagonal, beside = np.random.default_rng(0).normal(size=6), np.random.default_rng(1).normal(size=5)

        def dense(diagonal, beside):
            return jnp.linalg.eigh(jnp.diag(diagonal) + jnp.diag(beside, 1) + jnp.diag(beside, -1))[0][-1]

        found, expected = (jax.jit(jax.grad(f, (0, 1)))(diagonal, beside) for f in (largest_of_tridiagonal, dense))
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-12)


def test_it_can_be_mapped():
    diagonals, besides = np.float32(np.random.default_rng(2).normal(size=(3, 5))), np.ones((3, 4), np.float32)
    found = jax.jit(jax.vmap(largest_of_tridiagonal))(diagonals, besides)
    assert all(close(*one) for one in zip(found, diagonals, besides, strict=True))
