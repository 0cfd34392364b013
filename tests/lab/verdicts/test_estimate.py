"""Measurements with a sampling error."""

import numpy as np
import pytest

from secant.lab import bootstrap, estimate, ratio_of_means


def test_the_error_of_a_ratio_of_means_is_how_it_scatters():
    random = np.random.default_rng(0)
    below = 2 + random.normal(size=(2_000, 40))
    above = 3 * below + random.normal(size=below.shape)
    found = [ratio_of_means(*pair) for pair in zip(above, below, strict=True)]
    values, errors = np.array([(one.value, one.error) for one in found]).T
    assert values.mean() == pytest.approx(3.0, abs=0.01)
    assert errors.mean() == pytest.approx(values.std(), rel=0.05)
    assert {one.freedom for one in found} == {39.0}


def test_the_ratio_to_a_constant_is_a_mean():
    values = np.array([1.0, 2.0, 4.0])
    np.testing.assert_allclose(ratio_of_means(values, np.full(3, 2.0)), estimate(values / 2))


def test_repeats_without_a_number_are_left_out_and_too_few_have_no_ratio():
    nan = np.nan
    whole = ratio_of_means([1.0, 2.0, 3.0], [2.0, 4.0, 7.0])
    np.testing.assert_allclose(ratio_of_means([1.0, nan, 2.0, 9.0, 3.0], [2.0, 1.0, 4.0, nan, 7.0]), whole)
    assert np.isnan(ratio_of_means([1.0, nan], [2.0, 3.0]).value)
    assert np.isnan(ratio_of_means([1.0, 2.0], [-1.0, 1.0]).error)


def test_resampling_gives_the_error_of_a_mean_and_does_not_hang_on_chance():
    draws = np.random.default_rng(1).normal(size=200)
    mean, twice = bootstrap(lambda kept: [draws[kept].mean(), 2 * draws[kept].mean()], 200, times=400)
    usual = estimate(draws)
    assert mean.value == pytest.approx(usual.value)
    assert mean.error == pytest.approx(usual.error, rel=0.15)
    assert twice.error == pytest.approx(2 * mean.error)
    assert mean.freedom == usual.freedom
    assert bootstrap(lambda kept: draws[kept].mean(), 200) == bootstrap(lambda kept: draws[kept].mean(), 200)


def test_what_is_mostly_no_number_or_has_no_repeats_has_no_error():
    (seldom,) = bootstrap(lambda kept: 1.0 if len(set(kept)) == 3 else np.nan, 3)
    assert seldom.value == 1.0
    assert np.isnan(seldom.error)
    (alone,) = bootstrap(lambda kept: 1.0, 1)
    assert np.isnan(alone.error)
