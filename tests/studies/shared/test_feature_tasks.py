"""The tasks of feature learning: what is drawn, and what is to be found."""

import numpy as np
import pytest
import xarray as xr

import secant as sc
from secant import lab
from secant.nets.layers import Dense
from secant.studies.shared.features import tasks
from secant.studies.thesis.ch4.fig_4_11 import RULES, STEPS


def test_synthetic_tasks_know_their_truth():
    task = tasks.feature_task("rank-4", tasks.Sizes(8, 12, 10, 6))
    one, other = task.draw(0), task.draw(1)
    assert one.x.shape == (12, 6)
    assert one.x_valid.shape == one.x_test.shape == (10, 6)
    assert (one.x != other.x).any()
    assert sum(isinstance(part.layer, Dense) for part in task.net.parts) == 4
    np.testing.assert_allclose(np.diag(task.truth), [4, 3, 2, 1, 0, 0])
    assert task.draws(range(3)).y.shape == (3, 12)
    assert task.strong is None
    assert task.scored == "loss"


def test_real_tasks_take_the_outer_product_of_a_strong_model():
    task = tasks.feature_task("digits", tasks.Sizes(8, 10_000, 40, label_noise=0.1, epochs=4))
    draw = task.draw(0)
    available = len(sc.data.load("digits", classes=(0, 2)).train)
    assert len(draw.y) == available - available // 5  # a fifth is left for validation
    clean = tasks.feature_task("digits", tasks.Sizes(8, 10_000, 40, epochs=4)).draw(0)
    assert np.mean(draw.y != clean.y) == pytest.approx(0.1, abs=0.01)
    assert (draw.y_valid == clean.y_valid).all()
    assert task.truth.shape == (64, 64)
    assert np.linalg.eigvalsh(task.truth)[0] > -1e-6 * np.linalg.norm(task.truth)
    assert task.strong > 0.9
    assert task.tests == len(sc.data.load("digits", classes=(0, 2)).test)
    assert task.scored == "error"
    assert float(task.score(np.array([1.0, -2.0, 3.0, 4.0]), np.array([1.0, 1.0, 1.0, -1.0]))) == 0.5


def test_unknown_tasks_are_refused():
    with pytest.raises(ValueError, match="there is no 'rank-5'"):
        tasks.feature_task("rank-5", tasks.Sizes(8, 12, 10))
    study = lab.get("thesis/fig-4.8")
    with pytest.raises(ValueError, match="there is no 'svhn' with course=short"):
        study.config("smoke", panels=("svhn",))
    study = lab.get("thesis/fig-4.11")
    with pytest.raises(ValueError, match="rules: needs at least 4 values"):
        study.config("smoke", rules=("GD", "SGD", "Adam"))
    with pytest.raises(ValueError, match=r"rules: must be some of GD, .*, got Lion"):
        study.config("smoke", rules=("GD", "SGD", "Adam", "Lion"))


def test_every_optimiser_has_a_step_size_for_every_task():
    assert all(set(row) == set(RULES) for row in STEPS.values())


def test_the_network_behind_the_truth_is_held_against_those_it_judges():
    rank_2 = tasks.feature_task("rank-2", tasks.Sizes(8, 12, 10))
    errors = xr.DataArray([[0.10, 0.11], [0.12, 0.11], [0.09, 0.10], [0.11, 0.12]], dims=("seed", "raises"))
    assert not list(tasks.truth_finding("rank-2", xr.Dataset(tasks.behind_the_truth(rank_2)), errors))
    of = [xr.Dataset({"strong": accuracy, "tests": 1_000}) for accuracy in (0.99, 0.89, 0.2)]
    verdicts = [str(finding.verdict) for one in of for finding in tasks.truth_finding("digits", one, errors)]
    assert verdicts == ["holds", "inconclusive", "fails"]
