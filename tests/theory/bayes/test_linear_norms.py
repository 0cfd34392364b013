"""Lengths of random deep linear networks."""

import numpy as np
import pytest
from scipy import stats

from secant.theory.bayes import linear_norms as ln


def test_the_length_is_a_product_of_chi_squares():
    random, widths = np.random.default_rng(0), (6, 4, 5)
    real = np.linalg.norm(ln.linear_draws(random, widths, 20_000), axis=1)
    drawn = ln.length_draws(random, widths, 20_000)
    assert stats.ks_2samp(real, drawn).pvalue > 1e-3
    mean, variance = ln.log_length(widths)
    for logs in (np.log(real), np.log(drawn)):
        assert logs.mean() == pytest.approx(mean, abs=3.3 * np.sqrt(variance / len(logs)))
        assert logs.var() == pytest.approx(variance, rel=0.06)


def test_the_logarithm_of_the_length_of_thirty_layers():
    mean, variance = ln.log_length((60,) * 31)
    assert mean == pytest.approx(-31 / 120, rel=0.01)
    assert variance == pytest.approx(31 / 120, rel=0.02)


def test_the_variance_of_the_weights_scales_the_vector():
    draws = [ln.linear_draws(np.random.default_rng(0), (3, 4), 5, variance) for variance in (1.0, 4.0)]
    np.testing.assert_allclose(draws[1], 4 * draws[0], rtol=1e-14)  # two layers


def test_what_has_no_meaning_is_refused_by_name():
    for call in (lambda: ln.log_length(()), lambda: ln.log_length((3, 0))):
        with pytest.raises(ValueError, match="`widths`"):
            call()
