"""Real data sets, read from files."""

from __future__ import annotations

import itertools
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

Raw = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Training inputs and labels, test inputs and labels: inputs in [0, 1], labels whole numbers."""


class MissingDataError(FileNotFoundError):
    """A data set that is not on this machine."""


def digits() -> Raw:
    """Handwritten digits of 8 x 8 pixels, 1,797 of them; comes with scikit-learn. The last 297 are for testing."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images, labels = bunch.images / 16.0, bunch.target
    return images[:1500], labels[:1500], images[1500:], labels[1500:]


def images(file: str) -> Callable[[], Raw]:
    """Reads a set of 8-bit images from `file` in the data directory."""

    def read() -> Raw:
        with _open(file) as arrays:
            x, y, x_test, y_test = (arrays[name] for name in ("x_train", "y_train", "x_test", "y_test"))
        return x / 255.0, y.astype(int), x_test / 255.0, y_test.astype(int)

    return read


def spoken_digits() -> Raw:
    r"""Spoken digits as log-spectrograms of 32 times by 64 frequencies; takes 0 to 4 of each speaker are for testing.

    A take is centred in (or cut to) 6,400 samples at 8 kHz, in 32 windows of 400 samples, Hann-weighted and 200
    apart at the middle; each window gives $\log(1 + |\hat s_f|)$ at its lowest 64 frequencies, scaled to [0, 1].
    """
    with _open("fsdd.npz") as arrays:
        waveform, offset, label, take = (arrays[name] for name in ("waveform", "offset", "label", "take"))
    spectra = np.stack([_spectrogram(waveform[a:b]) for a, b in itertools.pairwise(offset)])
    spectra /= spectra.max()
    test = take < 5
    return spectra[~test], label[~test].astype(int), spectra[test], label[test].astype(int)


READERS: dict[str, Callable[[], Raw]] = {
    "digits": digits,
    "cifar10": images("cifar10_5k.npz"),
    "mnist": images("mnist.npz"),
    "fashion-mnist": images("fashion_mnist_12k.npz"),
    "usps": images("usps.npz"),
    "spoken-digits": spoken_digits,
}


def _spectrogram(wave: np.ndarray, length: int = 6400, windows: int = 32, size: int = 400) -> np.ndarray:
    wave = wave.astype(float) / 2**15
    extra = len(wave) - length
    wave = wave[extra // 2 : extra // 2 + length] if extra > 0 else np.pad(wave, (-extra // 2, -extra - -extra // 2))
    starts = np.linspace(0, length - size, windows).astype(int)
    frames = np.stack([wave[start : start + size] for start in starts]) * np.hanning(size)
    return np.log1p(np.abs(np.fft.rfft(frames, axis=1))[:, :64])


def _open(file: str) -> np.lib.npyio.NpzFile:
    directory = os.environ.get("SECANT_DATA")
    if not directory:
        raise MissingDataError(
            f"data: {file} is needed, and SECANT_DATA is not set. Set it to the directory that holds the file, "
            "or use 'digits', which needs none."
        )
    path = Path(directory).expanduser() / file
    if not path.exists():
        raise MissingDataError(f"data: {path} does not exist. Put the file there, or set SECANT_DATA to where it is.")
    try:
        return np.load(path, allow_pickle=False)
    except (ValueError, OSError, zipfile.BadZipFile) as error:
        raise MissingDataError(f"data: {path} cannot be read ({error}). Fetch the file again.") from error
