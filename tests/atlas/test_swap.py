import os

import pytest

from secant import atlas
from secant.atlas.swap import MARKER, replacing


def test_the_pages_change_places_at_the_end(tmp_path):
    target = tmp_path / "below" / "pages"
    for text in ("one", "two"):
        with replacing(target) as directory:
            (directory / "page").write_text(text)
            (directory / text).touch()
            assert not (target / text).exists()
        assert (target / "page").read_text() == text
    assert {path.name for path in target.iterdir()} == {"page", "two", MARKER}
    assert [path.name for path in target.parent.iterdir()] == ["pages"]


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, RuntimeError])
def test_an_interrupted_build_leaves_the_old_pages(tmp_path, interruption):
    target = tmp_path / "pages"
    with replacing(target) as directory:
        (directory / "page").write_text("old")

    def build():
        with replacing(target) as directory:
            (directory / "page").write_text("new")
            raise interruption

    with pytest.raises(interruption):
        build()
    assert (target / "page").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["pages"]


def test_a_failing_change_of_places_brings_the_old_pages_back(tmp_path, monkeypatch):
    target = tmp_path / "pages"
    with replacing(target) as directory:
        (directory / "page").write_text("old")
    real = os.rename

    def fail(source, destination, **rest):
        if str(source).endswith(".partial"):
            raise PermissionError(1, "no")
        return real(source, destination, **rest)

    monkeypatch.setattr(os, "rename", fail)
    with pytest.raises(atlas.AtlasError, match="cannot write the pages"), replacing(target) as directory:
        (directory / "page").write_text("new")
    assert (target / "page").read_text() == "old"


def test_somebody_elses_directory_is_refused_and_untouched(tmp_path):
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(FileExistsError, match="not an atlas"), replacing(tmp_path):
        pytest.fail("it was not refused")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(FileExistsError, match="not an atlas"), replacing(tmp_path / "thesis.tex"):
        pytest.fail("it was not refused")
    assert (tmp_path / "thesis.tex").read_text() == "mine"


def test_an_empty_directory_and_a_link_to_pages_are_taken(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with replacing(tmp_path / "link") as directory:
        (directory / "page").touch()
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "page").exists()
