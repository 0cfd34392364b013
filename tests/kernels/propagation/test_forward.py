"""Signals through a network: what stands before all weights, and what has no kernel."""

import dataclasses

import numpy as np
import pytest
from numpy.testing import assert_allclose

import secant as sc
from secant import nets


def test_what_stands_before_all_weights_is_simply_applied():
    x = np.random.default_rng(0).normal(size=(3, 4, 4, 2))
    behind = nets.serial(nets.activation("tanh"), nets.average_pool(2), nets.flatten(), nets.dense(8), nets.dense(1))
    rows = np.tanh(x).reshape(3, 2, 2, 2, 2, 2).mean((2, 4)).reshape(3, -1)
    assert_allclose(sc.kernel(behind, x).ntk, sc.kernel(nets.deep_linear([8]), rows).ntk, rtol=1e-12)


WRONG = {
    "the layer `mine` at part 1 of part 0 has no rule": nets.serial(
        nets.serial(nets.dense(4), dataclasses.replace(nets.dense(4), name="mine", layer=None)), nets.dense(1)
    ),
    "softmax scores": nets.serial(nets.dense(4), nets.attention(), nets.flatten(), nets.dense(1)),
    "not Gaussian": nets.serial(nets.dense(4), nets.activation("relu"), nets.activation("relu"), nets.dense(1)),
    "share the features": nets.serial(nets.dense(4), nets.residual(nets.activation("relu")), nets.dense(1)),
    "have a mean": nets.serial(
        nets.dense(4), nets.add(*[nets.serial(nets.dense(4), nets.activation("relu"))] * 2), nets.dense(1)
    ),
    "no weights": nets.flatten(),
    "is given signals that are not Gaussian": nets.serial(nets.dense(4), nets.activation("relu"), nets.layer_norm()),
}


@pytest.mark.parametrize("match", WRONG)
def test_a_network_without_a_kernel_is_named(match):
    shape = (2, 3, 4) if match == "softmax scores" else (2, 3)
    with pytest.raises(ValueError, match=match):
        sc.kernel(WRONG[match], np.ones(shape))
