"""What is written is there whole, or what was there before is."""

import pytest

from secant.core.files import replace, replacing, replacing_directory


def test_bytes_take_the_place_of_a_file(tmp_path):
    path = tmp_path / "a.txt"
    for content in (b"one", b"two"):
        replace(path, content)
        assert path.read_bytes() == content
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]
    assert path.stat().st_mode & 0o777 == 0o644


def test_a_block_that_fails_changes_nothing(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("before")

    def half():
        with replacing(path) as partial:
            assert partial.suffix == ".txt"
            partial.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        half()
    assert path.read_text() == "before"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]


def test_a_directory_takes_the_place_of_another(tmp_path):
    target = tmp_path / "inner" / "pages"
    for content in ("one", "two"):
        with replacing_directory(target) as partial:
            (partial / content).write_text(content)
        assert [entry.name for entry in target.iterdir()] == [content]

    def half():
        with replacing_directory(target) as partial:
            (partial / "three").write_text("three")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        half()
    assert [entry.name for entry in target.iterdir()] == ["two"]
    assert [entry.name for entry in target.parent.iterdir()] == ["pages"]
