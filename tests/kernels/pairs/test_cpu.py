"""Blocks of vectors on the cores of a processor, against one program for all pairs."""

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

from secant import nets
from secant.core.device import jit
from secant.kernels import kernel
from secant.kernels.pairs import cpu


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Of 64 samples."""
    monkeypatch.setattr("secant.kernels.pairs.blocks.VECTORS", 2**15)


@pytest.mark.parametrize("activation", ["erf", "relu"])
def test_threads_find_what_one_program_finds(activation, monkeypatch):
    """The last block is not full; some inputs coincide, are opposite, nearly parallel, or zero."""
    x = np.random.default_rng(0).normal(size=(147, 4))
    x[1], x[2], x[3], x[4], x[5] = x[0], -x[0], 0.0, 3 * x[0], x[0] + 1e-6 * x[6]
    net = nets.mlp([5, 5], activation=activation, bias=True, parametrization=nets.Parametrization("ntk", gain=1.3))
    calls, by = [], cpu.by_threads
    monkeypatch.setattr("secant.kernels.infinite_width.by_threads", lambda *given: (calls.append(1), by(*given))[1])
    exact = jax.tree.map(np.asarray, jit(lambda x: kernel(net, x)[:2], quick=True)(x))
    assert not calls
    found = kernel(net, x), kernel(net, x[:140], x)
    assert len(calls) == 2
    for one, rows in zip(found, (147, 140), strict=True):
        assert_allclose(one.nngp, exact[0][:rows], rtol=1e-12, atol=1e-14)
        assert_allclose(one.ntk, exact[1][:rows], rtol=1e-9, atol=1e-14)


def test_what_is_not_finite_is_refused():
    x = np.random.default_rng(0).normal(size=(147, 4))
    with pytest.raises(ValueError, match="not finite"):
        kernel(nets.mlp([5, 5, 5], activation=nets.activations.exp(1.0, 3.0)), 10 * x)


def test_the_number_of_cores_changes_no_bit(monkeypatch):
    x, net = np.random.default_rng(0).normal(size=(40, 3)), nets.mlp([8], activation="relu", bias=True)
    for dtype in (np.float32, np.float64):
        found = []
        for count in (1, 3):
            monkeypatch.setenv("NPROC", str(count))
            found.append(jax.tree.map(np.asarray, kernel(net, x.astype(dtype), memory=10 * 81 * 8)))
        assert found[0].ntk.dtype == dtype
        assert (found[0].ntk == found[1].ntk).all()
        assert (found[0].nngp == found[0].nngp.T).all()
        for kind in (np.float32, np.float64):  # variances of either precision, one after the other
            numbers = [(kind(1.0), kind(1.0))] * 2
            other = kernel(net, x.astype(dtype), memory=10 * 81 * 8, variances=numbers)
            assert_allclose(other.ntk, found[0].ntk, rtol=1e-5)
