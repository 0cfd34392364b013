"""Flatten and scalar change the shape alone."""

import numpy as np
from by_loops import draw

from secant import nets


def test_flatten_and_scalar_only_reshape():
    x, _, z = draw(nets.flatten(), (2, 3, 4))
    np.testing.assert_array_equal(z, x.reshape(2, 12))
    x, _, z = draw(nets.scalar(), (5, 1))
    np.testing.assert_array_equal(z, x[:, 0])
