"""Networks that studies of descent write out by hand: their gradients and Hessian products, by differences."""

import numpy as np
import pytest

from secant.studies.book.ch02 import fig_2_3, fig_2_4


def test_the_gradient_of_a_residual_network():
    rng = np.random.default_rng(1)
    shapes = [(2, 5, 4), (2, 4, 4), (2, 4, 4), (2, 4, 3)]
    net = [rng.normal(size=shape) for shape in shapes]
    x, y = rng.normal(size=(2, 6, 5)), np.eye(3)[rng.integers(3, size=(2, 6))]
    direction = [rng.normal(size=shape) for shape in shapes]
    for chosen in range(4):
        move = [1e-6 * (i == chosen) * d for i, d in enumerate(direction)]
        up, down = (fig_2_3.loss([w + s * d for w, d in zip(net, move, strict=True)], x, y) for s in (1, -1))
        found = (fig_2_3.gradient(net, x, y)[chosen] * direction[chosen]).sum((-1, -2))
        np.testing.assert_allclose((up - down) / 2e-6, found, rtol=1e-6)


def test_the_gradient_and_the_hessian_of_a_network_of_tanh():
    rng = np.random.default_rng(0)
    net, along = (fig_2_4.Net(*(rng.normal(size=s) for s in ((5, 4), (1, 4), (4, 3), (1, 3)))) for _ in range(2))
    x, y = rng.normal(size=(6, 5)), rng.normal(size=(6, 3))
    sides = [fig_2_4.Net(*(w + 1e-6 * s * d for w, d in zip(net, along, strict=True))) for s in (1, -1)]
    (up, above), (down, below) = (fig_2_4.slope(side, x, y) for side in sides)
    _, gradient = fig_2_4.slope(net, x, y)
    assert (up - down) / 2e-6 == pytest.approx(
        sum((g * d).sum() for g, d in zip(gradient, along, strict=True)), rel=1e-7
    )
    for one, two, found in zip(above, below, fig_2_4.product(net, along, x, y), strict=True):
        np.testing.assert_allclose((one - two) / 2e-6, found, atol=1e-8)
    dense = np.stack([
        np.concatenate([part.ravel() for part in fig_2_4.product(net, unit, x, y)])
        for unit in (split(net, e) for e in np.eye(39))
    ])  # fmt: skip
    value, _ = fig_2_4.sharpness(net, x, y, np.ones(39))
    assert value == pytest.approx(np.linalg.eigvalsh(dense)[-1], rel=1e-3)


def split(net, vector):
    parts = np.split(vector, np.cumsum([part.size for part in net])[:-1])
    return fig_2_4.Net(*(part.reshape(like.shape) for part, like in zip(parts, net, strict=True)))
