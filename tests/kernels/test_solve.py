"""Regression without the matrix gives what the matrix gives."""

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

import secant as sc
from secant import nets
from secant.kernels import kernel_operator, kernel_product, kernel_solve

NET = nets.mlp([8], activation="relu", bias=True)


@pytest.fixture(scope="module")
def data():
    with jax.enable_x64(True):
        x = np.random.default_rng(0).normal(size=(70, 4))
        return x, np.stack([x[:, 0] * x[:, 1], np.sin(x[:, 2])], 1), sc.kernel(NET, x)


@pytest.mark.parametrize("only", ["ntk", "nngp"])
def test_products_and_solves_are_those_of_the_matrix(data, only):
    x, y, whole = data
    matrix = np.asarray(getattr(whole, only))
    few = 10 * 30 * 30 * 8  # blocks of 30 samples at most
    assert_allclose(kernel_product(NET, x[:5], x, y, only=only, memory=few), matrix[:5] @ y, rtol=1e-11)
    operator = kernel_operator(NET, x, only=only, memory=few)
    assert_allclose(operator @ y[:, 0], matrix @ y[:, 0], rtol=1e-10, atol=1e-10)
    assert_allclose(operator.top(2).values, np.linalg.eigvalsh(matrix)[:-3:-1], rtol=1e-5)
    found = kernel_solve(NET, x, y, ridge=0.1, only=only, tolerance=1e-10, rank=20, memory=few)
    assert found.converged
    assert found.products < 70
    assert_allclose(found.coefficients, np.linalg.solve(matrix + 0.1 * np.eye(70), y), rtol=1e-7, atol=1e-8)
    short = kernel_solve(NET, x, y[:, 0], ridge=0.1, only=only, tolerance=1e-10, products=1, rank=20, memory=few)
    assert short.converged is False
    assert short.coefficients.shape == (70,)


def test_bad_arguments_are_named(data):
    x, y, _ = data
    for match, call in (
        ("`ridge` must be a number above 0", lambda: kernel_solve(NET, x, y, ridge=0.0)),
        ("one row for each of 70", lambda: kernel_solve(NET, x, y[:3], ridge=1.0)),
        ("finite", lambda: kernel_solve(NET, x, y * np.inf, ridge=1.0)),
        ("`only`", lambda: kernel_solve(NET, x, y, ridge=1.0, only="both")),
        ("one row for each of 70", lambda: kernel_product(NET, x, x, y[:3])),
        ("stored_kernel", lambda: kernel_operator(nets.cnn([2], pool="average"), np.ones((2, 3, 3, 1)))),
    ):
        with pytest.raises(ValueError, match=match):
            call()
