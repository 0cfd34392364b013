"""Blocks of vectors by threads, against one program for all pairs."""

import jax
import numpy as np
import pytest

from secant import nets
from secant.core.device import jit
from secant.kernels import kernel, threads


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Of 64 samples."""
    monkeypatch.setattr("secant.kernels.network.VECTORS", 2**15)


@pytest.mark.parametrize("activation", ["erf", "relu"])
def test_threads_find_what_one_program_finds(activation, monkeypatch):
    """The last block is not full; some inputs coincide, are opposite, nearly parallel, or zero."""
    x = np.random.default_rng(0).normal(size=(147, 4))
    x[1], x[2], x[3], x[4], x[5] = x[0], -x[0], 0.0, 3 * x[0], x[0] + 1e-6 * x[6]
    net = nets.mlp([5, 5], activation=activation, bias=True, parametrization=nets.Parametrization("ntk", gain=1.3))
    calls, by = [], threads.by_threads
    monkeypatch.setattr("secant.kernels.network.by_threads", lambda *given: (calls.append(1), by(*given))[1])
    exact = jax.tree.map(np.asarray, jit(lambda x: kernel(net, x)[:2], quick=True)(x))
    assert not calls
    found = kernel(net, x), kernel(net, x[:140], x)
    assert len(calls) == 2
    for one, rows in zip(found, (147, 140), strict=True):
        np.testing.assert_allclose(one.nngp, exact[0][:rows], rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(one.ntk, exact[1][:rows], rtol=1e-9, atol=1e-14)


def test_what_is_not_finite_is_refused():
    x = np.random.default_rng(0).normal(size=(147, 4))
    with pytest.raises(ValueError, match="not finite"):
        kernel(nets.mlp([5, 5, 5], activation=nets.activations.exp(1.0, 3.0)), 10 * x)
