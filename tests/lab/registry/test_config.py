"""Configurations say which field, what was given and what is allowed."""

import dataclasses

import pytest

from secant.lab import SCALES, Options, Seeded, option, scaled
from secant.lab.registry.config import configure, content, fields_of


def test_scales_change_only_what_they_should(demo):
    assert [demo.config(scale).steps for scale in SCALES] == [10, 20, 40]
    assert {demo.config(scale).rate for scale in SCALES} == {0.5}
    assert content(demo.config("smoke")) == {"rate": 0.5, "steps": 10, "starts": [1.0, 2.0]}


def test_a_source_without_a_size_of_its_own_has_that_of_a_laptop():
    @dataclasses.dataclass(frozen=True)
    class Config:
        steps: int = scaled(smoke=10, laptop=20, help="steps")
        name: str | None = scaled(smoke="a", laptop="b", paper=None, help="a name, or none")

    assert [configure(Config, scale).steps for scale in SCALES] == [10, 20, 20]
    assert configure(Config, "paper").name is None


def test_options_are_frozen_dataclasses_and_a_seed_comes_last():
    class Sizes(Seeded):
        width: int = option(8, at_least=1, help="neurons")

    class Config(Sizes):
        steps: int = scaled(smoke=10, laptop=20, help="steps")

    assert list(fields_of(Config)) == ["width", "steps", "seed"]
    assert configure(Config, "smoke", seed=3) == Config(width=8, steps=10, seed=3)
    assert dataclasses.fields(Options.__new__(type("Empty", (Options,), {}))) == ()
    with pytest.raises(dataclasses.FrozenInstanceError):
        Config().steps = 1
    with pytest.raises(ValueError, match="seed: must be at least 0 and at most 2147483647, got -1"):
        configure(Config, seed=-1)


def test_a_whole_number_is_the_same_as_its_float(demo):
    assert repr(demo.config("smoke", starts=(1, 2.0))) == repr(demo.config("smoke", starts=(1.0, 2)))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"rate": 1.5}, ValueError, "rate: must be above 0 and below 1, got 1.5"),
        ({"rate": float("nan")}, ValueError, "rate: must be a finite number, got nan"),
        ({"rate": "fast"}, TypeError, "rate: expected float, got 'fast'"),
        ({"steps": 0}, ValueError, "steps: must be at least 1, got 0"),
        ({"steps": 1.5}, TypeError, "steps: expected int, got 1.5"),
        ({"starts": (1.0, -2.0)}, ValueError, "starts: must be at least 0, got -2.0"),
        ({"setps": 3}, TypeError, "unknown option 'setps'. Did you mean 'steps'"),
    ],
)
def test_bad_values_are_refused_by_name(demo, options, error, message):
    with pytest.raises(error, match=message):
        demo.config("smoke", **options)


def test_no_value_is_within_every_limit():
    @dataclasses.dataclass(frozen=True)
    class Config:
        lr: float | None = option(None, above=0)

    assert configure(Config).lr is None
    with pytest.raises(ValueError, match="lr: must be above 0, got -1"):
        configure(Config, lr=-1.0)


def test_an_unknown_scale_is_refused(demo):
    with pytest.raises(ValueError, match=r"unknown scale 'huge'\. Use one of smoke, laptop, paper"):
        demo.config("huge")
