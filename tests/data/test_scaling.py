"""Blocks of rows give what the whole array gives."""

import numpy as np
import pytest

from secant.data import scaling


@pytest.fixture
def x(monkeypatch):
    monkeypatch.setattr(scaling, "BLOCK", 100)  # three rows at a time, and a rest
    x = np.random.default_rng(0).integers(0, 256, (20, 4, 4, 2), dtype=np.uint8)
    x[:, 2, 2] = 77
    return x


@pytest.mark.parametrize(("name", "axes"), [("feature", 0), ("channel", (0, 1, 2)), ("global", None)])
def test_moments_are_those_of_the_whole(x, name, axes):
    mean, spread = scaling.moments(x, name, 255.0)
    expected = x.std(axis=axes)
    np.testing.assert_allclose(mean, x.mean(axis=axes), rtol=1e-13)
    np.testing.assert_allclose(spread, np.where(expected > 0, expected, 1.0), rtol=1e-13)
    scaled = scaling.apply(x, mean, spread, np.float64)
    np.testing.assert_allclose(scaled, (x - mean) / spread, rtol=1e-13)


def test_what_never_changes_becomes_exactly_zero():
    x = np.full((7, 3, 3, 1), 0.1)  # a number whose sums are rounded
    for name in ("feature", "channel", "global"):
        np.testing.assert_array_equal(scaling.apply(x, *scaling.moments(x, name, 1.0), np.float32), 0)


def test_none_divides_by_the_top(x):
    np.testing.assert_array_equal(scaling.apply(x, *scaling.moments(x, "none", 255.0), np.float64), x / 255.0)
