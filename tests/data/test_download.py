"""Data sets arrive once, whole and checked, or not at all, and then it is said why."""

import concurrent.futures
import dataclasses
import hashlib
import re
import resource
import urllib.parse

import numpy as np
import pooch
import pytest

from secant.data import MissingDataError, fetch, load
from secant.data import sources as records
from secant.data.download import cache
from secant.data.sources import SOURCES

RECORDS = dict(records.SOURCES)  # as they are written, before a test gives them other homes
TRAIN_IMAGES = "train-images-idx3-ubyte.gz"


def kept():
    """What lies in the cache; the lock files are empty and stay."""
    return sorted(path.name for path in cache().rglob("*") if path.is_file() and path.suffix != ".lock")


@pytest.mark.parametrize("name", RECORDS)
def test_a_downloaded_set_is_the_set_from_a_file(name, publish, monkeypatch, tmp_path):
    arrays = publish(name)
    downloaded = load(name, scaling="none")
    with np.load(fetch(name), allow_pickle=False) as file:
        assert set(file) == set(arrays)
        for array in arrays:
            np.testing.assert_array_equal(file[array], arrays[array])
            assert file[array].dtype == arrays[array].dtype
    np.savez(tmp_path / SOURCES[name].file, **arrays)
    monkeypatch.setenv("SECANT_DATA", str(tmp_path))
    given = load(name, scaling="none")
    np.testing.assert_array_equal(given.train.x, downloaded.train.x)
    assert given.recipe["digest"] == downloaded.recipe["digest"]
    assert given.recipe["source"] == f"file:{SOURCES[name].file}"
    assert downloaded.recipe["source"] == f"download:{SOURCES[name].homes[0]}"


def test_it_is_asked_for_once_and_the_parts_go_away(publish, server):
    publish("mnist")
    load("mnist")
    assert server.asked == list(SOURCES["mnist"].files)
    assert kept() == ["mnist.npz"]
    load("mnist")
    assert len(server.asked) == 4


def test_a_file_of_the_user_is_not_asked_for(publish, server, monkeypatch, tmp_path):
    np.savez(tmp_path / "mnist.npz", **publish("mnist"))
    monkeypatch.setenv("SECANT_DATA", str(tmp_path))
    assert fetch("mnist") == tmp_path / "mnist.npz"
    assert not server.asked


def test_a_wrong_checksum_is_refused_with_both_digests(publish, server):
    publish("mnist")
    expected = SOURCES["mnist"].files[TRAIN_IMAGES].removeprefix("md5:")
    server.files[TRAIN_IMAGES] += b"something else"
    got = hashlib.md5(server.files[TRAIN_IMAGES]).hexdigest()
    with pytest.raises(MissingDataError, match="MNIST is not on this machine") as raised:
        load("mnist")
    for part in (TRAIN_IMAGES, expected, got, "SECANT_DATA", "mnist.npz"):
        assert part in str(raised.value)
    assert kept() == []


def test_a_transfer_that_broke_off_is_tried_again(publish, server):
    publish("mnist")
    server.broken[TRAIN_IMAGES] = 1
    load("mnist")
    assert server.asked.count(TRAIN_IMAGES) == 2


def test_after_an_interruption_only_what_is_missing_is_asked_for(publish, server):
    publish("mnist")
    names = list(SOURCES["mnist"].files)
    server.broken[names[2]] = 2
    with pytest.raises(MissingDataError, match=rf"{names[2]}: the transfer broke off, twice"):
        load("mnist")
    assert kept() == sorted(names[:2])  # whole files, and no half one
    server.asked.clear()
    load("mnist")
    assert server.asked == names[2:]
    assert kept() == ["mnist.npz"]


def test_a_part_that_was_damaged_meanwhile_is_asked_for_again(publish, server):
    publish("mnist")
    names = list(SOURCES["mnist"].files)
    lost = server.files.pop(names[1])
    with pytest.raises(MissingDataError, match="the server answers 404"):
        load("mnist")
    (cache() / ".mnist.npz.parts" / names[0]).write_bytes(b"damaged")
    server.files[names[1]] = lost
    load("mnist")
    assert server.asked.count(names[0]) == 2


