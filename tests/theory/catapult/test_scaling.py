"""Peak, time and final curvature: the width drops out, and the small-excess series."""

import jax.numpy as jnp
import numpy as np
import pytest

from secant.theory.catapult import one_sample as ct
from secant.theory.catapult import scaling as cs

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
        outcome = cs.catapult_outcome(STARTS / np.sqrt(width), v, steps=600)
        peak, final = np.asarray(outcome.peak), np.asarray(outcome.curvature)
        assert np.all((peak > peaks[0]) & (peak < peaks[1]))
        assert np.all((final > finals[0]) & (final < finals[1]))


def test_the_time_to_peak_grows_like_log_width():
    widths = np.array([1e4, 1e6, 1e8])
    times = np.mean(cs.catapult_outcome(STARTS / np.sqrt(widths)[:, None], 3.0).time, axis=1)
    predicted = np.asarray(cs.time_to_peak(1.0, widths))
    np.testing.assert_allclose(np.diff(times), np.diff(predicted), atol=0.15)
    assert np.all(np.abs(times - predicted) < 2)


def test_small_excess_series():
    deltas = np.array([0.01, 0.02, 0.04])
    a = STARTS[:, None] / 1e5
    outcome = cs.catapult_outcome(a, 2 + deltas, steps=6000)
    curvature = np.mean(outcome.curvature, axis=0)
    peak = np.max(outcome.peak, axis=0)
    assert np.all(np.abs(curvature - np.asarray(cs.small_excess_curvature(deltas))) < 1.0 * deltas**3)
    assert np.all(np.abs(peak - np.asarray(cs.small_excess_peak(deltas))) < 1.0 * deltas**4)


def test_the_product_rule_gives_the_final_curvature():
    state, squares = ct.Catapult(0.01, 3.3), []
    for _ in range(300):
        squares.append(state.a**2)
        state = ct.step(state.a, state.v)
    np.testing.assert_allclose(cs.final_curvature(3.3, jnp.asarray(squares)), state.v, atol=1e-12)


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
        state = ct.Catapult(np.sqrt(start / m), v)
        b = sign * pull / m**0.5
        for _ in range(60):
            assert abs(float(state.v) - v) <= drift
            assert float(ct.growth(state.a, state.v, b)) ** 2 <= ceiling
            state = ct.step(state.a, state.v, b)


def test_lazy_bounds_are_what_the_geometric_series_give():
    # 8 (C_u + C sqrt C_u) / (m delta), with C_u = 0.25 and C = 0.6; and (8 + delta) times the same in the growth.
    drift, ceiling = cs.lazy_bounds(0.5, 1000.0, 0.25, 0.6)
    np.testing.assert_allclose(drift, 8 * 0.55 / 500, rtol=1e-12)
    np.testing.assert_allclose(ceiling, (1 - 0.5 + 8.5 * 0.55 / 500) ** 2, rtol=1e-12)


def test_the_ceiling_of_the_drift_is_half_used_where_the_pull_is_all():
    # With u0 far below |w0| the curvature moves by 4 |w0| / delta: half of the ceiling.
    m, start, pull, v = 1e8, 1e-4, 50.0, 0.05
    a, b = np.sqrt(start / m), pull / np.sqrt(m)
    end = cs.catapult_outcome(a, v, b, steps=3000).curvature
    drift, _ = cs.lazy_bounds(v, m, start, pull)
    assert float(abs(end - v) / drift) == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("excess", [0.5, 1.0, 1.6])
def test_the_increasing_phase_keeps_its_guarantees(excess):
    m, start, pull = 1e6, 1.0, 0.5
    assert bool(cs.increasing_phase_applies(excess, m, start, pull))
    phase = cs.increasing_phase(excess, m, pull)
    state, b = ct.Catapult(np.sqrt(start / m), 2 + excess), pull / m**0.5
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


def test_the_slowest_contraction_is_the_largest_ratio_of_losses():
    a, v, b = np.array([0.01, -0.02, 0.03]), np.array([0.4, 1.3, 1.9]), np.array([0.001, 0.0, -0.002])
    expected, now, curvature = np.zeros(3), a, v
    for _ in range(30):
        after, curvature = map(np.asarray, ct.step(now, curvature, b))
        expected, now = np.maximum(expected, (after / now) ** 2), after
    np.testing.assert_allclose(cs.slowest_contraction(a, v, b, 30), expected, rtol=1e-12)
    assert np.all(np.asarray(cs.slowest_contraction(a, v, b, 5_000)) < 1)


def test_the_loss_begins_to_rise_at_the_critical_step():
    """Of a wide model at two over the curvature; of any between two neighbours of a fine grid."""
    assert cs.rising_edge(0.3, 1.0, 1e8, 0.0, 200) == pytest.approx(1.0, abs=1e-3)
    narrow = cs.rising_edge(0.3, 1.0, 50.0, 0.0, 200)
    lr = 2 * (narrow + np.array([-1, 1]) / 4_000)
    start = ct.rescale(0.3, 1.0, lr, 50.0, 0.0)
    rose = np.asarray(cs.catapult_outcome(start.a, start.v, steps=200).peak) > np.asarray(start.a**2) * (1 + 1e-9)
    assert rose.tolist() == [False, True]
