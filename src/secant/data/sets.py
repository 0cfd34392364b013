"""Real data sets as arrays: bundled with scikit-learn, from the user's files, or downloaded."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import itertools
import os
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from secant.data.download import download
from secant.data.errors import CorruptDataError, MissingDataError
from secant.data.formats import IMAGES, Arrays
from secant.data.sources import SOURCES

# Spectrograms: how many samples of a recording are kept, and the windows it is cut into, by the places of samples.
_LENGTH, _SIZE = 6400, 400
_PLACES = np.linspace(0, _LENGTH - _SIZE, 32).astype(int)[:, None] + np.arange(_SIZE)
_WINDOW = np.hanning(_SIZE)


class Raw(NamedTuple):
    """A data set as it is on disk.

    Attributes:
        x: training inputs, shape `(samples, height, width)` or `(samples, height, width, channels)`.
        y: training labels, whole numbers.
        x_test: test inputs.
        y_test: test labels.
        top: the input value that stands for 1; inputs lie between 0 and `top`.
        source: where the data set came from.
        digest: a digest of the arrays it was read from.
    """

    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    top: float
    source: str
    digest: str


@functools.cache  # the digits are few, but their compressed table of text is slow to read
def digits() -> Raw:
    """Handwritten digits of 8 x 8 pixels, 1,797 of them; comes with scikit-learn. The last 297 are for testing."""
    table = _bundled("digits.csv.gz", "load_digits")
    x, y = np.ascontiguousarray(table[:, :-1]).reshape(-1, 8, 8), table[:, -1].astype(int)
    x.flags.writeable = y.flags.writeable = False
    return Raw(x[:1500], y[:1500], x[1500:], y[1500:], 16.0, "bundled:scikit-learn", _digest({"x": x, "y": y}))


@functools.cache
def breast_cancer() -> Raw:
    """Thirty measures of the nuclei of cells in 569 tumours, malignant (0) or benign (1); comes with scikit-learn.

    The last 169 are for testing. The measures have different units: standardise each.
    """
    table = _bundled("breast_cancer.csv", "load_breast_cancer", skip=1)
    x, y = np.ascontiguousarray(table[:, :-1]).reshape(-1, 30, 1), table[:, -1].astype(int)
    x.flags.writeable = y.flags.writeable = False
    top = float(x.max())
    return Raw(x[:400], y[:400], x[400:], y[400:], top, "bundled:scikit-learn", _digest({"x": x, "y": y}))


def _bundled(name: str, loader: str, skip: int = 0) -> np.ndarray:
    """A table of scikit-learn, a row a sample, its class last; read as a file, because the import takes a second."""
    package = importlib.util.find_spec("sklearn")
    folders = (package and package.submodule_search_locations) or []
    for folder in folders:
        file = Path(folder) / "datasets" / "data" / name
        if file.is_file():
            return np.loadtxt(file, delimiter=",", skiprows=skip)
    from sklearn import datasets  # another version may keep the file elsewhere

    x, y = getattr(datasets, loader)(return_X_y=True)
    return np.column_stack([x, y])


def images(name: str) -> Raw:
    """A set of images with values from 0 to 255."""
    path, source = _locate(name)
    arrays = _read(path, IMAGES)
    for part in ("train", "test"):
        name, pixels = f"x_{part}", arrays[f"x_{part}"]
        _require(path, name, pixels.ndim in (3, 4) and pixels.size, "images, one a row", pixels)
        _require(path, name, pixels.shape[1:] == arrays["x_train"].shape[1:], "images as large as x_train's", pixels)
        _require(path, name, pixels.min() >= 0 and pixels.max() <= 255, "values from 0 to 255", pixels)
        _require_labels(path, f"y_{part}", arrays, len(pixels))
    x, y, x_test, y_test = (arrays[array] for array in IMAGES)
    return Raw(x, y.astype(int), x_test, y_test.astype(int), 255.0, source, _digest(arrays))


def spoken_digits(name: str) -> Raw:
    r"""Spoken digits as log-spectrograms of 32 times by 64 frequencies; takes 0 to 4 of each speaker are for testing.

    A take is centred in (or cut to) 6,400 samples at 8 kHz, in 32 windows of 400 samples, Hann-weighted and 200
    apart at the middle; each window gives $\log(1 + |\hat s_f|)$ at its lowest 64 frequencies.
    """
    path, source = _locate(name)
    arrays = _read(path, ("waveform", "offset", "label", "take"))
    waveform, offset, label, take = arrays.values()
    _require(path, "waveform", waveform.ndim == 1 and waveform.size, "takes, end to end", waveform)
    bounds = offset.ndim == 1 and len(offset) > 1 and offset[0] == 0 and offset[-1] == len(waveform)
    rising = bounds and (np.diff(offset) > 0).all()
    _require(path, "offset", rising, f"whole numbers that rise from 0 to {len(waveform)}", offset)
    for array in ("label", "take"):
        _require_labels(path, array, arrays, len(offset) - 1)
    spectra = np.stack([_spectrogram(waveform[a:b]) for a, b in itertools.pairwise(offset)])
    test, label = take < 5, label.astype(int)
    return Raw(
        spectra[~test], label[~test], spectra[test], label[test], float(spectra.max()) or 1.0, source, _digest(arrays)
    )


READERS: dict[str, Callable[[], Raw]] = {
    "digits": digits,
    "breast-cancer": breast_cancer,
    "cifar10": lambda: images("cifar10"),
    "mnist": lambda: images("mnist"),
    "fashion-mnist": lambda: images("fashion-mnist"),
    "usps": lambda: images("usps"),
    "svhn": lambda: images("svhn"),
    "spoken-digits": lambda: spoken_digits("spoken-digits"),
}


def fetch(name: str) -> Path:
    """Makes sure that a data set is on this machine, for instance before it goes offline.

    Args:
        name: one of `secant.data.NAMES`, except `digits` and `breast-cancer`, which come with scikit-learn.

    Returns:
        The `.npz` file that holds the data set: in `$SECANT_DATA` if it is there, else downloaded.
    """
    if name not in SOURCES:
        raise ValueError(f"fetch: {name!r} has no file. There are {', '.join(SOURCES)}.")
    return _locate(name)[0]


def _locate(name: str) -> tuple[Path, str]:
    """The file of a data set, and where it came from, in words."""
    source = SOURCES[name]
    if given := os.environ.get("SECANT_DATA"):
        directory = Path(given).expanduser()
        if not directory.is_dir():
            raise MissingDataError(
                f"data: SECANT_DATA names {directory}, which is not a directory. Correct or unset it."
            )
        for file in filter(None, (source.file, source.part)):
            if (directory / file).exists():
                return directory / file, f"file:{file}"
    return download(source), f"download:{source.homes[0]}"


def _read(path: Path, names: tuple[str, ...]) -> Arrays:
    """The named arrays of a file. Numbers that are not finite are an error."""
    try:
        with path.open("rb") as content:
            file = np.load(content, allow_pickle=False)
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise ValueError("it is a single array")
            if missing := [name for name in names if name not in file]:
                raise ValueError(f"it has no {' and no '.join(missing)}")
            arrays = {name: file[name] for name in names}
    except (ValueError, OSError, EOFError, zlib.error, zipfile.BadZipFile) as error:
        raise CorruptDataError(f"data: {path} cannot be read ({error}). Delete it, and fetch it again.") from error
    for name, array in arrays.items():
        _require(path, name, array.dtype.kind in "iuf", "numbers", array)
        if array.dtype.kind == "f" and not (finite := np.isfinite(array)).all():
            count, place = int((~finite).sum()), tuple(map(int, np.argwhere(~finite)[0]))
            raise CorruptDataError(f"data: {name} in {path} has {count} values that are not finite, first at {place}.")
    return arrays


def _require(path: Path, name: str, holds: object, what: str, array: np.ndarray) -> None:
    if not holds:
        between = f", from {array.min()} to {array.max()}" if array.size and array.dtype.kind in "iuf" else ""
        raise CorruptDataError(
            f"data: {name} in {path} must hold {what}; it has shape {array.shape} and type {array.dtype}{between}."
        )


def _require_labels(path: Path, name: str, arrays: Arrays, count: int) -> None:
    array = arrays[name]
    sound = array.dtype.kind in "iu" and array.shape == (count,) and array.min() >= 0
    _require(path, name, sound, f"{count} whole numbers, none negative", array)


def _digest(arrays: Arrays) -> str:
    """A digest that distinguishes data sets of the same name."""
    digest = hashlib.blake2b(digest_size=8)
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _spectrogram(wave: np.ndarray) -> np.ndarray:
    extra = len(wave) - _LENGTH
    wave = wave[extra // 2 : extra // 2 + _LENGTH] if extra > 0 else np.pad(wave, (-extra // 2, -extra - -extra // 2))
    frames = wave[_PLACES] / 2**15 * _WINDOW
    return np.log1p(np.abs(np.fft.rfft(frames, axis=1)[:, :64]))
