"""Bounds on how far means over neurons stray."""

import math

import numpy as np
import pytest
from scipy import stats

from secant.theory.wide import concentration


@pytest.mark.parametrize("dim", [1, 8, 64])
@pytest.mark.parametrize("t", [2.0, 3.0, 4.0])
def test_signs_on_a_diagonal_exceed_no_more_often_than_bernstein_says(dim, t):
    n = 100
    one = 2 * stats.binom.sf(math.floor((n + t * math.sqrt(n)) / 2), n, 0.5)
    seen = 1 - (1 - one) ** dim
    bound = float(concentration.bernstein_tail(t, 1.0, 1 / math.sqrt(n), dim))
    assert seen <= bound
    # within what a bound may waste: an exponential with twice the exponent would be exceeded
    assert bound == pytest.approx(2 * dim * math.exp(-(t**2) / (2 + 2 * t / 30)), rel=1e-12)


def test_entries_stay_within_their_distance():
    random, n, m = np.random.default_rng(0), 6, 200
    x = random.normal(size=(n, 4))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    cosine = np.clip(x @ x.T, -1, 1)
    limit = cosine * (np.pi - np.arccos(cosine)) / (2 * np.pi)
    gates = random.normal(size=(300, m, 4)) @ x.T > 0
    apart = np.abs(cosine * np.mean(gates[..., None] & gates[..., None, :], axis=1) - limit).max((1, 2))
    assert (apart > float(concentration.entry_distance(m, n, 0.5))).mean() <= 0.5
    assert apart.max() < float(concentration.entry_distance(m, n, 1e-3))
    assert apart.max() > float(concentration.entry_distance(m, n, 0.5)) / 4


def test_distance_and_width_belong_together():
    m = concentration.enough_neurons(0.1, 10, 0.01)
    assert 10 * concentration.entry_distance(m, 10, 0.01) == pytest.approx(0.1, rel=1e-12)
