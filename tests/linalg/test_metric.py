"""Eigenpairs in coordinates that are not orthonormal are those of the operator."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from secant.linalg.metric import metric_lanczos

SIZE = 30


@jax.jit
def solve(inner, metric, start):
    """Of $A = S M$, which is self-adjoint in the metric $M$."""
    return metric_lanczos(
        lambda rows, duals: duals @ inner, lambda rows: rows @ metric, (start, start @ metric), 2, tol=1e-9, rounds=10
    )


@pytest.fixture
def problem():
    generator = np.random.default_rng(0)
    inner, factor = generator.normal(size=(2, SIZE, SIZE))
    return inner + inner.T, factor @ factor.T / SIZE + 0.1 * np.eye(SIZE), generator.normal(size=(3, SIZE))


def test_they_are_those_of_the_dense_problem(problem):
    inner, metric, start = problem
    found = solve(inner, metric, start)
    half = np.linalg.cholesky(metric)
    wanted = np.linalg.eigvalsh(half.T @ inner @ half)[::-1]
    np.testing.assert_allclose(found.values, wanted[:2], rtol=1e-7)
    assert found.converged
    vectors = np.asarray(found.vectors)
    np.testing.assert_allclose(vectors @ metric @ vectors.T, np.eye(2), atol=1e-8)
    np.testing.assert_allclose(vectors @ metric @ inner, found.values[:, None] * vectors, atol=1e-4)


def test_with_an_orthonormal_basis_nothing_changes(problem):
    inner, _, start = problem
    np.testing.assert_allclose(solve(inner, np.eye(SIZE), start).values, np.linalg.eigvalsh(inner)[:-3:-1], rtol=1e-8)


def test_eigenvectors_are_confirmed_in_one_round_and_dependent_rows_do_no_harm(problem):
    inner, metric, start = problem
    first = solve(inner, metric, start)
    again = solve(inner, metric, jnp.concatenate([first.vectors, first.vectors[:1]]))
    assert int(again.products) == 3
    np.testing.assert_allclose(again.values, first.values, rtol=1e-7)
