"""Blocks of vectors by threads, against one program for all pairs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from secant import nets
from secant.kernels import kernel, threads


@pytest.mark.parametrize("activation", ["erf", "relu"])
def test_threads_find_what_one_program_finds(activation, monkeypatch):
    """The last block is not full; some inputs coincide, are opposite, nearly parallel, or zero."""
    x = np.random.default_rng(0).normal(size=(523, 4))
    x[1], x[2], x[3], x[4], x[5] = x[0], -x[0], 0.0, 3 * x[0], x[0] + 1e-6 * x[6]
    net = nets.mlp([5, 5], activation=activation, bias=True, parametrization=nets.Parametrization("ntk", gain=1.3))
    calls, by = [], threads.by_threads
    monkeypatch.setattr("secant.kernels.network.by_threads", lambda *given: (calls.append(1), by(*given))[1])
    exact = jax.jit(lambda x: kernel(net, x)[:2])(jnp.asarray(x))
    assert not calls
    found = kernel(net, jnp.asarray(x)), kernel(net, jnp.asarray(x[:520]), jnp.asarray(x))
    assert len(calls) == 2
    for one, rows in zip(found, (523, 520), strict=True):
        np.testing.assert_allclose(one.nngp, exact[0][:rows], rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(one.ntk, exact[1][:rows], rtol=1e-9, atol=1e-14)


def test_what_is_not_finite_is_refused():
    x = jnp.asarray(np.random.default_rng(0).normal(size=(523, 4)))
    with pytest.raises(ValueError, match="not finite"):
        kernel(nets.mlp([5, 5, 5], activation=nets.activations.exp(1.0, 3.0)), 10 * x)
