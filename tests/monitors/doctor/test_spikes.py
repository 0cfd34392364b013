"""Spikes of made-up records of known cause, and the statistics behind them against runs of parabolas and noise."""

import math
from pathlib import Path

import numpy as np
import pytest
from made_up import falling, record

from secant.monitors import Watched, spikes
from secant.monitors.doctor.reading import Rule, loads_of, rule_of, spread_of
from secant.monitors.doctor.spikes import WINDOW, limits, staleness


@pytest.mark.parametrize("beta", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("load", [0.3, 0.9, 1.0, 1.05, 2.0])
def test_growth_at_a_load_is_that_of_a_parabola(beta, load):
    step = [[1 + beta - 2 * (1 + beta) * load, -beta], [1, 0]]  # of (x, the last x)
    radius = np.abs(np.linalg.eigvals(step)).max()
    assert Rule("sgd", beta, None, True).growth(load) == pytest.approx(radius**2, rel=1e-6)


def test_noise_of_heavy_tails_is_seldom_a_spike():
    random, alarms = np.random.default_rng(0), 0
    for _ in range(200):
        alarms += bool(spikes(record(np.exp(random.laplace(scale=0.3, size=500)))))
    assert alarms <= 10  # two are expected; more than ten come once in 60,000


def test_noise_of_a_short_record_is_seldom_a_spike():
    random, alarms = np.random.default_rng(1), 0
    for _ in range(200):
        alarms += bool(spikes(record(falling(40, 0.9) * np.exp(random.laplace(scale=0.3, size=40)))))
    assert alarms <= 20  # a quartile of forty is off by a third


def test_a_limit_is_at_least_a_factor_of_two_and_grows_with_noise():
    calm, wild = falling(), np.exp(np.random.default_rng(0).laplace(scale=1.0, size=200))
    assert np.allclose(limits(calm)[1], math.log(2))
    assert np.median(limits(wild)[1]) > 5


@pytest.mark.parametrize("steps", [26, 60, 101, 400])
def test_limits_are_medians_and_quartiles_of_what_came_before(steps):
    """Written out step by step, with losses that are not finite in between."""
    random = np.random.default_rng(steps)
    loss = np.exp(random.laplace(scale=0.5, size=steps))
    loss[random.random(steps) < 0.1] = np.nan
    loss[steps // 2 : steps // 2 + steps // 8] = np.inf
    usual, limit = limits(loss)
    y = np.log(np.where(np.isnan(loss), np.inf, loss))
    np.testing.assert_array_equal(usual, [np.median(y[max(t - WINDOW, 0) : t]) if t else y[0] for t in range(steps)])
    with np.errstate(invalid="ignore"):
        rest = y - usual
    sound = np.flatnonzero(np.isfinite(rest) & (np.arange(steps) >= WINDOW))
    if len(sound) < WINDOW:
        return
    far = np.abs(rest - np.median(rest[sound]))
    whole = np.quantile(far[sound], 0.25)
    late = [far[sound[(sound >= t - 4 * WINDOW) & (sound < t)]] if t >= 4 * WINDOW else far[:0] for t in range(steps)]
    scale = [max(whole, np.quantile(near, 0.25)) if len(near) else whole for near in late]
    expected = np.array(scale) / math.log(4 / 3) * math.log(steps / 0.02)
    np.testing.assert_allclose(limit, np.maximum(expected, math.log(2)), rtol=1e-12)


def test_a_jump_that_curvature_does_not_explain_is_a_bad_batch():
    loss, norms = falling(), falling()
    loss[95:100] *= [40, 20, 10, 5, 3]
    norms[95] *= 30
    (found,) = spikes(record(loss, gradient_norm=norms))
    assert (found.cause, found.onset, found.harmful) == ("bad batch", 94, True)
    assert found.load == pytest.approx(0.5)
    assert found.numbers["gradient_jump"] == pytest.approx(30, rel=0.3)
    loss[96:100] = falling()[96:100]
    (found,) = spikes(record(loss))
    assert not found.harmful


def test_growth_over_the_edge_is_a_catapult_and_without_looks_has_no_cause():
    loss = falling()
    loss[100:112] = loss[99] * 1.5 ** np.r_[1:8, 6:1:-1]
    (found,) = spikes(record(loss, load=lambda t: 1.1 if 80 <= t <= 110 else 0.6))
    assert found.cause == "catapult"
    assert found.load == pytest.approx(1.1)
    (found,) = spikes(record(loss, load=None))
    assert found.cause == "unknown"
    assert math.isnan(found.load)


def test_a_step_size_that_was_raised_raises_the_load_of_the_look_before():
    loss = falling()
    loss[101:112] = loss[99] * 1.6 ** np.r_[1:8, 5:1:-1]
    run = record(loss, load=lambda t: 0.4 if t < 100 else 1.6)
    for row in run.rows[99:]:
        row["lr"] = 0.4
    (found,) = spikes(run)
    assert (found.cause, found.look) == ("catapult", 90)
    assert found.load == pytest.approx(1.6)


def test_a_second_moment_that_lags_is_named_and_one_that_does_not_is_not():
    loss = falling(400, 0.97)
    loss[350:370] = loss[349] * 1.4 ** np.r_[1:11, 10:0:-1]
    over = {"optimiser": {"name": "adam", "b1": 0.9, "b2": 0.99}, "load": lambda t: 1.05 if t > 330 else 0.7}
    (found,) = spikes(record(loss, gradient_norm=falling(400, 0.98), **over))
    assert found.cause == "stale second moment"
    (found,) = spikes(record(loss, gradient_norm=np.ones(400), **over))
    assert found.cause == "catapult"


def test_what_the_second_moment_remembers_is_what_adam_averages():
    norms, b2 = np.random.default_rng(0).uniform(1, 2, 50), 0.9
    run = record(np.ones(50), optimiser={"name": "adam", "b2": b2}, gradient_norm=norms)
    nu = 0.0
    for norm in norms:
        nu = b2 * nu + (1 - b2) * norm**2
    expected = math.sqrt(nu / (1 - b2**50)) / np.median(norms[-3:])
    assert staleness(run, rule_of(run), 49) == pytest.approx(expected, rel=1e-12)


def test_a_scaler_that_falls_before_numbers_end_is_an_overflow():
    loss = falling()
    loss[150:] = math.nan
    scale = np.where(np.arange(200) < 140, 65536.0, 1024.0)
    (found,) = spikes(record(loss, scaler=scale))
    assert found.cause == "overflow"
    assert found.numbers["scaler_fell"] == 64


def test_an_overflow_of_one_step_that_was_left_out_does_no_harm():
    loss = falling()
    loss[150] = math.inf
    scale = np.where(np.arange(200) <= 150, 65536.0, 32768.0)
    (found,) = spikes(record(loss, scaler=scale))
    assert (found.cause, found.harmful) == ("overflow", False)
    loss[150:160] = math.inf
    (found,) = spikes(record(loss, scaler=scale))
    assert found.harmful


def test_an_overflow_names_the_scale():
    loss = falling()
    loss[150:] = math.nan
    (found,) = spikes(record(loss, scaler=2.0 ** (np.arange(200) // 10)))
    assert found.cause == "overflow"
    assert found.numbers["scaler"] == 2.0**14


def test_arithmetic_noise_below_single_precision_is_no_spike():
    loss = falling(200, 0.8)
    loss[150] *= 50  # from 3e-15 of the first
    assert spikes(record(loss)) == []


@pytest.mark.parametrize("loss", [[], [1.0], [math.nan], [math.inf, math.nan], [0.0, 0.0, 0.0], [-1.0, -2.0, -1.5]])
def test_short_and_odd_records_are_read(loss):
    spikes(record(loss))


def test_loads_come_from_what_there_is():
    rows = [
        {"step": 0, "lr": 0.1, "batch_sharpness": 10.0, "stable_multiple": 4.0},
        {"step": 1, "lr": 0.1, "sharpness": 30.0, "threshold": 20.0},
        {"step": 2, "sharpness": 30.0},
    ]
    found = loads_of(Watched(Path("run"), {"optimiser": "sgd"}, rows, []))
    assert found.values.tolist() == [1.5, 1.5]
    assert found.whole.all()
    found = loads_of(Watched(Path("run"), {"optimiser": "sgd"}, rows[:1], []))
    assert found.values.tolist() == [0.5]
    assert not found.whole.any()
    found = loads_of(Watched(Path("run"), {"optimiser": "unheard-of"}, rows[:1], []))
    assert found.values.tolist() == [0.25]
    split = [{"step": 1, "sharpness": 30.0}, {"step": 0, "lr": 0.1}, {"step": 1, "threshold": 20.0}]
    assert loads_of(Watched(Path("run"), {}, split, [])).values.tolist() == [1.5]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("sgd", Rule("sgd", 0.0, None, True)),
        ({"name": "sgd", "momentum": 0.8, "lr": 0.1}, Rule("sgd", 0.8, None, True)),
        ({"name": "AdamW", "betas": [0.8, 0.95]}, Rule("adamw", 0.8, 0.95, True)),
        ({"name": "adam", "b2": 0.99, "lr": 1e-3}, Rule("adam", 0.0, 0.99, True)),
        (None, Rule("", 0.0, None, False)),
        ({"name": 3, "b2": "x"}, Rule("3", 0.0, None, False)),
    ],
)
def test_the_optimiser_is_what_the_record_says(said, expected):
    assert rule_of(Watched(Path("run"), {"optimiser": said}, [], [])) == expected


def test_spread_is_that_of_noise_and_not_of_a_trend():
    random = np.random.default_rng(0)
    values = np.exp(np.linspace(0, 3, 400) + 0.2 * random.normal(size=400))
    assert spread_of(values) == pytest.approx(0.04, rel=0.3)
    assert spread_of(np.ones(3)) == 0
