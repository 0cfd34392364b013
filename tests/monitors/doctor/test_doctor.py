"""The diagnosis of made-up records, and its numbers against matrices of second moments."""

import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest
from made_up import falling, record

from secant.lab.registry import lookup
from secant.monitors import Watched, diagnose, safe_step
from secant.monitors.doctor.advice import NOISE, noisy_share
from secant.monitors.doctor.diagnosis import VERDICTS
from secant.monitors.doctor.regimes import HALF_PROGRESS, REGIMES, level, state_of
from secant.monitors.doctor.spikes import lost_steps
from secant.monitors.doctor.wording import shown


def moments(beta, mean, variance):
    """One step of the second moments of x, x times the last x, and the last x, of heavy ball on a noisy parabola."""
    a = 1 + beta - mean
    return np.array([[a**2 + variance, -2 * a * beta, beta**2], [a, -beta, 0], [1, 0, 0]])


@pytest.mark.parametrize("beta", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("scatter", [0.0, 0.01, 0.3])
def test_the_noisy_edge_is_where_second_moments_neither_grow_nor_shrink(beta, scatter):
    eta_lambda = 2 * (1 + beta) * noisy_share(beta, scatter)
    border = np.abs(np.linalg.eigvals(moments(beta, eta_lambda, scatter * eta_lambda**2))).max()
    assert border == pytest.approx(1, abs=1e-7)
    below = 0.99 * eta_lambda
    assert np.abs(np.linalg.eigvals(moments(beta, below, scatter * below**2))).max() < 1


@pytest.mark.parametrize("beta", [0.0, 0.9])
def test_at_the_safe_step_a_third_of_the_mean_square_is_noise(beta):
    scatter = 0.05
    eta_lambda = 2 * (1 + beta) * noisy_share(beta, scatter / NOISE)
    source = np.array([1.0, 0, 0])
    with_noise = np.linalg.solve(np.eye(3) - moments(beta, eta_lambda, scatter * eta_lambda**2), source)[0]
    without = np.linalg.solve(np.eye(3) - moments(beta, eta_lambda, 0.0), source)[0]
    assert 1 - without / with_noise == pytest.approx(1 / 3, rel=1e-9)


def test_half_of_the_progress_is_half_of_it():
    eta_lambda = 2 * HALF_PROGRESS
    assert 1 - (1 - eta_lambda) ** 2 == pytest.approx(0.5)  # what a step of 1 over the curvature makes is 1


def test_the_safe_step_is_the_edge_and_a_little_more_for_plain_descent():
    plain = safe_step(record(falling(), load=0.5))
    assert plain.edge == pytest.approx(0.2)
    assert plain.lr == pytest.approx(0.2 * (1 + math.sqrt(2)) / 2)
    heavy = safe_step(record(falling(), optimiser={"name": "sgd", "momentum": 0.9}, load=0.5))
    assert heavy.lr == pytest.approx(0.2)
    first = safe_step(record(falling(), load=lambda t: 1.0 if t == 0 else 0.5), "start")
    assert first.edge == pytest.approx(0.1)
    assert not safe_step(record(falling(), load=None)).known
    with pytest.raises(ValueError, match="'now' or 'start', got 'then'"):
        safe_step(record(falling()), "then")


def test_noise_lowers_the_edge_once_for_plain_descent_and_threefold_with_momentum():
    scattered = np.tile([0.5, 0.6], 10)
    load = lambda t: scattered[t // 10]  # noqa: E731
    plain = safe_step(record(falling(), load=load))
    kappa = (1.4826 * math.log(1.2)) ** 2 / 2  # of neighbours that are a fifth apart
    assert plain.scatter == pytest.approx(kappa)
    assert plain.edge == pytest.approx(plain.bare / (1 + kappa))
    heavy = safe_step(record(falling(), optimiser={"name": "sgd", "momentum": 0.9}, load=load))
    assert heavy.edge == pytest.approx(heavy.bare * 0.1 / (3 * 1.9 * kappa + 0.1))
    begun = safe_step(record(falling(), load=load), "start")
    assert begun.bare == pytest.approx(min(0.1 / 0.5, 0.1 / 0.5 * (1 + math.sqrt(kappa))))  # the median of five looks


REGIME = {
    "stable": {"load": 0.5},
    "edge": {"load": 0.97},
    "step far too small": {"load": 0.05},
    "unknown": {"load": None},
}


@pytest.mark.parametrize("regime", REGIME)
def test_regimes_by_the_load(regime):
    found = diagnose(record(0.5 + falling(400, 0.997), **REGIME[regime]))
    assert found.regime == regime
    assert found.healthy == (regime != "step far too small")
    assert found.as_json()


def test_regimes_by_noise_and_by_the_kernel():
    loss, batch, many = falling(), np.full(200, 64.0), np.full(200, 640.0)
    assert diagnose(record(loss, batch=batch, noise_scale=many)).regime == "noise-dominated"
    sharp = np.full(200, 19.0)
    found = diagnose(record(loss, load=0.6, batch=batch, noise_scale=many, batch_sharpness=sharp))
    assert found.regime == "stochastic edge"
    assert diagnose(record(loss, kernel_drift=np.linspace(0, 0.02, 200))).regime == "lazy"
    assert diagnose(record(loss, kernel_drift=np.linspace(0, 0.5, 200))).regime == "stable"


def test_noise_without_a_gradient_behind_it_dominates():
    loss, batch = falling(), np.full(200, 4.0)
    found = diagnose(record(loss, batch=batch, noise_scale=np.full(200, math.inf)))
    assert found.regime == "noise-dominated"
    assert "no gradient behind the noise" in found.sentences[0].text
    few = np.where(np.arange(200) % 3 == 0, math.inf, 2.0)  # of a third of the looks it is not known
    assert diagnose(record(loss, batch=batch, noise_scale=few)).regime == "stable"


def test_a_run_on_the_same_samples_has_no_noise_of_batches():
    run = record(falling(), batch=np.full(200, 64.0), noise_scale=np.full(200, 640.0))
    assert diagnose(run).regime == "noise-dominated"
    run.about["same_batch"] = True
    found = diagnose(run)
    assert found.regime == "stable"
    assert "critical_batch" not in found.numbers
    assert any(one.about == "batch" and "the same 64 samples" in one.text for one in found.sentences)


def test_edges_of_noisy_descent_are_by_batch_sharpness_and_others_by_the_load():
    loss, batch = falling(), np.full(200, 64.0)
    noisy = {"batch": batch, "noise_scale": np.full(200, 640.0)}
    calm = {"batch": batch, "noise_scale": np.full(200, 6.0)}

    def regime(load, along, optimiser="sgd", **columns):
        return diagnose(record(loss, optimiser, load=load, batch_sharpness=np.full(200, 20 * along), **columns)).regime

    assert regime(1.0, 0.5, **noisy) == "noise-dominated"  # a batch is sharper than all samples
    assert regime(1.5, 0.9, **noisy) == "stochastic edge"
    assert regime(1.5, 0.9, **calm) == "edge"
    assert regime(0.6, 0.9, **calm) == "stable"
    assert regime(1.0, 0.5, {"name": "sgd", "momentum": 0.9}, **noisy) == "edge"


def test_a_scaler_that_loses_most_steps_is_an_overflow_and_one_that_loses_few_is_not():
    every = 2.0 ** -np.arange(200.0)
    found = diagnose(record(np.ones(200), scaler=every))
    assert (found.verdict, found.regime) == ("overflow", "stable")
    assert found.sentences[0].about == "overflow"
    assert found.sentences[0].value == 1
    now_and_then = 2.0 ** (16 - (np.arange(200) % 20 < 2))
    assert lost_steps(record(np.ones(200), scaler=now_and_then)) == pytest.approx(1 / 20, abs=0.02)
    assert diagnose(record(falling(), scaler=now_and_then)).healthy
    assert lost_steps(record(np.ones(200))) == 0
    looks = record(np.ones(40), scaler=2.0 ** (-10.0 * np.arange(40)))  # rows ten steps apart, ten halvings between
    for number, row in enumerate(looks.rows):
        row["step"] = 20 * number
    assert lost_steps(looks) == pytest.approx(0.5)


def test_losses_that_are_never_finite_are_an_overflow_where_a_scaler_fell():
    ended = np.full(200, math.nan)
    assert diagnose(record(ended, scaler=2.0 ** -np.arange(200.0))).verdict == "overflow"
    assert diagnose(record(ended)).verdict == "divergence"


def test_a_catapult_says_which_direction_carried_it():
    rise = 3.0 ** np.r_[np.arange(6), np.arange(6, 0, -1)]
    loss = np.r_[falling(100), 0.98**100 * np.r_[rise, falling(100)]]
    run = record(loss, load=1.4, sharpest_share=np.full(len(loss), 0.93))
    found = diagnose(run)
    assert found.verdict == "catapult"
    assert "The sharpest direction carried 0.93 of the squared gradient" in found.sentences[0].text
    assert found.spikes[0].numbers["sharpest_share"] == 0.93


def test_a_loss_that_ends_is_a_divergence():
    found = diagnose(record([1, 9, 80, 900, 1e5, math.inf], load=3.0))
    assert (found.verdict, found.regime, found.healthy) == ("divergence", "diverging", False)
    assert "not finite" in found.sentences[0].text
    assert json.loads(found.as_json())["spikes"][0]["height"] == "inf"


def test_small_curvature_of_a_fitted_cross_entropy_says_nothing():
    run = record(falling(400), load=0.05)
    run.about["loss"] = "mse"
    assert diagnose(run).verdict == "step too small"
    run.about["loss"] = "cross-entropy"
    found = diagnose(run)
    assert found.verdict == "healthy"
    assert any(one.about == "limits" and "fades" in one.text for one in found.sentences)


@pytest.mark.parametrize(("key", "value"), [("modules", "BatchNorm2d"), ("augmentation", "mixup")])
def test_where_the_theory_does_not_apply_it_says_so(key, value):
    run = record(falling())
    assert all(one.about != "limits" for one in diagnose(run).sentences)
    run.about[key] = value
    assert any(one.about == "limits" for one in diagnose(run).sentences)


def test_every_sentence_has_a_study_or_a_page_of_the_guide():
    lost = falling()
    lost[150:] = math.nan
    rose = np.ones(200)
    rose[120:160] = 1.2 ** np.r_[1:21, 20:0:-1]
    runs = [record(lost, scaler=2.0 ** -np.arange(200.0)), record(lost), record(rose, load=None), record([1.0])]
    guides = set()
    for run in runs:
        for one in diagnose(run).sentences:
            assert bool(one.study) != bool(one.guide), one.text
            guides |= {one.guide} - {""}
    assert {"overflow", "spike", "step", "regime"} <= {
        one.about for run in runs for one in diagnose(run).sentences if one.guide
    }
    for guide in guides:
        name, _, heading = guide.partition("#")
        text = (Path(__file__).parents[3] / "docs" / name).read_text(encoding="utf-8")
        assert f"## {heading.replace('-', ' ')}" in text.lower()
    assert json.loads(diagnose(runs[0]).as_json())["sentences"][0]["guide"] in guides


def test_every_sentence_has_a_number_and_a_study_that_there_is():
    ids = {one.id for one in lookup.entries()}
    bad = falling()
    bad[95:120] *= 40
    columns = {"batch": np.full(200, 64.0), "noise_scale": np.full(200, 30.0), "dead_units": np.full(200, 0.1)}
    runs = [
        record(falling(), **columns),
        record(bad, gradient_norm=bad),
        record([1, 9, 80, 900, math.inf], load=3.0),
        record(falling(400), load=0.05),
        record(falling(), load=0.97),
    ]
    for run in runs:
        found = diagnose(run)
        assert found.verdict in VERDICTS
        assert found.regime in REGIMES
        for one in found.sentences:
            assert one.study in ids, one.text
            assert not math.isnan(one.value), one.text
            assert one.text.endswith(".")


@pytest.mark.parametrize(
    "rows", [[], [{"step": 0}], [{"step": 0, "loss": math.nan}], [{"step": 0, "sharpness": math.inf, "lr": 0.0}]]
)
def test_a_record_of_next_to_nothing_has_a_diagnosis(rows):
    found = diagnose(Watched(Path("run"), {}, rows, []))
    assert json.loads(found.as_json())["verdict"] == found.verdict
    assert state_of(Watched(Path("run"), {}, rows, [])).regime in REGIMES


def test_the_error_of_a_median_is_that_of_its_draws():
    random = np.random.default_rng(0)
    medians = [np.median(random.normal(size=31)) for _ in range(2000)]
    errors = [level(random.normal(size=31)).error for _ in range(400)]
    assert np.mean(errors) == pytest.approx(np.std(medians), rel=0.1)


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (1.0412, 0.0004, "1.0412 ± 0.0004"),
        (2531.0, math.nan, "2,530"),
        (0.03, math.nan, "0.03"),
        (12.3, 2.1, "12 ± 2"),
        (1e-9, 2e-11, "1e-09 ± 2e-11"),
        (math.inf, math.nan, "not finite"),
        (math.nan, 1.0, "not known"),
    ],
)
def test_numbers_are_shown_to_their_error(value, error, text):
    assert shown(value, error) == text


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"samples": 32, "of": 64}, "The looks used 32 of 64 samples: a part of a batch is sharper on average"),
        ({"samples": 24}, "The looks used 24 of 64 samples: a part of a batch is sharper on average"),
        ({"samples": None}, ""),
        ({"samples": 64}, ""),
        ({"samples": "many", "of": [3]}, ""),
        ({"samples": -3, "of": math.nan}, ""),
    ],
)
def test_looks_at_parts_of_batches_are_said_to_be_such(facts, words):
    whole = record(falling(), load=0.5, batch=[64] * 200, dead_units=[0.25] * 200)
    about = whole.about | {"plan": {"looks": {"sharpness": facts, "batch_sharpness": facts}}}
    plain, found = diagnose(whole), diagnose(dataclasses.replace(whole, about=about))
    assert (found.verdict, found.regime, found.numbers) == (plain.verdict, plain.regime, plain.numbers)
    texts = {one.about: one.text for one in reversed(found.sentences)}
    if not words:
        assert [one.text for one in found.sentences] == [one.text for one in plain.sentences]
    else:
        assert words in texts["regime"]
        assert words in texts["step"]
        assert texts["units"].endswith("of 64 samples.")
