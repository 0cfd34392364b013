"""Differences of arrays by which studies judge identities."""

import numpy as np
import pytest

from secant.studies.shared.differences import largest, relative


def test_the_largest_difference_whatever_its_sign():
    assert largest([1.0, -5.0], [2.0, -2.0]) == 3.0
    assert largest(np.array([[1.0, -5.0]])) == 5.0


def test_a_relative_difference_is_over_the_largest_entry_of_the_second():
    assert relative([1.0, -3.0], [1.0, -4.0]) == pytest.approx(0.25)
