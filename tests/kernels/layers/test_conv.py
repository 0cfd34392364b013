"""Convolutions of infinite width, where they are dense layers."""

import numpy as np
from numpy.testing import assert_allclose

import secant as sc
from secant import nets
from secant.nets import Parametrization

HE = Parametrization("ntk", gain=2**0.5)


def test_constant_images_are_vectors():
    images = (np.array([0.0, 1.0, 2.0])[:, None, None, None] * np.ones((3, 4, 4, 2))).astype(np.float32)
    net = nets.cnn([8, 8], pool="average", padding="CIRCULAR", parametrization=HE)
    found = sc.kernel(net, images)
    vectors = sc.kernel(nets.mlp([8, 8], parametrization=HE), images[:, 0, 0])
    assert_allclose(found.nngp, vectors.nngp, rtol=1e-6)
    assert_allclose(found.ntk, vectors.ntk, rtol=1e-6)
