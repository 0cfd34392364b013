"""Products of equal factors explode past a step size."""

import numpy as np
import pytest
from scipy.special import expit

from secant.theory.normalization import factors

SIGNS = np.array([1, 1, 1, -1, -1])


def slope(product):
    return float(-SIGNS @ expit(-SIGNS * product))


def run(ratio, k=4, start=2.0, steps=4):
    lr = ratio * factors.exploding_lr(start, slope(start), k)
    path = [start]
    for _ in range(steps):
        path.append(float(factors.step(path[-1], slope(path[-1]), k, lr)))
    return path


def test_golden_products():
    assert slope(2.0) == pytest.approx(1.4040, abs=5e-5)
    assert factors.exploding_lr(2.0, slope(2.0), 4) == pytest.approx(1.007285, abs=5e-7)
    np.testing.assert_allclose(run(1.01, steps=3), [2, 2.165, 4.847, 642], rtol=1e-3)
    np.testing.assert_allclose(run(0.99, steps=2), [2, 1.845, 0.699], rtol=1e-3)
    printed = 2 / slope(2.0) * 2 ** (1 / 4 - 1)
    assert printed == pytest.approx(0.84702, abs=5e-6)
    ratio = 1.01 * printed / factors.exploding_lr(2.0, slope(2.0), 4)
    np.testing.assert_allclose(run(ratio), [2, 0.476, 0.388, 0.406, 0.405], atol=6e-4)


@pytest.mark.parametrize("k", [4, 6, 8])
@pytest.mark.parametrize("start", [0.6, 2.0, 5.0])
def test_past_the_threshold_it_only_grows(k, start):
    assert (np.diff(run(1.01, k, start, 3)) > 0).all()
    assert run(0.99, k, start, 1)[1] < start


@pytest.mark.parametrize("k", [3, 1])
def test_an_odd_number_of_factors_is_refused(k):
    with pytest.raises(ValueError, match="`factors` must be"):
        factors.exploding_lr(2.0, 1.0, k)
    with pytest.raises(ValueError, match="`factors` must be"):
        factors.step(2.0, 1.0, k, 0.1)


def test_what_has_no_meaning_is_refused_by_name():
    with pytest.raises(ValueError, match="`slope`"):
        factors.exploding_lr(2.0, -1.0, 4)
    with pytest.raises(ValueError, match="`product`"):
        factors.exploding_lr(0.0, 1.0, 4)
