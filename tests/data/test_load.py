"""Real data comes prepared as asked, with every choice on record."""

import os

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

from secant.data import MissingDataError, load

SIZES = {
    "cifar10": (5000, 32 * 32 * 3, 1000),
    "mnist": (60000, 28 * 28, 10000),
    "fashion-mnist": (10000, 28 * 28, 2000),
    "usps": (7291, 16 * 16, 2007),
    "spoken-digits": (2700, 32 * 64, 300),
}
needs_files = pytest.mark.skipif(not os.environ.get("SECANT_DATA"), reason="set SECANT_DATA to the data directory")


def test_digits_need_no_file(monkeypatch):
    monkeypatch.delenv("SECANT_DATA", raising=False)
    task = load("digits")
    assert task.train.x.shape == (1500, 64)
    assert task.train.y.shape == (1500, 10)
    assert len(task.test) == 297
    np.testing.assert_array_equal(task.train.y.sum(axis=1), 1)


def test_two_classes_are_coded_by_sign_in_the_order_asked():
    task, turned = load("digits", classes=(3, 8)), load("digits", classes=(8, 3))
    assert set(task.train.y) == {1.0, -1.0}
    np.testing.assert_array_equal(task.train.y, -turned.train.y)


@pytest.mark.parametrize("scaling", ["feature", "global"])
def test_standardisation_uses_the_training_samples_only(scaling):
    x = load("digits", samples=500, scaling=scaling, dtype=np.float64).train.x
    axis = 0 if scaling == "feature" else None
    np.testing.assert_allclose(x.mean(axis=axis), 0, atol=1e-12)
    spread = np.atleast_1d(x.std(axis=axis))
    np.testing.assert_allclose(spread[spread > 0], 1)
    assert np.isfinite(load("digits", samples=500, scaling=scaling).test.x).all()


def test_a_draw_is_without_replacement_and_repeats():
    a, b, c = (load("digits", samples=200, seed=seed, scaling="none") for seed in (0, 0, 1))
    np.testing.assert_array_equal(a.train.x, b.train.x)
    assert not np.array_equal(a.train.x, c.train.x)
    assert len(np.unique(load("digits", samples=1500, scaling="none").train.x, axis=0)) == 1500
    assert a.recipe["samples"] == 200
    assert a.recipe["seed"] == 0


def test_images_keep_their_shape_when_asked():
    assert load("digits", flat=False, samples=5).train.x.shape == (5, 8, 8, 1)


@needs_files
@pytest.mark.parametrize("name", SIZES)
def test_sets_from_files_have_their_sizes(name):
    task = load(name, scaling="none")
    train, features, test = SIZES[name]
    assert task.train.x.shape == (train, features)
    assert len(task.test) == test
    assert task.train.x.min() >= 0
    assert task.train.x.max() <= 1
    assert task.train.y.shape == (train, 10)


@needs_files
def test_spoken_digits_can_be_told_apart_by_their_spectra():
    task = load("spoken-digits", labels="index")
    neighbour = KNeighborsClassifier(1).fit(*task.train)
    assert neighbour.score(*task.test) > 0.8  # chance is 0.1, and the speakers are the same


def test_a_missing_file_is_named(monkeypatch, tmp_path):
    monkeypatch.delenv("SECANT_DATA", raising=False)
    with pytest.raises(MissingDataError, match=r"mnist\.npz is needed, and SECANT_DATA is not set"):
        load("mnist")
    monkeypatch.setenv("SECANT_DATA", str(tmp_path))
    with pytest.raises(MissingDataError, match=r"mnist\.npz does not exist"):
        load("mnist")
    (tmp_path / "mnist.npz").write_bytes(b"not an archive")
    with pytest.raises(MissingDataError, match=r"mnist\.npz cannot be read"):
        load("mnist")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "digit"}, "Did you mean 'digits'"),
        ({"classes": (1, 1)}, "different labels"),
        ({"classes": (1, 11)}, "different labels"),
        ({"classes": ()}, "different labels"),
        ({"samples": 0}, "`samples` must be between 1 and the 1500"),
        ({"samples": 10_000}, "`samples` must be between 1 and the 1500"),
        ({"test_samples": 2.5}, "`test_samples` must be between 1 and the 297"),
        ({"labels": "signs"}, "needs two classes"),
        ({"labels": "words"}, "`labels` must be"),
        ({"scaling": "much"}, "`scaling` must be"),
    ],
)
def test_bad_input_is_refused_by_name(options, message):
    with pytest.raises(ValueError, match=message):
        load(**({"name": "digits"} | options))
