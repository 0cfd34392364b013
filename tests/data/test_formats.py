"""Files of the wrong format are told apart from data; right ones are read in `test_download.py`."""

import gzip
import hashlib
import io
import tarfile
import wave
import zipfile

import pytest

from secant.data import formats


def test_an_idx_file_says_what_it_is(tmp_path):
    path = tmp_path / "file.gz"
    for content, message in (
        (b"", "file.gz is not an IDX file of bytes"),
        (b"\0\0\x0d\x01" + b"\0" * 8, "file.gz is not an IDX file of bytes"),  # floating numbers
        (b"\0\0\x08\x01\0\0\0\x05" + b"\0" * 4, "should hold 5 values, and holds 4"),
    ):
        path.write_bytes(gzip.compress(content))
        with pytest.raises(ValueError, match=message):
            formats.idx([path] * 4)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({}, "the archive holds no batches"),
        ({"data_batch_1.bin": b"\0" * 3073}, "not five training batches and a test"),
        ({"data_batch_1.bin": b"\0" * 3072}, "has 3072 bytes, which are no whole number of records"),
        ({"test_batch.bin": b""}, "has 0 bytes"),
    ],
)
def test_a_cifar_archive_is_whole(members, message, tmp_path):
    path = tmp_path / "archive.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    with pytest.raises(ValueError, match=message):
        formats.cifar([path])


def test_a_recording_of_another_rate_is_refused(tmp_path):
    content, path = io.BytesIO(), tmp_path / "archive.zip"
    with wave.open(content, "wb") as file:
        file.setparams((1, 2, 44100, 0, "NONE", None))
        file.writeframes(b"\0\0")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("recordings/0_anna_0.wav", content.getvalue())
    digest = hashlib.sha256(b"0_anna_0.wav" + content.getvalue()).hexdigest()
    with pytest.raises(ValueError, match="not one channel of 16 bits at 8 kHz"):
        formats.recordings([path], digest)
