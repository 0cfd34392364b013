"""Eigenvalues of sample covariances."""

import numpy as np
import pytest
from scipy import integrate

from secant.theory.bayes import marchenko_pastur as mp


@pytest.mark.parametrize("ratio", [0.1, 0.4, 0.9])
def test_the_density_has_its_moments(ratio):
    low, high = mp.edges(ratio)
    for order in (-1, 0, 1, 2, 3):
        found, _ = integrate.quad(lambda x: x**order * mp.density(x, ratio), low, high)  # noqa: B023
        assert found == pytest.approx(mp.moment(order, ratio), abs=1e-6)
    half, _ = integrate.quad(lambda x: mp.density(x, ratio), low, 1)
    assert mp.below(1.0, ratio) == pytest.approx(half, abs=1e-7)
    assert (mp.below(0.0, ratio), mp.below(9.0, ratio)) == (pytest.approx(0), pytest.approx(1))
    assert mp.density(np.array([low - 0.01, high + 0.01, 0.0]), ratio).tolist() == [0, 0, 0]


def test_numbers_at_two_fifths():
    np.testing.assert_allclose(mp.edges(0.4), (0.135089, 2.664911), atol=1e-6)
    assert mp.moment(-1, 0.4) == pytest.approx(5 / 3)


def test_random_matrices_have_the_moments_of_their_size():
    values = mp.eigenvalues(np.random.default_rng(0), 40, 100, 200)
    assert values.shape == (200, 40)
    for order, exact in ((1, 1), (2, 1 + 41 / 100), (-1, 100 / (100 - 41))):
        draws = (values**order).mean(1)
        assert draws.mean() == pytest.approx(exact, abs=3.3 * draws.std() / np.sqrt(200))
    assert (values < 1).mean() == pytest.approx(mp.below(1.0, 0.4), abs=0.01)


def test_what_has_no_meaning_is_refused_by_name():
    with pytest.raises(ValueError, match="`ratio`"):
        mp.density(1.0, 1.5)
    with pytest.raises(ValueError, match="`order`"):
        mp.moment(-2, 0.5)
