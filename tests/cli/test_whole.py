"""Whole numbers may be written as people write them, wherever an option is one."""

from dataclasses import dataclass

import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from secant.cli.options import parse, parse_run
from secant.cli.values import read_over
from secant.cli.whole import whole
from secant.lab import option, study

WRITTEN = {"1e9": 10**9, "1_000": 1000, "2.0e3": 2000, "1E3": 1000, "-2": -2, "+5": 5, "3.0": 3, "0": 0, "1e0": 1}
WRITTEN |= {"120e-1": 12, " 7 ": 7, "123456789012345678901234567890": 123456789012345678901234567890}
REFUSED = [
    "1.5",
    "1e-1",
    "banana",
    "",
    "nan",
    "inf",
    "-Infinity",
    "1e30",
    "1e999999999",
    "0x10",
    "1,000",
    "1 000",
    "1e",
]


@dataclass(frozen=True)
class Config:
    steps: int = option(10)
    sizes: tuple[int, ...] = option((64, 128))
    two: tuple[int, int] = option((1, 2))
    pair: tuple[int, float] = option((1, 2.0))
    perhaps: int | None = option(None)
    rate: float = option(0.5)


@study("demo/whole", section="1", title="Whole numbers")
def numbers(config: Config) -> xr.Dataset:
    """They are whole."""
    return xr.Dataset()


@pytest.mark.parametrize(("text", "number"), WRITTEN.items())
def test_whole_numbers_are_read(text, number):
    found = whole(text)
    assert (found, type(found)) == (number, int)


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_not_whole_is_refused(text):
    with pytest.raises(ValueError, match="is not a whole number of at most 30 digits, such as 1000, 1_000 or 1e3"):
        whole(text)


@given(st.integers(-(10**30) + 1, 10**30 - 1))
def test_every_integer_is_read_as_itself(number):
    assert whole(str(number)) == whole(f"{number:_}") == whole(f"{number}.0") == whole(f"{number}0e-1") == number


@given(st.floats(-1e15, 1e15).filter(lambda number: not number.is_integer()))
def test_what_has_a_fraction_is_refused(number):
    with pytest.raises(ValueError, match="is not a whole number"):
        whole(repr(number))


def test_they_are_read_in_every_kind_of_option():
    written = "--steps 1e3 --sizes 1_024 2.0e3 --two 1e1 2 --pair 1e2 0.5 --perhaps 1e6 --rate 1e-3"
    _, config = parse_run(numbers, written.split())
    assert config == Config(1000, (1024, 2000), (10, 2), (100, 0.5), 1_000_000, 1e-3)
    assert all(type(size) is int for size in config.sizes)
    assert parse_run(numbers, ["--perhaps", "None"])[1].perhaps is None
    assert parse_run(numbers, [])[1] == Config()


def test_they_are_read_in_sweeps():
    written = ("steps=1e3,2_000,3.0e3", "sizes=1e2,2e2;3e2", "perhaps=none,1e6", "pair=1e1,0.5")
    assert read_over(numbers, written) == {
        "steps": [1000, 2000, 3000],
        "sizes": [(100, 200), (300,)],
        "perhaps": [None, 1_000_000],
        "pair": [(10, 0.5)],
    }
    assert read_over(numbers, ("steps=1e3:5e3:2e3",)) == {"steps": [1000, 3000]}


@pytest.mark.parametrize("flags", ["--steps 1.5", "--sizes 64 1.5", "--two 1 1.5", "--perhaps 1.5"])
def test_others_are_refused_with_a_clear_line(capfd, flags):
    with pytest.raises(SystemExit) as stop:
        parse_run(numbers, flags.split())
    assert stop.value.code == 2
    said = " ".join(capfd.readouterr().err.replace("│", " ").split())
    assert f"Error parsing {flags.split()[0]}: " in said
    assert "'1.5' is not a whole number of at most 30 digits, such as 1000, 1_000 or 1e3" in said


def test_help_shows_them_with_their_defaults(capfd):
    with pytest.raises(SystemExit):
        parse_run(numbers, ["--help"])
    said = " ".join(capfd.readouterr().out.replace("│", " ").split())
    assert "--sizes [INT [INT ...]] (default: 64 128)" in said
    assert "--two INT INT (default: 1 2)" in said
    assert "(default: None)" not in said
    assert "(default: False)" not in said


def test_flags_of_commands_are_read_the_same_way(secant):
    from secant.cli.commands import VerifyOptions

    assert parse(VerifyOptions, ["--jobs", "2e0"], "verify").jobs == 2
    status, _, errors = secant("run", "quadreg/fig-1", "--steps", "1.5")
    assert status == 2
    assert "'1.5' is not a whole number" in " ".join(errors.replace("│", " ").split())
