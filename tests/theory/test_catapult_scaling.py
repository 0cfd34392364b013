"""Peak, time and final curvature: the width drops out, and the small-excess series."""

import jax.numpy as jnp
import numpy as np
import pytest

from secant.theory import catapult as ct
from secant.theory import catapult_scaling as cs

STARTS = np.geomspace(0.3, 2.0, 24)


@pytest.mark.parametrize(
    ("v", "peaks", "finals"),
    [
        (2.2, (0.022, 0.024), (1.766, 1.772)),
        (2.5, (0.155, 0.175), (1.280, 1.284)),
        (3.0, (0.64, 0.85), (0.18, 0.25)),
    ],
)
def test_peak_and_final_curvature_do_not_depend_on_the_width(v, peaks, finals):
    for width in (1e4, 1e6, 1e8):
        outcome = cs.catapult_outcome(STARTS / jnp.sqrt(width), v, steps=600)
        assert jnp.all((outcome.peak > peaks[0]) & (outcome.peak < peaks[1]))
        assert jnp.all((outcome.curvature > finals[0]) & (outcome.curvature < finals[1]))


def test_the_time_to_peak_grows_like_log_width():
    widths = np.array([1e4, 1e6, 1e8])
    times = np.mean(cs.catapult_outcome(STARTS / np.sqrt(widths)[:, None], 3.0).time, axis=1)
    predicted = np.asarray(cs.time_to_peak(1.0, widths))
    np.testing.assert_allclose(np.diff(times), np.diff(predicted), atol=0.15)
    assert np.all(np.abs(times - predicted) < 2)


def test_small_excess_series():
    deltas = jnp.array([0.01, 0.02, 0.04])
    a = STARTS[:, None] / 1e5
    outcome = cs.catapult_outcome(a, 2 + deltas, steps=6000)
    curvature = jnp.mean(outcome.curvature, axis=0)
    peak = jnp.max(outcome.peak, axis=0)
    assert jnp.all(jnp.abs(curvature - cs.small_excess_curvature(deltas)) < 1.0 * deltas**3)
    assert jnp.all(jnp.abs(peak - cs.small_excess_peak(deltas)) < 1.0 * deltas**4)


def test_the_product_rule_gives_the_final_curvature():
    state, squares = ct.Catapult(jnp.asarray(0.01), jnp.asarray(3.3)), []
    for _ in range(300):
        squares.append(state.a**2)
        state = ct.step(state.a, state.v)
    np.testing.assert_allclose(cs.final_curvature(3.3, jnp.stack(squares)), state.v, atol=1e-12)


def test_lazy_drift_is_the_leading_term():
    v, y = 1.3, 0.5
    errors = []
    for m in (1e4, 1e5):
        a, b = 0.8 / m**0.5, y / m**0.5
        end = cs.catapult_outcome(a, v, b, steps=400).curvature
        errors.append(abs(float(end - v - cs.lazy_drift(a * a, v, a * b))) * m**2)
    assert max(errors) < 30
    np.testing.assert_allclose(errors[0], errors[1], rtol=0.05)


@pytest.mark.parametrize("v", [0.3, 1.0, 1.8])
def test_lazy_bounds_hold(v):
    m, start, pull = 2e4, 0.6, 0.7
    excess = min(v, 2 - v)
    drift, ceiling = cs.lazy_bounds(excess, m, start, pull)
    for sign in (1, -1):
        state = ct.Catapult(jnp.sqrt(start / m), jnp.asarray(v))
        b = sign * pull / m**0.5
        for _ in range(60):
            assert abs(float(state.v) - v) <= drift
            assert float(ct.growth(state.a, state.v, b)) ** 2 <= ceiling
            state = ct.step(state.a, state.v, b)


@pytest.mark.parametrize("excess", [0.5, 1.0, 1.6])
def test_the_increasing_phase_keeps_its_guarantees(excess):
    m, start, pull = 1e6, 1.0, 0.5
    assert bool(cs.increasing_phase_applies(excess, m, start, pull))
    phase = cs.increasing_phase(excess, m, pull)
    state, b = ct.Catapult(jnp.sqrt(start / m), jnp.asarray(2 + excess)), pull / m**0.5
    steps = 0
    while float(state.a) ** 2 <= phase.square:
        assert float(ct.growth(state.a, state.v, b)) ** 2 >= phase.growth
        assert abs(float(state.v) - 2 - excess) <= phase.drift
        state = ct.step(state.a, state.v, b)
        steps += 1
    assert steps > 3


def test_narrow_networks_are_refused_by_the_increasing_phase():
    assert not bool(cs.increasing_phase_applies(0.5, 50, 1.0, 0.5))


def test_the_curvature_falls_above_the_threshold_and_the_threshold_is_sharp():
    v, width, pull = 2.0, 100.0, 1.0
    threshold = float(cs.decrease_threshold(v, width, pull))
    assert threshold == pytest.approx(0.04)
    for u, falls in ((1.01 * threshold, True), (0.99 * threshold, False), (0.02, False)):
        after = ct.step(-np.sqrt(u), v, pull / np.sqrt(width))
        assert bool(after.v < v) is falls
    assert float(ct.step(-np.sqrt(0.02), 2.0, 0.1).v) == pytest.approx(2.0166, abs=1e-4)


def test_regimes():
    codes = cs.regime(0.01, jnp.array([1.9, 2.1, 3.9, 4.1]))
    assert codes.tolist() == [cs.MONOTONE, cs.CATAPULT, cs.CATAPULT, cs.DIVERGENT]
    runs = jnp.array([[1.0, 0.5, 0.1], [1.0, 3.0, 0.1], [1.0, 3.0, 9.0], [1.0, 9.0, jnp.nan]])
    assert cs.classify_run(runs).tolist() == [cs.MONOTONE, cs.CATAPULT, cs.DIVERGENT, cs.DIVERGENT]
