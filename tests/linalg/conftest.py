"""Matrices with a known spectrum, and the operators that hide them."""

import jax
import numpy as np
import pytest

from secant.linalg import Operator


def _product(matrix):
    return lambda v: matrix @ v


def _transposed(matrix):
    return lambda v: matrix.T @ v


@pytest.fixture(scope="session")
def symmetric():
    """`values -> matrix` with those eigenvalues, in a random basis."""

    def make(values, seed=0):
        values = np.asarray(values, float)
        basis = np.linalg.qr(np.random.default_rng(seed).normal(size=(len(values),) * 2))[0]
        return (basis * values) @ basis.T

    return make


@pytest.fixture(scope="session")
def hide():
    """`matrix -> Operator`. All of them share one `bind`, and so their compiled code."""

    def make(matrix, dtype=float, *, is_symmetric=True):
        matrix = np.asarray(matrix, dtype)
        rows, columns = (jax.ShapeDtypeStruct((size,), matrix.dtype) for size in matrix.shape)
        if is_symmetric:
            return Operator(_product, matrix, columns, rows)
        return Operator(_product, matrix, columns, rows, False, _transposed)

    return make
