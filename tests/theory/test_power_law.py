"""Exponents from scattered measurements."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import stdtrit

from secant.theory.power_law import fit_power_law

SIZES = np.array([16, 32, 64, 256])


@given(st.floats(-2, 2), st.floats(0.1, 10))
def test_an_exact_law_is_found(exponent, factor):
    law = fit_power_law(SIZES, np.tile(factor * SIZES[:, None] ** exponent, (1, 3)))
    assert law.exponent == pytest.approx(exponent, abs=1e-9)
    np.testing.assert_allclose(law(SIZES), factor * SIZES**exponent, rtol=1e-8)


@pytest.mark.parametrize("repeats", [4, 16])
def test_the_standard_error_is_the_scatter_of_the_exponent(repeats):
    sizes = np.array([16, 64])
    noise = np.random.default_rng(0).normal(size=(2000, len(sizes), repeats))
    laws = [fit_power_law(sizes, sizes[:, None] ** -0.5 * np.exp(0.3 * n)) for n in noise]
    exponents, errors = (np.array([getattr(law, name) for law in laws]) for name in ("exponent", "error"))
    # 0.3 at both ends of a lever of log 4, over the root of the repeats.
    true = 0.3 * np.sqrt(2 / repeats) / np.log(4)
    assert exponents.mean() == pytest.approx(-0.5, abs=4 * true / np.sqrt(2000))
    # A standard deviation of 2,000 draws is known to 1.6 percent: three of these.
    assert exponents.std() == pytest.approx(true, rel=0.05)
    assert np.sqrt(np.mean(errors**2)) == pytest.approx(true, rel=0.05)
    # Student's distribution with `freedom` degrees: a tenth of all draws lie beyond its tenth part.
    beyond = np.abs(exponents + 0.5) > stdtrit(laws[0].freedom, 0.95) * errors
    assert beyond.mean() == pytest.approx(0.1, abs=4 * np.sqrt(0.09 / 2000))


def test_more_sizes_share_one_scatter():
    noise = np.random.default_rng(1).normal(size=(1000, len(SIZES), 16))
    laws = [fit_power_law(SIZES, SIZES[:, None] ** 0.7 * np.exp(0.2 * n)) for n in noise]
    lever = np.log(SIZES) - np.log(SIZES).mean()
    true = 0.2 / np.sqrt(16 * np.sum(lever**2))
    assert np.sqrt(np.mean([law.error**2 for law in laws])) == pytest.approx(true, rel=0.05)
    assert np.std([law.exponent for law in laws]) == pytest.approx(true, rel=0.1)
    assert laws[0].freedom == len(SIZES) * 15


def test_a_size_with_large_scatter_counts_less():
    logs = np.array([[0.0, 0.01], [0.0, 0.01], [0.0, 2.0]])  # flat but for the last, whose repeats disagree
    law = fit_power_law([1, 2, 4], np.exp(logs))
    unweighted = np.polyfit(np.log([1, 2, 4]), logs.mean(axis=1), 1)[0]
    assert 0 < law.exponent < 0.75 * unweighted


@pytest.mark.parametrize("values", [np.ones((4, 1)), np.ones(4), np.ones((3, 2))])
def test_values_of_another_shape_are_refused(values):
    with pytest.raises(ValueError, match="must have shape"):
        fit_power_law(SIZES, values)


def test_values_that_are_not_positive_are_refused():
    with pytest.raises(ValueError, match="positive"):
        fit_power_law(SIZES, np.zeros((4, 2)))
