"""Numbers of the studies of section 8.1."""

import numpy as np
import pytest

from secant.studies.book.ch08_1 import convolution, fig_8_1

# Of the specification of figure 8.1, which prints none: first weights, and 4/3-norms.
TABLE = {
    0.15: (-1.11473, 8.0740),
    0.1: (0.33706, 7.6643),
    0.05: (0.36181, 7.6727),
    0.02: (0.30986, 7.6554),
    0.01: (0.29568, 7.6509),
    0.001: (0.28386, 7.6472),
}


@pytest.mark.parametrize("rate", TABLE)
def test_ends_of_steepest_descent(rate):
    end = fig_8_1.descend(rate, round(17 / rate))[-1]
    first, norm = TABLE[rate]
    np.testing.assert_allclose(
        end, np.array([1 / 3, 29 / 6, -25 / 6]) + (1 / 3 - first) / 2 * np.array([-2, 1, 1]), atol=1e-4
    )
    assert np.linalg.norm(end, 4 / 3) == pytest.approx(norm, abs=1e-4)


def test_too_large_a_step_diverges():
    assert np.abs(fig_8_1.descend(0.2, 1000)[-1]).max() > 1e6


def test_the_largest_margin_of_a_spectrum():
    # One sample: all weight on its largest frequency.
    x = np.array([[1.0, 2.0, 0.0, -1.0]])
    below, above = convolution.largest(x)
    exact = np.abs(np.fft.fft(x[0], norm="ortho")).max()
    assert (below, above) == (pytest.approx(exact, rel=1e-4), pytest.approx(exact, rel=1e-4))
    # Two: a grid over their weights.
    Z = np.array([[1.0, 2.0, 0.0, -1.0], [0.0, -1.0, 3.0, 1.0]])
    grid = np.linspace(0, 1, 2001)[:, None]
    exact = np.abs(np.fft.fft(grid * Z[0] + (1 - grid) * Z[1], norm="ortho")).max(1).min()
    assert convolution.largest(Z)[1] == pytest.approx(exact, rel=1e-3)
