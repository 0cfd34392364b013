"""Rates of first-order methods, with their constants."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secant.theory.descent import rates
from secant.theory.edge import stability

squares = st.lists(st.floats(1e-3, 10.0), min_size=1, max_size=40).map(np.array)


def descend(gradient, w, steps, lr):
    """The points of gradient descent."""
    path = [np.asarray(w, float)]
    for _ in range(steps):
        path.append(path[-1] - lr * gradient(path[-1]))
    return np.stack(path)


def test_a_step_on_a_parabola_lowers_it_by_exactly_so_much():
    w, curvature, lr = 1.7, 3.0, 0.21
    after = w - lr * curvature * w
    drop = curvature / 2 * (w**2 - after**2)
    assert drop == pytest.approx(rates.descent(lr, curvature) * (curvature * w) ** 2, rel=1e-13)


@given(st.integers(0, 10_000), st.integers(1, 60))
def test_sines_stay_below_both_bounds_of_gradient_descent(seed, steps):
    path = descend(np.cos, np.random.default_rng(seed).uniform(-4, 4, 6), steps, 1.0)
    values, squares = np.sin(path).sum(1), (np.cos(path[:-1]) ** 2).sum(1)
    drop = values[0] - values[-1]
    assert squares.mean() <= rates.gradient_descent(drop, 1.0, steps) + 1e-12
    assert squares.min() <= rates.least_gradient(drop, 1.0, steps) + 1e-12


@pytest.mark.parametrize("smooth", [1.0, 2.5])
@pytest.mark.parametrize("steps", [1, 2, 7])
def test_the_staircase_attains_the_bound_of_the_least_gradient(steps, smooth):
    path = descend(lambda w: rates.staircase(w, steps, smooth)[1], 0.0, steps, 1 / smooth)
    values, slopes = rates.staircase(path, steps, smooth)
    np.testing.assert_allclose(slopes[:-1], 1, atol=1e-12)
    assert rates.least_gradient(values[0] - values[-1], smooth, steps) == pytest.approx(1, abs=1e-12)


def test_the_staircase_is_smooth_and_its_slope_is_its_derivative():
    w = np.linspace(-3.5, 0.5, 4_001)
    values, slopes = rates.staircase(w, 3)
    middle = (slopes[1:] + slopes[:-1]) / 2
    # The slope is piecewise linear with corners at multiples of a half, which are points of the grid.
    np.testing.assert_allclose(np.diff(values) / np.diff(w), middle, atol=1e-9)
    assert np.abs(np.diff(slopes) / np.diff(w)).max() == pytest.approx(1, abs=1e-9)


def test_constants_of_stochastic_gradient_descent():
    drop, smooth, moment, steps = 2.0, 0.7, 3.0, 400
    unit = math.sqrt(drop * smooth * moment / steps)
    stated = math.sqrt(drop / (smooth * moment * steps))
    assert rates.stochastic(drop, smooth, moment, steps, stated) == pytest.approx(1.5 * unit)
    assert rates.stochastic(drop, smooth, moment, steps) == pytest.approx(math.sqrt(2) * unit)
    best = rates.stochastic_step(drop, smooth, moment, steps)
    around = rates.stochastic(drop, smooth, moment, steps, best * np.linspace(0.5, 2, 101))
    assert around.min() >= rates.stochastic(drop, smooth, moment, steps) - 1e-12


@pytest.mark.parametrize("batch", [1, 10, 1_000])
def test_a_plan_with_batches_reaches_its_accuracy(batch):
    plan = rates.batch_plan(2.0, 3.0, 5.0, batch, 0.1)
    assert rates.batches(2.0, 3.0, 5.0, batch, plan.steps, plan.lr) <= 0.1**2 * (1 + 1e-12)
    assert plan.lr <= 1 / 3 * (1 + 1e-12)


def test_twice_the_batch_is_half_the_steps_up_to_a_size():
    sizes = np.array([1, 2, 500, 999, 1_000, 2_000, 4_000])
    steps = rates.batch_plan(2.0, 3.0, 5.0, sizes, 0.1).steps
    np.testing.assert_allclose(steps * np.minimum(sizes, 1_000), steps[0], rtol=1e-12)


@given(squares)
def test_harmonic_sums_are_below_their_logarithms(a):
    found, bound = rates.harmonic(a)
    assert found <= bound * (1 + 1e-12)
    found, bound = rates.delayed_harmonic(a, math.sqrt(a.max()))
    assert found <= bound * (1 + 1e-12)


def test_harmonic_sums_by_hand():
    assert rates.harmonic([1.0, 1.0, 2.0]) == (pytest.approx(1 + 1 / 2 + 1 / 2), pytest.approx(1 + math.log(4)))
    found, bound = rates.delayed_harmonic(np.array([[1.0, 4.0], [1.0, 0.0]]), 2.0)
    np.testing.assert_allclose(found, [1 / 4 + 1 / 5, 1])
    np.testing.assert_allclose(bound, [math.log2(1.5), 1])


@given(st.integers(0, 10_000), st.integers(2, 60), st.floats(0.3, 3.0))
def test_sines_stay_below_the_bounds_of_adagrad(seed, steps, lr):
    start = np.random.default_rng(seed).uniform(-4, 4, 5)
    w, total, seen, values = start, 0.0, [], [np.sin(start).sum()]
    for _ in range(steps):
        g = np.cos(w)
        total += g @ g
        w = w - lr * g / math.sqrt(total)
        seen.append(g @ g)
        values.append(np.sin(w).sum())
    bound = rates.adagrad_norm(values[0] - values[-1], 1.0, total, seen[0], steps, lr)
    assert np.mean(seen) <= bound + 1e-12
    w, totals, table = start, np.zeros(5), []
    for _ in range(steps):
        g = np.cos(w)
        w = w - lr * g / np.sqrt(totals + 1)
        totals = totals + g**2
        table.append(g**2)
    drop = np.sin(start).sum() - np.sin(w).sum()
    assert np.sum(table) / steps <= rates.adagrad_delayed(drop, 1.0, np.stack(table), 1.0, lr) + 1e-12


def test_rates_of_three_conditions_on_a_parabola():
    curvatures = np.array([10.0, 3.0, 1.0])
    w = np.array([1.0, -2.0, 0.5])
    value = lambda w: (curvatures * w**2).sum() / 2  # noqa: E731
    # The smallest squared gradient over the loss is twice the smallest curvature.
    after = w - curvatures * w / 10
    assert value(after) <= rates.polyak_lojasiewicz(2.0, 10.0) * value(w)
    assert rates.polyak_lojasiewicz(2.0, 10.0) == pytest.approx(0.9)
    flat = np.array([0.0, 0.0, 1.0])  # the worst direction
    assert value(flat - curvatures * flat / 10) / value(flat) == pytest.approx(0.81)
    after = w - curvatures * w / 100
    assert after @ after <= rates.restricted_secant(1.0, 10.0) * (w @ w)
    assert rates.restricted_secant(1.0, 10.0) == pytest.approx(0.99)
    assert rates.restricted_secant(1.0, 10.0, 0.02) == pytest.approx(1 - 0.04 + 0.04)
    path = descend(lambda w: curvatures * w, w, 50, 2 / 20)
    best = min(map(value, path[:-1]))
    assert best <= rates.weakly_quasi_convex(2.0, 20.0, np.linalg.norm(w), 50)


def test_a_quartic_is_slow_though_weakly_quasi_convex():
    path = descend(lambda w: w**3, 1.0, 20_000, 1 / 3)
    value = path**4 / 4
    assert value[-1] * 20_000**2 == pytest.approx(9 / 16, rel=2e-3)
    assert value[:-1].min() <= rates.weakly_quasi_convex(4.0, 4.0, 1.0, 20_000, 1 / 3)
    assert rates.weakly_quasi_convex(4.0, 4.0, 2.0, 10) == pytest.approx(4 * 4 / (16 * 10))


@settings(deadline=None, max_examples=20)
@given(st.floats(1e-6, 1.0), st.floats(1.0, 1e6))
def test_the_best_heavy_ball_shrinks_all_curvatures_alike(low, high):
    tuned = rates.heavy_ball(low, high)
    rule = stability.heavy_ball(tuned.lr, tuned.beta)
    radii = np.asarray(rule.spectral_radius(np.geomspace(low, high, 9)))
    # At both ends the roots meet, and a rounding error of the curvature is felt by its root.
    np.testing.assert_allclose(radii, tuned.factor, atol=1e-3)
    assert tuned.factor == pytest.approx((math.sqrt(high / low) - 1) / (math.sqrt(high / low) + 1), abs=1e-9)


def test_the_optimised_method_promises_half_of_gradient_descent_and_less():
    assert rates.optimised(1.0, 1.0, 1) == pytest.approx(rates.convex_descent(1.0, 1.0, 1) * 0.75)
    np.testing.assert_allclose(rates.optimised_theta(1), [1, 2])
    np.testing.assert_allclose(rates.optimised_theta(2), [1, (1 + math.sqrt(5)) / 2, 2.8422361], atol=1e-6)
    assert rates.convex_descent(3.0, 2.0, 10) == pytest.approx(2 * 9 / 42)
    assert rates.optimised(3.0, 2.0, 1) == pytest.approx(2 * 9 / 8)


def test_what_has_no_meaning_is_refused_by_name():
    with pytest.raises(ValueError, match="`squares`"):
        rates.harmonic([0.0, 1.0])
    with pytest.raises(ValueError, match="`squares` must lie between 0 and sigma"):
        rates.delayed_harmonic([1.0, 5.0], 2.0)
    with pytest.raises(ValueError, match="`high`"):
        rates.heavy_ball(2.0, 1.0)
    with pytest.raises(ValueError, match="`steps`"):
        rates.staircase(0.0, 0)
