"""Patches are pieces of an image, and positions a table."""

import numpy as np
from by_loops import draw

from secant import nets


def test_positions_are_added():
    x, params, z = draw(nets.positions(), (2, 5, 4))
    np.testing.assert_allclose(z - x, np.broadcast_to(params["table"], x.shape), rtol=1e-12)


def test_patches_are_pieces_of_the_image():
    x, _, tokens = draw(nets.patches(2), (2, 4, 6, 3))
    assert tokens.shape == (2, 6, 12) == nets.patches(2).output_shape(x.shape)
    np.testing.assert_array_equal(tokens[1, 4].reshape(2, 2, 3), x[1, 2:4, 2:4])
