"""Euler's identity tells the degree of a network."""

import jax
import numpy as np
import pytest

import secant as sc

X = np.random.default_rng(0).normal(size=(5, 3))


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_relu_networks_have_their_depth(depth):
    net = sc.nets.mlp([6] * (depth - 1))
    found = sc.nets.homogeneity(jax.jit(net.apply), net.init(jax.random.key(0), X.shape), X)
    assert found.degree == pytest.approx(depth, rel=1e-12)
    assert found.residual < 1e-12


def test_powers_have_their_exponent_and_other_functions_a_residual():
    w = np.array([0.3, -0.5, 1.0])
    assert sc.nets.homogeneity(lambda w, x: (x @ w) ** 3, w, X).degree == pytest.approx(3)
    assert sc.nets.homogeneity(lambda w, x: x @ w + 1, w, X).residual > 0.1
    zero = sc.nets.homogeneity(lambda w, x: x @ w, np.zeros(3), X)
    assert (zero.degree, zero.residual) == (0, 0)
