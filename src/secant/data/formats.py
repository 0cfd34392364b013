"""The formats in which data sets are published, read into the arrays of one `.npz` file.

Nothing here executes what it reads: no pickles, and no archive chooses the paths to which it is extracted.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import math
import re
import tarfile
import wave
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

Arrays = dict[str, np.ndarray]
"""The arrays of a data file, by name."""

IMAGES = ("x_train", "y_train", "x_test", "y_test")
"""The arrays of a set of images."""


def idx(paths: Sequence[Path]) -> Arrays:
    """Compressed IDX files: training images and labels, test images and labels."""
    return dict(zip(IMAGES, map(_idx, paths), strict=True))


def cifar(paths: Sequence[Path]) -> Arrays:
    """The archive of CIFAR-10 in its binary form: records of a label and 32 x 32 red, green, blue values."""
    batches = {}
    with tarfile.open(paths[0], "r:gz") as archive:
        for member in archive:
            name = Path(member.name).name
            file = archive.extractfile(member) if re.fullmatch(r"(data|test)_batch(_\d)?\.bin", name) else None
            if file is not None:
                batches[name] = _cifar_batch(name, file.read())
    training = [batches[name] for name in sorted(batches) if name.startswith("data")]
    if len(training) != 5 or "test_batch.bin" not in batches:
        raise ValueError(f"the archive holds {sorted(batches) or 'no batches'}, not five training batches and a test")
    x, y = (np.concatenate(parts) for parts in zip(*training, strict=True))
    return dict(zip(IMAGES, (x, y, *batches["test_batch.bin"]), strict=True))


def svhn(paths: Sequence[Path]) -> Arrays:
    """MATLAB files of cropped house numbers, for training and testing; the digit 0 is labelled 10 in them."""
    from scipy.io import loadmat

    arrays: Arrays = {}
    for path, part in zip(paths, ("train", "test"), strict=True):
        content = loadmat(path, variable_names=["X", "y"])
        arrays[f"x_{part}"] = np.ascontiguousarray(content["X"].transpose(3, 0, 1, 2))
        arrays[f"y_{part}"] = (content["y"].ravel() % 10).astype(np.uint8)
    return arrays


def usps(paths: Sequence[Path]) -> Arrays:
    """LIBSVM files of 16 x 16 pixels in [-1, 1], for training and testing; the digit $k$ is labelled $k + 1$."""
    from sklearn.datasets import load_svmlight_file

    arrays: Arrays = {}
    for path, part in zip(paths, ("train", "test"), strict=True):
        pixels, labels = load_svmlight_file(str(path), n_features=256, zero_based=False)
        levels = np.rint((pixels.toarray() + 1) / 2 * 255)
        arrays[f"x_{part}"] = levels.astype(np.uint8).reshape(-1, 16, 16)
        arrays[f"y_{part}"] = (labels - 1).astype(np.uint8)
    return arrays


def recordings(paths: Sequence[Path], digest: str) -> Arrays:
    """A zip archive of recordings `<digit>_<speaker>_<take>.wav`, 8 kHz and 16 bit, in the order of their names.

    Args:
        paths: the archive.
        digest: SHA-256 over the names and bytes of the recordings. It identifies a release better than the archive's
            own checksum: the archive of a tag is made at every request, and its compression may change.
    """
    named = re.compile(r"(?:.*/)?recordings/(?P<name>(\d)_([a-z]+)_(\d+)\.wav)")
    with zipfile.ZipFile(paths[0]) as archive:
        members = {match["name"]: member for member in archive.namelist() if (match := named.fullmatch(member))}
        files = {name: archive.read(members[name]) for name in sorted(members)}
    found = hashlib.sha256(b"".join(name.encode() + content for name, content in files.items())).hexdigest()
    if found != digest:
        raise ValueError(f"its {len(files)} recordings have the SHA-256 {found}, and not {digest} as they should")
    waves = [_wave(content) for content in files.values()]
    labels, names, takes = zip(*(name.removesuffix(".wav").split("_") for name in files), strict=True)
    speakers = sorted(set(names))
    return {
        "waveform": np.concatenate(waves),
        "offset": np.cumsum([0, *map(len, waves)]),
        "label": np.array(labels, dtype=np.uint8),
        "speaker": np.array([speakers.index(name) for name in names], dtype=np.uint8),
        "take": np.array(takes, dtype=np.uint8),
        "speakers": np.array(speakers),
        "rate": np.array(8000),
    }


def _idx(path: Path) -> np.ndarray:
    """One IDX file of bytes: two zeros, the type, the rank, the sizes as big-endian 32-bit numbers, the values."""
    with gzip.open(path) as file:
        content = file.read()
    if len(content) < 4 or content[:3] != b"\0\0\x08":
        raise ValueError(f"{path.name} is not an IDX file of bytes")
    shape = tuple(np.frombuffer(content, ">u4", count=content[3], offset=4).tolist())
    values = np.frombuffer(content, np.uint8, offset=4 + 4 * len(shape))
    if values.size != math.prod(shape):
        raise ValueError(f"{path.name} should hold {math.prod(shape)} values, and holds {values.size}")
    return values.reshape(shape)


def _cifar_batch(name: str, content: bytes) -> tuple[np.ndarray, np.ndarray]:
    if not content or len(content) % 3073:
        raise ValueError(f"{name} has {len(content)} bytes, which are no whole number of records of 3073")
    records = np.frombuffer(content, np.uint8).reshape(-1, 3073)
    return records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), records[:, 0]


def _wave(content: bytes) -> np.ndarray:
    with wave.open(io.BytesIO(content)) as file:
        if (file.getnchannels(), file.getsampwidth(), file.getframerate()) != (1, 2, 8000):
            raise ValueError("a recording is not one channel of 16 bits at 8 kHz")
        return np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.int16)
