import pytest

from secant import lab
from secant.atlas.runs import choose, command, outdated
from secant.cli.options import parse_run
from secant.lab import Store


@pytest.fixture
def study(demo):
    return demo[0]


@pytest.fixture
def shelf(tmp_path):
    return Store(tmp_path)


def test_nothing_is_shown_of_a_study_that_never_ran(study, shelf):
    assert choose(study, shelf) is None
    assert not outdated(study, shelf)


def test_the_larger_scale_is_shown_unless_one_is_asked_for(study, shelf):
    lab.run(study, scale="laptop", store=shelf, figure=False)
    lab.run(study, scale="smoke", store=shelf, figure=False)
    assert choose(study, shelf).scale == "laptop"
    assert choose(study, shelf, "smoke").scale == "smoke"
    # `paper` has the options of `laptop` here, so the run is that of both.
    assert choose(study, shelf, "paper").record.directory == choose(study, shelf, "laptop").record.directory


def test_changed_options_are_shown_only_where_there_is_no_other_run(study, shelf):
    lab.run(study, scale="smoke", store=shelf, figure=False, ratio=0.25, starts=(3.0,))
    shown = choose(study, shelf)
    assert shown.changed == {"ratio": 0.25, "starts": (3.0,)}
    assert shown.config == study.config("smoke", ratio=0.25, starts=(3.0,))
    assert choose(study, shelf, "laptop") is None
    lab.run(study, scale="smoke", store=shelf, figure=False)
    assert choose(study, shelf).changed == {}


def test_a_run_by_other_code_is_not_shown(study, shelf, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("secant.lab.runs.store.code_version", lambda _: "yesterday")
        lab.run(study, scale="smoke", store=shelf, figure=False)
    assert choose(study, shelf) is None
    assert outdated(study, shelf)


def test_a_corrupt_run_is_said_and_passed_over(study, shelf):
    record = lab.run(study, scale="smoke", store=shelf, figure=False)
    (record.directory / "data.nc").write_bytes(b"")
    with pytest.warns(RuntimeWarning, match="passed over"):
        assert choose(study, shelf) is None


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"ratio": 1e-7},
        {"offset": -1e-7},
        {"starts": (0.5, -1.0, 2.0)},
        {"starts": (1e-9,), "steps": 3},
        {"mirrored": True},
        {"mode": "with spaces; and 'quotes'"},
    ],
)
def test_the_command_makes_the_run(study, options):
    import shlex

    words = shlex.split(command(study, "smoke", options))
    assert words[:3] == ["secant", "run", study.id]
    flags, config = parse_run(study, words[3:])
    assert flags.scale == "smoke"
    assert config == study.config("smoke", **options)
