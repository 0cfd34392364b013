"""Hitting times and equilibrium under weight decay."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secant.theory.normalization import weight_decay as wd

RHO = 15.934578


def test_hitting_times_grow_as_the_logarithm_of_the_start():
    assert [wd.hitting_time(start, 0.01, 0.01, RHO) for start in (1e-3, 10, 1e3)] == [86342, 35762, 81814]
    assert wd.gradient_floor(0.01, 0.01, RHO) == pytest.approx(19.79, abs=0.005)
    assert wd.rising_time(0.01, 0.01) == 1667
    start = 5 * math.sqrt(wd.turning_norm(0.01, RHO))
    assert wd.falling_time(start, 0.01, 0.01, RHO) == math.ceil(math.log(50) / 2e-4)
    # The bound is the sum of both ways.
    assert wd.falling_time(start, 0.01, 0.01, RHO) < wd.hitting_time(start, 0.01, 0.01, RHO)


@given(lr=st.floats(1e-3, 1), product=st.floats(1e-6, 0.3), gradient=st.floats(0.1, 10), seed=st.integers(0, 99))
@settings(max_examples=20, deadline=None)
def test_orthogonal_steps_of_one_size_settle_at_the_equilibrium(lr, product, gradient, seed):
    found = wd.equilibrium(lr, product / lr, gradient)
    exact = gradient * math.sqrt(lr**2 / (1 - (1 - product) ** 2))  # the fixed point of |w|^2
    assert found.norm**2 == pytest.approx(exact, rel=product)
    w = np.random.default_rng(seed).normal(size=2)
    w *= math.sqrt(exact) / np.linalg.norm(w)
    step = (1 - product) * w + lr * gradient / (w @ w) * np.array([-w[1], w[0]])
    assert np.linalg.norm(step) == pytest.approx(np.linalg.norm(w), rel=1e-12)
    cosine = w @ step / np.linalg.norm(w) / np.linalg.norm(step)
    assert cosine == pytest.approx(math.cos(found.angle), abs=1e-12)
    assert found.effective_lr == pytest.approx(lr / found.norm**2, rel=1e-12)
    assert wd.decay_for_angle(lr, found.angle) == pytest.approx(product / lr, rel=1e-6)


@pytest.mark.parametrize("start", [1.2, 2.0, 6.0])
def test_the_norm_on_its_way(start):
    lr, decay, gradient, steps = 0.1, 1e-2, 1.5, 4000
    square = start**2
    path = [square]
    for _ in range(steps):
        square = (1 - lr * decay) ** 2 * square + lr**2 * gradient**2 / square
        path.append(square)
    predicted = wd.norm_after(np.arange(steps + 1), start, lr, decay, gradient)
    np.testing.assert_allclose(np.sqrt(path), predicted, rtol=0.01)
    assert path[-1] == pytest.approx(wd.equilibrium(lr, decay, gradient).norm ** 2, rel=1e-3)


@given(norm=st.floats(0.1, 10), gradient=st.floats(0, 5), lr=st.floats(1e-3, 1), product=st.floats(0, 0.5))
@settings(max_examples=50, deadline=None)
def test_the_sharper_descent_implies_the_plain_one(norm, gradient, lr, product):
    sharp = wd.least_descent(norm, gradient, lr, product / lr, 2.0)
    assert sharp >= lr * (1 - 2 * 2.0 * lr / norm**2) * gradient**2 * (1 - 1e-12) - 1e-12


def test_descent_near_the_minimum_of_a_parabola_on_the_sphere():
    """L = t^2 beside a minimum, smoothness 2: t becomes t (1 - 2 lr/(|w|^2 (1 - lr decay)))."""
    norm, lr, decay, t = 1.5, 0.4, 0.5, 0.1
    after = t * (1 - 2 * lr / (norm**2 * (1 - lr * decay)))
    assert wd.least_descent(norm, 2 * t / norm, lr, decay, 2.0) == pytest.approx(t**2 - after**2, rel=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: wd.equilibrium(0.5, 2.0, 1.0), "equilibrium: `lr` times `decay` must be below 1"),
        (lambda: wd.equilibrium(0.5, -1.0, 1.0), "`decay`"),
        (lambda: wd.equilibrium(0.5, 0.1, 0.0), "`gradient`"),
        (lambda: wd.hitting_time(0.0, 0.1, 0.1, 1.0), "`start` is 0, .* no direction"),
        (lambda: wd.hitting_time(1.0, 1.0, 0.5, 1.0), "must be below 1/2"),
        (lambda: wd.falling_time(0.1, 1.0, 0.1, 1.0), "`start` squared must be above"),
        (lambda: wd.decay_for_angle(0.1, 2.0), "`angle` must be below pi/2"),
        (lambda: wd.least_descent(0.0, 1.0, 0.1, 0.1, 1.0), "`norm` must be above 0"),
        (lambda: wd.gradient_floor(0.1, 0.1, 0.0), "`smoothness`"),
        (lambda: wd.norm_after(3, 0.0, 0.1, 0.1, 1.0), "`start`"),
    ],
)
def test_what_has_no_meaning_is_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()
