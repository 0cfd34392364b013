"""The average of the noise along a run, against noise that is known."""

import math

import numpy as np
import pytest

from secant.monitors.critical_batch import Noise


def looks(random, size, trace, batch, dimension=50):
    """Estimates from two halves of a batch, of a gradient whose square is `size`."""
    gradient = np.full(dimension, math.sqrt(size / dimension))
    halves = gradient + random.normal(size=(2, dimension)) * math.sqrt(trace / dimension / (batch / 2))
    apart, mean = ((halves[0] - halves[1]) ** 2).sum() / 4, (halves.mean(0) ** 2).sum()
    return batch * apart, mean - apart


@pytest.mark.parametrize("fall", [1.0, 0.8, 0.5, 1.3])
def test_the_critical_batch_is_found_while_gradients_shrink_or_grow(fall):
    random, found = np.random.default_rng(0), []
    for _ in range(100):
        noise = Noise()
        for look in range(40):
            last = noise.add(*looks(random, fall**look, 30 * fall**look, 16), 16)
        found.append(last)
    assert np.median(found) == pytest.approx(30, rel=0.15)


def test_what_has_become_noisy_is_seen_soon_though_gradients_shrank():
    noise, random = Noise(), np.random.default_rng(1)
    for _ in range(20):
        before = noise.add(*looks(random, 1.0, 10.0, 64), 64)
    for _ in range(30):
        after = noise.add(*looks(random, 1e-4, 400 * 1e-4, 64), 64)
    assert before == pytest.approx(10, rel=0.3)
    assert after > 200


def test_noise_alone_is_infinite_or_far_beyond_the_batch():
    random, found = np.random.default_rng(2), []
    for _ in range(50):
        noise = Noise()
        found.append([noise.add(*looks(random, 0.0, 1.0, 8), 8) for _ in range(30)][-1])
    assert np.median(found) > 80


def test_odd_looks_are_passed_by():
    noise = Noise()
    assert math.isnan(noise.add(math.nan, 1.0, 8))
    assert math.isnan(noise.add(0.0, 0.0, 8))
    assert noise.add(3.0, 1.0, 8) == pytest.approx(3)
    assert math.isnan(noise.add(math.inf, 1.0, 8))
    assert noise.add(3.0, 1.0, 8) == pytest.approx(3)
