"""Exponents from scattered measurements."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secant.theory.power_law import fit_power_law

SIZES = np.array([16, 32, 64, 256])


@given(st.floats(-2, 2), st.floats(0.1, 10))
def test_an_exact_law_is_found(exponent, factor):
    law = fit_power_law(SIZES, np.tile(factor * SIZES[:, None] ** exponent, (1, 3)))
    assert law.exponent == pytest.approx(exponent, abs=1e-9)
    np.testing.assert_allclose(law(SIZES), factor * SIZES**exponent, rtol=1e-8)


def test_the_standard_error_is_the_scatter_of_the_exponent():
    noise = np.random.default_rng(0).normal(size=(400, len(SIZES), 8))
    laws = [fit_power_law(SIZES, SIZES[:, None] ** -0.5 * np.exp(0.3 * n)) for n in noise]
    exponents, errors = (np.array([getattr(law, name) for law in laws]) for name in ("exponent", "error"))
    assert exponents.mean() == pytest.approx(-0.5, abs=0.02)
    assert exponents.std() == pytest.approx(errors.mean(), rel=0.15)


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
