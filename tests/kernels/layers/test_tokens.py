"""Tokens at infinite width."""

import numpy as np

import secant as sc
from secant import nets


def test_tokens_in_single_precision_stay_so():
    """Also where numbers may have 64 bits, and where positions are not mixed."""
    parts = [nets.patches(2), nets.dense(4), nets.positions(), nets.activation("swish"), nets.flatten()]
    x = np.random.default_rng(0).normal(size=(3, 4, 4, 2))
    net = nets.serial(*parts, nets.dense(1))
    found, exact = sc.kernel(net, x.astype(np.float32)), sc.kernel(net, x)
    assert found.nngp.dtype == found.ntk.dtype == np.float32
    np.testing.assert_allclose(found.ntk, exact.ntk, rtol=1e-5)
