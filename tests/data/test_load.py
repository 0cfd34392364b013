"""Real data comes prepared as asked, with every choice on record."""

import jax.numpy as jnp
import numpy as np
import pytest

from secant.data import load


def test_digits_need_no_file(monkeypatch):
    monkeypatch.delenv("SECANT_DATA", raising=False)
    task = load("digits")
    assert task.train.x.shape == (1500, 64)
    assert task.train.y.shape == (1500, 10)
    assert len(task.test) == 297
    assert task.validation is None
    np.testing.assert_array_equal(task.train.y.sum(axis=1), 1)


def test_tumours_need_no_file(monkeypatch):
    from sklearn.datasets import load_breast_cancer

    monkeypatch.delenv("SECANT_DATA", raising=False)
    task = load("breast-cancer", scaling="none", dtype=np.float64)
    x, y = load_breast_cancer(return_X_y=True)
    np.testing.assert_allclose(np.concatenate([task.train.x, task.test.x]) * x.max(), x, rtol=1e-14)
    np.testing.assert_array_equal(np.concatenate([task.train.y, task.test.y]), 1 - 2 * y)
    assert len(task.train) == 400


def test_two_classes_are_coded_by_sign_in_the_order_asked():
    task, turned = load("digits", classes=(3, 8)), load("digits", classes=np.array([8, 3]))
    assert set(task.train.y) == {1.0, -1.0}
    np.testing.assert_array_equal(task.train.y, -turned.train.y)
    assert turned.recipe["classes"] == [8, 3]


def test_classes_are_numbered_in_the_order_asked():
    all_classes = load("digits", labels="index", scaling="none")
    task = load("digits", classes=(7, 0, 4), labels="index", scaling="none")
    for place, label in enumerate((7, 0, 4)):
        np.testing.assert_array_equal(
            task.train.x[task.train.y == place], all_classes.train.x[all_classes.train.y == label]
        )


@pytest.mark.parametrize("scaling", ["feature", "global"])
def test_standardisation_uses_the_training_samples_only(scaling):
    task = load("digits", samples=500, validation_samples=300, scaling=scaling, dtype=np.float64)
    axis = 0 if scaling == "feature" else None
    np.testing.assert_allclose(task.train.x.mean(axis=axis), 0, atol=1e-12)
    spread = np.atleast_1d(task.train.x.std(axis=axis))
    np.testing.assert_allclose(spread[spread > 0], 1)
    assert abs(task.validation.x.mean(axis=axis)).max() > 1e-6
    assert np.isfinite(task.test.x).all()


def test_colours_are_standardised_apart(user_file):
    user_file("svhn")
    x = load("svhn", scaling="channel", flat=False, dtype=np.float64).train.x
    assert x.shape == (40, 32, 32, 3)
    np.testing.assert_allclose(x.mean(axis=(0, 1, 2)), 0, atol=1e-12)
    np.testing.assert_allclose(x.std(axis=(0, 1, 2)), 1)


def test_a_draw_is_without_replacement_and_repeats():
    a, b, c = (load("digits", samples=200, seed=seed, scaling="none") for seed in (0, 0, 1))
    np.testing.assert_array_equal(a.train.x, b.train.x)
    assert not np.array_equal(a.train.x, c.train.x)
    assert len(np.unique(load("digits", samples=1500, scaling="none").train.x, axis=0)) == 1500
    assert a.recipe["samples"] == 200
    assert a.recipe["seed"] == 0


@pytest.mark.parametrize("samples", [1000, None])
def test_validation_samples_are_held_out_of_the_training_samples(samples):
    plain = load("digits", samples=samples, scaling="none")
    task = load("digits", samples=samples, validation_samples=300, scaling="none")
    assert len(task.validation) == task.recipe["validation_samples"] == 300
    assert len(task.train) == task.recipe["samples"] == (samples or 1200)
    both = np.concatenate([task.train.x, task.validation.x])
    assert len(np.unique(both, axis=0)) == len(both)  # no two of the digits are alike
    if samples:
        np.testing.assert_array_equal(task.train.x, plain.train.x)
        np.testing.assert_array_equal(task.test.x, plain.test.x)


