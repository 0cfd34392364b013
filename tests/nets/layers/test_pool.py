"""Pools are means."""

import numpy as np
import pytest
from by_loops import convolve, draw
from hypothesis import given, settings
from hypothesis import strategies as st

from secant import nets


@given(
    size=st.integers(1, 3), strides=st.none() | st.integers(1, 2), shape=st.tuples(st.integers(3, 6), st.integers(3, 5))
)
@settings(max_examples=10, deadline=None)
def test_average_pools_are_means_over_windows(size, strides, shape):
    net = nets.average_pool(size, strides=strides)
    x, _, z = draw(net, (2, *shape, 3))
    step = size if strides is None else strides
    rows, columns = (range(0, length - size + 1, step) for length in shape)
    expected = [[x[:, i : i + size, j : j + size].mean(axis=(1, 2)) for j in columns] for i in rows]
    np.testing.assert_allclose(z, np.moveaxis(expected, 2, 0), rtol=1e-12)
    assert net.output_shape(x.shape) == z.shape


@pytest.mark.parametrize("padding", ["SAME", "CIRCULAR"])
@pytest.mark.parametrize("strides", [None, 1])
def test_padded_pools_are_convolutions_with_equal_weights(padding, strides):
    net = nets.average_pool(3, strides=strides, padding=padding)
    x, _, z = draw(net, (2, 5, 4, 2))
    weight = np.einsum("ab,io->abio", np.ones((3, 3)), np.eye(2)) / 9
    np.testing.assert_allclose(z, convolve(x, weight, strides or 3, padding), rtol=1e-12)
    assert net.output_shape(x.shape) == z.shape


def test_the_global_pool_is_the_mean_over_positions():
    x, _, z = draw(nets.global_average_pool(), (2, 3, 4, 5))
    np.testing.assert_allclose(z, x.mean(axis=(1, 2)), rtol=1e-12)
    x, _, z = draw(nets.global_average_pool(), (2, 3, 5))
    np.testing.assert_allclose(z, x.mean(axis=1), rtol=1e-12)