def test_a_mirror_stands_in(publish, server, monkeypatch):
    publish("mnist")
    away = dataclasses.replace(SOURCES["mnist"], homes=(server.home + "gone/", "http://127.0.0.1:9/", server.home))
    monkeypatch.setitem(SOURCES, "mnist", away)
    load("mnist")
    assert server.asked[:2] == ["gone/" + TRAIN_IMAGES, TRAIN_IMAGES]


def test_without_a_network_it_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setenv("SECANT_DATA", str(tmp_path))
    with pytest.raises(MissingDataError) as raised:
        load("svhn")
    for part in (
        "SVHN",
        "http://127.0.0.1:9/train_32x32.mat: no connection",
        "put svhn.npz",
        "SECANT_DATA",
        str(tmp_path),
    ):
        assert part in str(raised.value)
    monkeypatch.delenv("SECANT_DATA")
    with pytest.raises(MissingDataError, match=r"SECANT_DATA names \(it is not set\)"):
        load("svhn")
    assert kept() == []


def test_what_is_not_the_set_is_not_kept(publish, server, monkeypatch):
    publish("spoken-digits")
    monkeypatch.setitem(SOURCES, "spoken-digits", RECORDS["spoken-digits"])
    other = dataclasses.replace(SOURCES["spoken-digits"], homes=(server.home,))
    monkeypatch.setitem(SOURCES, "spoken-digits", other)
    with pytest.raises(MissingDataError, match=r"is not Free Spoken Digit.*24 recordings have the SHA-256 \w{64}, and"):
        load("spoken-digits")
    assert kept() == []
    server.files["v1.0.10.zip"] = b"<html>"
    with pytest.raises(MissingDataError, match=r"is not Free Spoken Digit.*not a zip file"):
        load("spoken-digits")
    assert kept() == []


@pytest.mark.parametrize("limit", [5_000, 20_000], ids=["in a download", "in the result"])
def test_a_full_disk_is_said(publish, limit):
    publish("mnist")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        with pytest.raises(MissingDataError, match=r"MNIST cannot be stored in .*home.data: .*SECANT_HOME"):
            load("mnist")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not [name for name in kept() if name not in SOURCES["mnist"].files]
    load("mnist")


def test_a_place_that_cannot_be_written_is_said(publish, monkeypatch, tmp_path):
    publish("mnist")
    (tmp_path / "file").touch()
    monkeypatch.setenv("SECANT_HOME", str(tmp_path / "file"))
    with pytest.raises(MissingDataError, match=r"cannot be stored in .*Not a directory.*Make it writable"):
        load("mnist")


def test_two_at_once_download_it_once(publish, server):
    publish("mnist")
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        paths = list(pool.map(fetch, ["mnist"] * 4))
    assert set(paths) == {cache() / "mnist.npz"}
    assert len(server.asked) == 4


def test_progress_is_drawn_in_a_terminal_only(publish, monkeypatch, capfd):
    publish("mnist")
    level = pooch.get_logger().level
    load("mnist")
    assert capfd.readouterr() == ("", "")
    assert pooch.get_logger().level == level
    (cache() / "mnist.npz").unlink()
    monkeypatch.setenv("FORCE_COLOR", "1")
    load("mnist")
    output, drawn = capfd.readouterr()
    assert "MNIST" in drawn
    assert "kB" in drawn
    assert output == ""


def test_the_cache_is_below_the_home_or_the_users_own(monkeypatch, tmp_path):
    assert cache() == tmp_path / "home" / "data"
    monkeypatch.delenv("SECANT_HOME")
    assert cache().parts[-2:] == ("secant", "data")


def test_only_sets_with_files_can_be_fetched():
    with pytest.raises(ValueError, match=r"'digits' has no file\. There are cifar10"):
        fetch("digits")


@pytest.mark.parametrize("source", RECORDS.values(), ids=RECORDS)
def test_a_record_is_well_formed(source):
    for home in source.homes:
        address = urllib.parse.urlsplit(home)
        assert address.scheme in ("http", "https")
        assert address.path.endswith("/")
    for checksum in source.files.values():
        assert checksum is None or re.fullmatch(r"md5:[0-9a-f]{32}", checksum)
    assert all(source.files.values()) or "digest" in source.convert.keywords