@pytest.mark.parametrize("classes", [(0, 2), None], ids=["two", "ten"])
def test_label_noise_changes_so_many_training_labels_and_nothing_else(classes):
    options = {"classes": classes, "samples": 250, "validation_samples": 50, "labels": "index"}
    clean, noisy = load("digits", **options), load("digits", **options, label_noise=0.1)
    for part in ("train", "validation", "test"):
        np.testing.assert_array_equal(getattr(clean, part).x, getattr(noisy, part).x)
    assert (clean.train.y != noisy.train.y).sum() == 25
    assert set(noisy.train.y) == set(clean.train.y)
    np.testing.assert_array_equal(clean.validation.y, noisy.validation.y)
    np.testing.assert_array_equal(clean.test.y, noisy.test.y)
    assert (clean.recipe["label_noise"], noisy.recipe["label_noise"]) == (0.0, 0.1)
    np.testing.assert_array_equal(noisy.train.y, load("digits", **options, label_noise=0.1).train.y)


def test_a_wrong_label_is_any_other_one():
    options = {"labels": "index", "classes": (0, 1, 2, 3)}
    clean, noisy = load("digits", **options).train.y, load("digits", **options, label_noise=0.9).train.y
    changes = np.bincount((noisy - clean) % 4, minlength=4)
    wrong = round(0.9 * len(clean))
    assert changes[0] == len(clean) - wrong
    # each of the three others has a third of them, up to five standard errors
    assert np.all(np.abs(changes[1:] - wrong / 3) < 5 * np.sqrt(wrong * 2 / 9))


def test_images_keep_their_shape_when_asked():
    assert load("digits", flat=False, samples=5).train.x.shape == (5, 8, 8, 1)


def test_any_floating_type_will_do():
    for dtype in ("float64", np.float16, jnp.bfloat16):
        task = load("digits", samples=5, dtype=dtype)
        assert task.train.x.dtype == task.train.y.dtype == dtype
        assert task.recipe["dtype"] == jnp.dtype(dtype).name


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "digit"}, "`name` must be one of .*; got 'digit'. Did you mean 'digits'"),
        ({"classes": (1, 1)}, "`classes` must be different labels"),
        ({"classes": (1, 11)}, "`classes` must be different labels out of .*got .1, 11."),
        ({"classes": ()}, "`classes` must be different labels"),
        ({"classes": 3}, "`classes` must be different labels"),
        ({"classes": (0.5, 1)}, "`classes` must be different labels"),
        ({"samples": 0}, "`samples` must be a whole number of at least 1, got 0"),
        ({"samples": True}, "`samples` must be a whole number"),
        ({"samples": 10_000}, "`samples` must be between 1 and 1500, the number in the data, got 10000"),
        ({"test_samples": 2.5}, "`test_samples` must be a whole number of at least 1, got 2.5"),
        ({"test_samples": 298}, "`test_samples` must be between 1 and 297, the number in the data"),
        ({"validation_samples": -1}, "`validation_samples` must be a whole number"),
        ({"validation_samples": 1500}, "`validation_samples` can be at most 1499 of the 1500 .*got 1500"),
        ({"samples": 1400, "validation_samples": 101}, "`validation_samples` can be at most 100 .*because 1400 must"),
        ({"labels": "signs"}, "needs two classes"),
        ({"labels": "words"}, "`labels` must be one of signs, one-hot, index; got 'words'"),
        ({"scaling": "globl"}, "`scaling` must be one of .*Did you mean 'global'"),
        ({"label_noise": 1.0}, "`label_noise` must be a fraction, at least 0 and below 1, got 1.0"),
        ({"label_noise": float("nan")}, "`label_noise` must be a fraction"),
        ({"label_noise": "much"}, "`label_noise` must be a fraction"),
        ({"label_noise": 0.1, "classes": (3,)}, "`label_noise` needs a second class"),
        ({"seed": -1}, "`seed` must be a whole number of at least 0, got -1"),
        ({"dtype": int}, "`dtype` must be a floating type"),
        ({"dtype": "float33"}, "`dtype` must be a floating type"),
    ],
)
def test_bad_input_is_refused_by_name(options, message):
    with pytest.raises(ValueError, match=message):
        load(**({"name": "digits"} | options))


def test_a_wrong_option_downloads_nothing(publish, server):
    publish("mnist")
    for options in ({"labels": "words"}, {"scaling": "much"}, {"samples": 0}, {"seed": None}, {"dtype": int}):
        with pytest.raises(ValueError, match="must be"):
            load("mnist", **options)
    assert not server.asked
