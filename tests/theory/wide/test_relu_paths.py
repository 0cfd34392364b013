"""Paths through random ReLU networks: sums, gates, moments and the law of a signal's length."""

import math

import numpy as np
import pytest
from scipy import stats

from secant.lab import estimate
from secant.lab.verdicts.estimate import miss
from secant.theory.wide import relu_paths as rp


@pytest.fixture
def random():
    return np.random.default_rng(3)


def agrees(predicted, samples):
    """Within the sampling error, missed once in a thousand times."""
    value, error, freedom = estimate(samples)
    return abs(value - predicted) <= miss(freedom) * error


@pytest.mark.parametrize("widths", [(2, 3, 3), (3, 4), (2, 2, 3, 2)])
def test_paths_add_up_to_the_forward_pass_and_its_jacobian(widths, random):
    weights, x = rp.draw_weights(random, widths, 1, outputs=2), random.normal(size=widths[0])
    found = rp.add_up_paths([layer[0] for layer in weights], x)
    assert found.number == math.prod(widths) * 2
    np.testing.assert_allclose(found.output, rp.signals(weights, x)[-1][0], atol=1e-12)
    step = 1e-6
    for p, e in enumerate(np.eye(widths[0])):  # linear between kinks: differences are exact up to rounding
        ahead, back = (rp.signals(weights, x + way * step * e)[-1][0] for way in (1, -1))
        np.testing.assert_allclose(found.jacobian[:, p], (ahead - back) / (2 * step), atol=1e-8)


def test_a_network_of_too_many_paths_is_refused():
    with pytest.raises(ValueError, match="`weights` has 8,000,000 paths"):
        rp.add_up_paths([np.zeros((200, 200)), np.zeros((200, 200))], np.ones(200))


@pytest.mark.parametrize("widths", [(3, 6), (3, 6, 8), (4, 15, 12, 15)])
def test_the_fourth_moment_of_gaussian_weights_is_a_product(widths):
    product = math.prod(1 + 5 / n for n in widths[1:])
    assert rp.fourth_moment(widths) == pytest.approx(12 / widths[0] ** 2 * product, rel=1e-14)
    x = np.arange(1.0, widths[0] + 1)
    assert rp.fourth_moment(widths, x) == pytest.approx(12 / widths[0] ** 2 * (x @ x) ** 2 * product, rel=1e-14)
    assert rp.second_moment(widths) == 2 / widths[0]


@pytest.mark.parametrize("law", rp.KURTOSIS)
def test_the_fourth_moment_knows_the_law_of_the_weights(law, random):
    widths, x = (3, 8, 6), np.array([1.0, -2.0, 0.5])
    z = rp.signals(rp.draw_weights(random, widths, 100_000, law=law), x)
    assert agrees(rp.second_moment(widths) * x @ x, z[-1][:, 0] ** 2)
    assert agrees(rp.fourth_moment(widths, x, rp.KURTOSIS[law]), z[-1][:, 0] ** 4)
    assert rp.KURTOSIS[law] == pytest.approx({"uniform": 9 / 5, "gaussian": 3, "laplace": 6}[law])


def test_gates_are_fair_coins(random):
    weights = rp.draw_weights(random, (2, 3, 3), 100_000)
    gates = rp.signals(weights, np.array([0.3, -1.0]))[1] > 0
    alive = rp.signals(weights, np.array([0.3, -1.0]))[0].max(1) > 0
    patterns = np.bincount(gates[alive] @ [1, 2, 4], minlength=8)
    assert stats.chisquare(patterns).pvalue > 1e-3


def test_the_surrogate_has_the_law_of_the_network(random):
    widths, x = (4, 10, 12), np.array([1.0, 2.0, -1.0, 0.0])
    z = rp.signals(rp.draw_weights(random, widths, 20_000), x)[-2]
    real = widths[0] / widths[2] * np.sum(np.maximum(z, 0) ** 2, 1) / (x @ x)
    drawn = rp.surrogate_norms(random, widths, 20_000)
    assert drawn.shape == (20_000, 2)
    assert stats.ks_2samp(real, drawn[:, -1]).pvalue > 1e-3
    assert agrees(1.0, drawn[:, -1])
    assert agrees((1 + 5 / 10) * (1 + 5 / 12), drawn[:, -1] ** 2)
    assert not rp.surrogate_norms(random, (1, 1, 1), 64)[:, -1].all()  # some are shut


def test_the_logarithm_of_a_length_is_known_exactly_and_normal_in_the_limit(random):
    mean, variance, third = rp.log_norm((20,) * 5)
    drawn = rp.surrogate_norms(random, (20,) * 5, 200_000)[:, -1]
    logs = np.log(drawn[drawn > 0])
    assert agrees(mean, logs)
    assert agrees(variance, (logs - mean) ** 2)
    assert agrees(third, (logs - mean) ** 3)
    for layers in (20, 100, 200):
        widths = (200,) * (layers + 1)
        beta = rp.aspect(widths)
        assert beta == pytest.approx(5 * layers / 200)
        mean, variance, _ = rp.log_norm(widths)
        assert mean == pytest.approx(-beta / 2, rel=0.02)
        assert variance == pytest.approx(beta, rel=0.02)
    # the next order is 1/n of it
    excess = [rp.log_norm((n, n)).variance / (5 / n) - 1 for n in (500, 1000)]
    assert excess[0] / excess[1] == pytest.approx(2, rel=0.02)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: rp.fourth_moment((3,)), "widths"),
        (lambda: rp.fourth_moment((3, 0)), "widths"),
        (lambda: rp.fourth_moment((3, 4), kurtosis=0.5), "kurtosis"),
        (lambda: rp.draw_weights(np.random.default_rng(0), (3, 4), 2, law="cauchy"), "law"),
        (lambda: rp.draw_weights(np.random.default_rng(0), (3, 4), 0), "draws"),
        (lambda: rp.log_norm((3, 4.5)), "widths"),
    ],
)
def test_what_has_no_meaning_is_refused_by_name(call, named):
    with pytest.raises(ValueError, match=f"`{named}`"):
        call()
