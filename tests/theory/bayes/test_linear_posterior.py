"""Bayesian deep linear networks: three ways to their evidence, and where the posterior goes."""

import math

import numpy as np
import pytest
from scipy import special

from secant.lab import ratio_of_means
from secant.lab.verdicts.estimate import miss
from secant.theory.bayes import linear_posterior as lp

DEEP = (400,) + (1000,) * 20


def test_the_meijer_function_is_what_it_is_elsewhere():
    assert lp.log_meijer((3, 3.5, 4.5), math.log(5.3)) == pytest.approx(1.8539931258075, abs=1e-12)
    # one order is z^b e^-z, two are a Bessel function
    assert lp.log_meijer((0.5,), math.log(2.0)) == pytest.approx(0.5 * math.log(2) - 2, abs=1e-13)
    bessel = math.log(2 * 0.01**0.75 * special.kv(0.5, 0.2))
    assert lp.log_meijer((1.0, 0.5), math.log(0.01)) == pytest.approx(bessel, abs=1e-13)
    assert lp.log_meijer((-0.5, 2.0), 0.3) == pytest.approx(
        math.log(2 * math.exp(0.3 * 0.75) * special.kv(2.5, 2 * math.exp(0.15))), abs=1e-12
    )


def test_the_evidence_grows_with_depth():
    found = lp.evidence_grid(2.0, 200, 400, (1, 2, 5, 10, 50, 200), (1000,))[:, 0, 0]
    np.testing.assert_allclose(found, [64.0005, 88.1892, 121.0701, 141.2757, 166.0060, 171.7833], atol=1e-4)


def test_the_posterior_off_the_span_exactly_by_saddle_and_in_the_limit():
    assert lp.off_span(2.0, 200, DEEP) == pytest.approx(1.55367, abs=1e-5)
    assert lp.off_span_saddle(2.0, 200, DEEP) == pytest.approx(1.5493, abs=1e-4)
    assert lp.effective_depth(200, DEEP) == pytest.approx(4)
    assert lp.off_span_limit(2.0, 0.5, 4.0) == pytest.approx(1.5576, abs=1e-4)
    assert lp.off_span_limit(2.0, 0.5, 1e9) == pytest.approx(2.0, rel=1e-6)
    assert lp.off_span_limit(2.0, 0.5, 1e-9) == pytest.approx(0.5, rel=1e-6)
    for norm2 in (0.3, 0.5, 7.0):  # the saddle is the limit of large sizes
        sizes = [
            lp.off_span(norm2, n, (2 * n, 3 * n, 5 * n)) / lp.off_span_saddle(norm2, n, (2 * n, 3 * n, 5 * n)) - 1
            for n in (100, 200)
        ]
        assert sizes[0] / sizes[1] == pytest.approx(2, rel=0.05)


@pytest.mark.parametrize(("data", "widths", "variance"), [(3, (6, 5, 7), 1.0), (1, (6, 2, 4), 0.7), (4, (5, 9), 1.6)])
def test_the_contour_is_the_mixture_over_scales(data, widths, variance):
    drawn = lp.scales(np.random.default_rng(5), 1.3, data, widths, 200_000, variance)
    weights = np.exp(drawn.log_weight - lp.log_evidence(1.3, data, widths, variance))
    error = weights.std() / math.sqrt(len(weights))
    assert weights.mean() == pytest.approx(1, abs=3.3 * error)
    free = widths[0] - data
    for power, rising in ((1, free), (2, free * (free + 2))):
        value, error, freedom = ratio_of_means(weights * rising * drawn.scale**power, weights)
        exact = lp.off_span(1.3, data, widths, variance, power)
        assert value == pytest.approx(exact, abs=miss(freedom) * error)


def test_a_network_without_hidden_layers_is_gaussian():
    assert lp.log_evidence(1.3, 3, (6,)) == pytest.approx(float(lp.log_weight(1.3, 3, np.array(1 / 6))), abs=1e-12)
    assert lp.off_span(1.3, 3, (6,), variance=2.0) == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize(
    ("data", "widths", "expected"),
    [(1000, (2000, *[3000] * 4), 1.3199604), (200, (400, *[600] * 4), None), (3, (8, 4, 4), None)],
)
def test_the_best_variance_has_the_greatest_evidence(data, widths, expected):
    found = lp.best_variance(2.0, data, widths)
    if expected:
        assert found == pytest.approx(expected, abs=1e-6)
    at = [lp.log_evidence(2.0, data, widths, found * factor) for factor in (0.99, 1.0, 1.01)]
    assert at[1] > max(at[0], at[2])
    assert (at[0] - at[2]) / (2 * at[1] - at[0] - at[2]) == pytest.approx(0, abs=0.1)


def test_the_interpolant_has_the_least_norm():
    random = np.random.default_rng(1)
    X, Y = random.normal(size=(7, 3)), random.normal(size=3)
    theta, volume = lp.interpolant(X, Y)
    np.testing.assert_allclose(theta, np.linalg.pinv(X.T) @ Y, atol=1e-12)
    assert volume == pytest.approx(np.linalg.slogdet(X.T @ X)[1] / 2, abs=1e-12)
    with pytest.raises(ValueError, match="`X`"):
        lp.interpolant(X.T, random.normal(size=7))
    with pytest.raises(ValueError, match="`X`"):
        lp.interpolant(X[:, [0, 0]], Y[:2])


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((0.0, 3, (6, 5)), "norm2"),
        ((1.0, 6, (6, 5)), "data"),
        ((1.0, 0, (6, 5)), "data"),
        ((1.0, 3, (6, 0)), "widths"),
        ((1.0, 3, (6, 5), -1.0), "variance"),
    ],
)
def test_what_has_no_meaning_is_refused_by_name(arguments, named):
    with pytest.raises(ValueError, match=f"`{named}`"):
        lp.log_evidence(*arguments)
