"""Sets are what they say they are; a file that is not is refused, and the error names the array."""

import os

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

from secant.data import CorruptDataError, MissingDataError, load

SIZES = {
    "cifar10": (5000, 32 * 32 * 3, 1000),
    "mnist": (60000, 28 * 28, 10000),
    "fashion-mnist": (10000, 28 * 28, 2000),
    "usps": (7291, 16 * 16, 2007),
    "spoken-digits": (2700, 32 * 64, 300),
}
needs_files = pytest.mark.skipif(not os.environ.get("SECANT_DATA"), reason="set SECANT_DATA to the data directory")


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


def test_the_recipe_tells_a_part_from_the_whole(user_file):
    part = user_file("cifar10", "cifar10_5k.npz", x_train=np.zeros((10, 32, 32, 3), np.uint8), y_train=np.arange(10))
    small = load("cifar10")
    assert small.recipe["source"] == f"file:{part.name}"
    user_file("cifar10")
    whole = load("cifar10")
    assert whole.recipe["source"] == "file:cifar10.npz"  # the whole set goes before a part of it
    assert (len(small.train), len(whole.train)) == (10, 40)
    assert small.recipe["digest"] != whole.recipe["digest"]


def test_the_digest_is_of_the_content(user_file):
    user_file("mnist")
    first, again = load("mnist"), load("mnist", samples=5, seed=3)
    assert first.recipe["digest"] == again.recipe["digest"]
    user_file("mnist", y_test=np.zeros(20, np.uint8))
    assert load("mnist").recipe["digest"] != first.recipe["digest"]


def test_grey_images_may_have_a_channel(user_file):
    user_file("mnist")
    plain = load("mnist").train.x
    images = {f"x_{part}": np.load(user_file("mnist"))[f"x_{part}"][..., None] for part in ("train", "test")}
    user_file("mnist", **images)
    np.testing.assert_array_equal(load("mnist").train.x, plain)


def spoiled(value):
    """Images of floating numbers, as they may be, one of them spoiled."""
    pixels = np.full((40, 28, 28), 7.0)
    pixels[3, 1, 4] = value
    return pixels


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"x_train": spoiled(np.nan)},
            r"x_train in .*mnist\.npz has 1 values that are not finite, .* \(3, 1, 4\)",
        ),
        ({"x_train": spoiled(np.inf)}, "x_train in .* not finite"),
        ({"x_train": spoiled(256)}, r"x_train in .* must hold values from 0 to 255; .* from 7\.0 to 256\.0"),
        ({"x_train": spoiled(-1)}, "x_train in .* must hold values from 0 to 255"),
        ({"x_train": np.zeros((40, 784))}, r"x_train in .* must hold images, one a row; it has shape \(40, 784\)"),
        ({"x_train": np.zeros((0, 28, 28))}, "x_train in .* must hold images"),
        ({"x_test": np.zeros((20, 14, 14))}, r"x_test in .* must hold images as large as x_train's; .* \(20, 14, 14\)"),
        (
            {"y_train": np.zeros(39, int)},
            r"y_train in .* must hold 40 whole numbers, none negative; .* \(39,\)",
        ),
        ({"y_train": np.zeros((40, 10), int)}, "y_train in .* must hold 40 whole numbers"),
        ({"y_train": np.zeros(40)}, "y_train in .* must hold 40 whole numbers.* type float64"),
        ({"y_train": np.full(40, -1)}, "y_train in .* none negative; .* from -1 to -1"),
        ({"y_train": np.full(40, "one")}, "y_train in .* must hold numbers"),
        ({"y_train": None, "x_test": None}, "cannot be read .it has no y_train and no x_test"),
        ({"y_train": np.array([{}] * 40)}, "cannot be read .*allow_pickle"),
        ({"y_train": np.zeros(40, int), "y_test": np.ones(20, int)}, "no class has both training and test samples"),
    ],
)
def test_images_that_are_none_are_refused(changes, message, user_file):
    user_file("mnist", **changes)
    with pytest.raises(CorruptDataError, match=message):
        load("mnist")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"waveform": np.zeros((5, 5))}, "waveform in .* must hold takes, end to end"),
        ({"waveform": np.full(5, np.nan)}, "waveform in .* has 5 values that are not finite"),
        ({"offset": np.arange(25)}, "offset in .* must hold whole numbers that rise from 0 to"),
        ({"offset": np.zeros(25, int)}, "offset in .* rise"),
        ({"take": np.zeros(23, int)}, "take in .* must hold 24 whole numbers"),
        ({"take": np.zeros(24, int)}, "no class has both"),
    ],
)
def test_recordings_that_are_none_are_refused(changes, message, user_file):
    user_file("spoken-digits", **changes)
    with pytest.raises(CorruptDataError, match=message):
        load("spoken-digits")


def test_a_damaged_file_is_named(user_file):
    path = user_file("mnist")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 255
    for damaged in (content, content[: len(content) // 2], b"", b"not an archive"):
        path.write_bytes(damaged)
        with pytest.raises(CorruptDataError, match=r"mnist\.npz cannot be read .*Delete it, and fetch it again"):
            load("mnist")
    with path.open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(CorruptDataError, match="it is a single array"):
        load("mnist")


def test_a_directory_that_is_none_is_not_passed_over(monkeypatch, tmp_path):
    monkeypatch.setenv("SECANT_DATA", str(tmp_path / "typo"))
    with pytest.raises(MissingDataError, match=r"SECANT_DATA names .*typo, which is not a directory"):
        load("mnist")
