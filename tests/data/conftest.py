"""Small data sets in their published formats, and a server that has them."""

import bz2
import dataclasses
import functools
import gzip
import hashlib
import http.server
import io
import struct
import tarfile
import threading
import wave
import zipfile

import numpy as np
import pytest
import scipy.io
from sklearn.datasets import dump_svmlight_file

from secant.data import formats
from secant.data.sources import SOURCES

NOWHERE = "http://127.0.0.1:9/"  # nothing listens there, so the answer comes at once


@pytest.fixture(autouse=True)
def offline(tmp_path, monkeypatch):
    """No test reaches the world or the user's own files, unless it says how."""
    monkeypatch.setenv("SECANT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    for name, source in SOURCES.items():
        monkeypatch.setitem(SOURCES, name, dataclasses.replace(source, homes=(NOWHERE,)))


class Server(http.server.ThreadingHTTPServer):
    """Serves bytes from memory, breaks off where it is told to, and remembers what it was asked for."""

    def __init__(self):
        self.files, self.broken, self.asked = {}, {}, []
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def home(self):
        return f"http://127.0.0.1:{self.server_port}/"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        name = self.path.removeprefix("/")
        self.server.asked.append(name)
        if name not in self.server.files:
            return self.send_error(404)
        content = self.server.files[name]
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.server.broken.get(name, 0):
            self.server.broken[name] -= 1
            content = content[: len(content) // 2]
        self.wfile.write(content)

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def arrays_of(name):
    """A small data set in the form that Secant keeps."""
    random = np.random.default_rng(0)
    if name == "spoken-digits":
        lengths = random.integers(300, 400, 24)
        lengths[0] = 7000  # longer than what is kept
        return {
            "waveform": random.integers(-(2**15), 2**15, lengths.sum()).astype(np.int16),
            "offset": np.cumsum([0, *lengths]),
            "label": np.repeat([0, 1], 12).astype(np.uint8),
            "speaker": np.tile(np.repeat([0, 1], 6), 2).astype(np.uint8),
            "take": np.tile(np.arange(2, 8), 4).astype(np.uint8),
            "speakers": np.array(["anna", "bert"]),
            "rate": np.array(8000),
        }
    shape = {"cifar10": (32, 32, 3), "svhn": (32, 32, 3), "usps": (16, 16)}.get(name, (28, 28))
    return {
        "x_train": random.integers(0, 256, (40, *shape), dtype=np.uint8),
        "y_train": np.tile(np.arange(10, dtype=np.uint8), 4),
        "x_test": random.integers(0, 256, (20, *shape), dtype=np.uint8),
        "y_test": np.tile(np.arange(10, dtype=np.uint8), 2),
    }


def idx(array):
    head = b"\0\0\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return gzip.compress(head + array.tobytes(), compresslevel=1)


def cifar(arrays):
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        parts = {f"data_batch_{k + 1}.bin": ("train", slice(8 * k, 8 * k + 8)) for k in range(5)}
        parts |= {"test_batch.bin": ("test", slice(None)), "readme.html": ("test", slice(0))}
        for name, (part, rows) in sorted(parts.items(), reverse=True):
            x, y = arrays[f"x_{part}"][rows], arrays[f"y_{part}"][rows]
            content = np.concatenate([y[:, None], x.transpose(0, 3, 1, 2).reshape(len(x), 3072)], axis=1).tobytes()
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return archive.getvalue()


def mat(x, y):
    file = io.BytesIO()
    labels = np.where(y == 0, 10, y)[:, None]
    scipy.io.savemat(file, {"X": x.transpose(1, 2, 3, 0), "y": labels.astype(np.uint8)}, do_compression=True)
    return file.getvalue()


def libsvm(x, y):
    file = io.BytesIO()
    values = (x.reshape(len(x), -1) / 255.0 * 2 - 1).round(3)  # three digits, as they are published
    dump_svmlight_file(values, y + 1, file, zero_based=False)
    return bz2.compress(file.getvalue())


def recordings(arrays):
    """The archive, and the digest of what is in it."""
    archive, digest, offset = io.BytesIO(), hashlib.sha256(), arrays["offset"]
    files = {}
    for i, (label, speaker, take) in enumerate(zip(arrays["label"], arrays["speaker"], arrays["take"], strict=True)):
        content = io.BytesIO()
        with wave.open(content, "wb") as file:
            file.setparams((1, 2, 8000, 0, "NONE", None))
            file.writeframes(arrays["waveform"][offset[i] : offset[i + 1]].tobytes())
        files[f"{label}_{arrays['speakers'][speaker]}_{take}.wav"] = content.getvalue()
    with zipfile.ZipFile(archive, "w") as zip_file:
        zip_file.writestr("digits-1.0/metadata.py", "raise RuntimeError")
        for name, content in files.items():
            zip_file.writestr(f"digits-1.0/recordings/{name}", content)
    for name in sorted(files):
        digest.update(name.encode() + files[name])
    return archive.getvalue(), digest.hexdigest()


@pytest.fixture
def publish(server, monkeypatch):
    """Puts a small data set on the server as its publisher would; gives its arrays."""

    def put(name):
        arrays, source = arrays_of(name), SOURCES[name]
        convert = source.convert
        x, y, x_test, y_test = (arrays.get(array) for array in formats.IMAGES)
        if name == "spoken-digits":
            archive, digest = recordings(arrays)
            contents = [archive]
            convert = functools.partial(formats.recordings, digest=digest)
        elif name == "cifar10":
            contents = [cifar(arrays)]
        elif name in ("svhn", "usps"):
            form = mat if name == "svhn" else libsvm
            contents = [form(x, y), form(x_test, y_test)]
        else:
            contents = [idx(array) for array in (x, y, x_test, y_test)]
        files = dict(zip(source.files, contents, strict=True))
        server.files |= files
        sums = {
            file: source.files[file] and f"md5:{hashlib.md5(content).hexdigest()}" for file, content in files.items()
        }
        replaced = dataclasses.replace(source, homes=(server.home,), files=sums, convert=convert)
        monkeypatch.setitem(SOURCES, name, replaced)
        monkeypatch.delenv("SECANT_DATA", raising=False)
        return arrays

    return put


@pytest.fixture
def user_file(tmp_path, monkeypatch):
    """Writes a small data set, changed as asked, to where the user keeps files; gives its path."""
    monkeypatch.setenv("SECANT_DATA", str(tmp_path))

    def write(name, file=None, **changes):
        path = tmp_path / (file or SOURCES[name].file)
        arrays = arrays_of(name) | changes
        np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
        return path

    return write
