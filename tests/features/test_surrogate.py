"""Outer products of strong models of real data."""

import dataclasses

import numpy as np
import pytest

import secant as sc
from secant.data import Split
from secant.features import surrogate_agop

NET = sc.nets.mlp([16], parametrization="pytorch", bias=True)
TASK = sc.data.load("digits", classes=(0, 2), samples=120, validation_samples=60)


def changed(part, **values):
    """The task with some arrays of a part replaced."""
    return dataclasses.replace(TASK, **{part: Split(**(getattr(TASK, part)._asdict() | values))})


def test_it_is_the_outer_product_of_the_model_it_reports():
    found = surrogate_agop(NET, TASK, batch=8, epochs=4)
    np.testing.assert_allclose(found.agop, sc.agop(NET.apply, found.params, TASK.train.x), rtol=1e-5, atol=1e-8)
    for part, accuracy in ((TASK.validation, found.validation_accuracy), (TASK.test, found.test_accuracy)):
        assert accuracy == pytest.approx(np.mean(np.sign(NET.apply(found.params, part.x)) == part.y))
    assert found.test_accuracy > 0.95
    assert 1 <= found.epoch <= 4


def test_the_best_on_validation_is_kept_and_the_test_samples_decide_nothing():
    found = surrogate_agop(NET, TASK, batch=8, epochs=4)
    other = surrogate_agop(NET, changed("test", y=-TASK.test.y), batch=8, epochs=4)
    np.testing.assert_array_equal(found.agop, other.agop)
    assert other.test_accuracy == pytest.approx(1 - found.test_accuracy)
    # With validation labels upside down, the start or the worst of the epochs is the best.
    worst = surrogate_agop(NET, changed("validation", y=-TASK.validation.y), batch=8, epochs=4)
    assert worst.epoch < found.epoch or worst.test_accuracy < found.test_accuracy


def test_it_finds_the_direction_that_matters():
    random = np.random.default_rng(0)
    x = random.normal(size=(600, 6)).astype(np.float32)
    y = np.where(x[:, 2] > 0, 1.0, -1.0).astype(np.float32)
    parts = [Split(x[a:b], y[a:b]) for a, b in ((0, 400), (400, 500), (500, 600))]
    task = sc.data.Task(parts[0], parts[2], validation=parts[1])
    found = surrogate_agop(NET, task, epochs=10, lr=1e-2)
    assert np.argmax(np.diag(found.agop)) == 2
    truth = np.diag([0, 0, 1.0, 0, 0, 0])
    assert float(sc.alignment(found.agop, truth)) > 0.9


def test_images_and_several_classes():
    task = sc.data.load("digits", classes=(0, 1, 2), samples=64, validation_samples=30, flat=False)
    net = sc.nets.cnn([4], outputs=3, parametrization="pytorch")
    found = surrogate_agop(net, task, epochs=1)
    assert found.agop.shape == (64, 64)
    outputs = np.asarray(net.apply(found.params, task.test.x))
    assert found.test_accuracy == pytest.approx(np.mean(outputs.argmax(1) == task.test.y.argmax(1)))


def test_what_cannot_be_learned_from_is_refused():
    for task, kind, words in (
        (dataclasses.replace(TASK, validation=None), ValueError, "no validation samples"),
        (changed("train", y=np.abs(TASK.train.y)), ValueError, "all training labels are the same"),
        (changed("train", y=TASK.train.y[:, None]), ValueError, r"must be -1 and 1, shape \(120,\)"),
        (changed("test", y=np.zeros(len(TASK.test), int)), ValueError, "labels of `task.test`"),
        (changed("train", x=TASK.train.x.astype(int)), TypeError, "inputs of `task.train` are of type int64"),
    ):
        with pytest.raises(kind, match=words):
            surrogate_agop(NET, task)
    with pytest.raises(ValueError, match="Make it with outputs=1"):
        surrogate_agop(sc.nets.mlp([4], outputs=2), TASK)
    for options, words in (
        ({"batch": 121}, "at most the 120 samples"),
        ({"epochs": 0}, "`epochs`"),
        ({"lr": 0}, "`lr`"),
    ):
        with pytest.raises(ValueError, match=words):
            surrogate_agop(NET, TASK, **options)
