"""A convolution is its formula."""

import jax
import numpy as np
import pytest
from by_loops import convolve, draw

from secant import nets


@pytest.mark.parametrize("padding", ["SAME", "VALID", "CIRCULAR"])
@pytest.mark.parametrize("strides", [1, 2])
@pytest.mark.parametrize(("shape", "window"), [((2, 6, 3), (3,)), ((2, 5, 4, 2), (3, 2))])
def test_a_convolution_is_a_sum_over_its_window(shape, window, strides, padding):
    net = nets.conv(4, window, strides=strides, padding=padding, bias=True)
    x, params, z = draw(net, shape)
    weight = np.asarray(params["weight"])
    expected = convolve(x, weight, strides, padding) / np.sqrt(weight[..., 0].size) + np.asarray(params["bias"])
    assert net.output_shape(shape) == expected.shape
    np.testing.assert_allclose(z, expected, rtol=1e-12, atol=1e-13)


def test_a_number_stands_for_a_square_window():
    assert nets.conv(4, 3).layer.window == (3, 3)
    assert nets.conv(4, 5).init(jax.random.key(0), (1, 8, 8, 2))["weight"].shape == (5, 5, 2, 4)


def test_a_circular_convolution_moves_with_its_image():
    net = nets.conv(3, padding="CIRCULAR")
    x, params, z = draw(net, (2, 5, 4, 2))
    moved = jax.jit(net.apply)(params, np.roll(x, 2, axis=1))
    np.testing.assert_allclose(moved, np.roll(z, 2, axis=1), rtol=1e-11, atol=1e-13)
