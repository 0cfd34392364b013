"""Every command, its output for people and for machines, and its exit status."""

import json
import os
import subprocess
import sys

import pytest
import xarray as xr

from secant import lab
from secant.lab.runs.record import sealed

ID = "quadreg/fig-1"
ROW = {"study", "source", "finding", "predicted", "measured", "tolerance", "verdict", "scale", "seconds"}


def test_run_prints_findings_saves_the_run_and_reads_it_back(secant, home):
    status, output, _ = secant("run", ID, "--scale", "smoke", "--json")
    facts = json.loads(output)
    assert status == 0
    assert facts["study"] == ID
    assert {p.name for p in home.glob(f"runs/{ID}/*/*")} >= {"data.nc", "run.json", "figure.svg", "figure.png"}
    status, output, _ = secant("run", ID, "--scale", "smoke")
    assert status == 0
    assert "holds" in output
    assert facts["directory"] in output.replace("\n", "")

    status, output, _ = secant("runs", "--json")
    assert [row["study"] for row in json.loads(output)] == [ID]
    status, output, _ = secant("list", "--json")
    assert {row["id"]: row["verdict"] for row in json.loads(output)}[ID] is not None
    status, output, _ = secant("show", ID)
    assert status == 0
    assert "--epsilon" in output
    assert "last run (smoke" in output


HARM = {
    0.05: lambda facts: facts["findings"][0].update(verdict="perhaps"),
    0.06: lambda facts: facts["findings"][0].pop("measured"),
    0.07: lambda facts: facts.update(findings="none"),
    0.08: lambda facts: facts.update(seconds="long"),
}
"""What is done to the records of runs with different options."""


@pytest.mark.filterwarnings("always")
def test_runs_that_are_none_are_named_and_the_commands_go_on(secant, home, tmp_path, monkeypatch):
    monkeypatch.setattr("secant.atlas.pages.catalog", lambda: [lab.get(ID)])
    lab.run(ID, scale="smoke", figure=False, epsilon=0.04)
    harmed = []
    for epsilon, harm in HARM.items():
        record = lab.run(ID, scale="smoke", figure=False, epsilon=epsilon)
        facts = json.loads((record.directory / "run.json").read_text())
        harm(facts)
        (record.directory / "run.json").write_bytes(sealed(facts))
        harmed.append(record.directory)
    pages = str(tmp_path / "pages")
    for command in (("runs",), ("runs", "--json"), ("list",), ("show", ID), ("atlas", "--output", pages)):
        status, output, errors = secant(*command)
        assert status == 0
        assert output
        for directory in harmed:
            assert f"secant: warning: the run in {directory} is corrupt" in errors, command
    _, output, _ = secant("runs", "--json")
    assert [row["config"]["epsilon"] for row in json.loads(output)] == [0.04]


def test_brackets_in_a_record_are_brackets(secant, home):
    record = lab.run(ID, scale="smoke", figure=False)
    facts = json.loads((record.directory / "run.json").read_text())
    facts["findings"][0].update(finding="a claim [/bold] on [0, 1]", verdict="fails", note="a [/note]")
    (record.directory / "run.json").write_bytes(sealed(facts))
    for command in (("run", ID, "--scale", "smoke", "--no-figure"), ("show", ID)):
        _, output, _ = secant(*command)
        assert "a claim [/bold] on [0, 1]" in output
        assert "a [/note]" in output


def test_verify_gives_one_row_a_finding(secant):
    status, output, _ = secant("verify", ID, "--json")
    rows = json.loads(output)
    assert status == 0
    assert rows
    assert all(set(row) >= ROW for row in rows)
    assert {row["verdict"] for row in rows} <= {"holds", "erratum", "inconclusive"}
    assert {row["scale"] for row in rows} == {"smoke"}


def test_verify_names_what_decides_nothing_and_is_strict_if_asked(secant, monkeypatch):
    study = lab.get(ID)
    found = lab.claim("spikes", "spikes").undecided(1.0, "no run has one")
    monkeypatch.setattr(study, "_findings", lambda data, config: iter([found]))
    status, output, _ = secant("verify", ID, "--force", "--jobs", "1")
    assert status == 0
    assert "inconclusive" in output
    assert f"{ID}: spikes" in output
    assert "no run has one" in output
    assert "1 inconclusive" in output
    assert secant("verify", ID, "--jobs", "1", "--strict")[0] == 1


def test_verify_runs_other_seeds_and_lists_verdicts_that_change(secant, monkeypatch):
    study = lab.get("quadreg/acceleration")
    verdicts = iter([1.0, 3.0])
    claim = lab.claim("f", "f")
    monkeypatch.setattr(study, "compute", lambda config: xr.Dataset({"seed": config.seed}))
    monkeypatch.setattr(
        study, "_findings", lambda data, config: iter([claim.equal(1.0, next(verdicts), 0.1, "a test")])
    )
    status, output, _ = secant("verify", study.id, "--seeds", "2", "--jobs", "1", "--force")
    assert status == 1
    assert "(seed 10000)" in output
    assert (
        "changes with the seed: quadreg/acceleration: f: 1 holds, 1 fails; it fails more often than its claim allows"
        in output
    )
    assert secant("verify", study.id, "--seeds", "0")[0] == 2


def test_verify_exits_with_1_when_a_finding_fails(secant, monkeypatch):
    study = lab.get(ID)

    def broken(config):
        raise RuntimeError("out of order")

    monkeypatch.setattr(study, "compute", broken)
    status, output, _ = secant("verify", ID, "--json", "--force", "--jobs", "1")
    assert status == 1
    assert [row["verdict"] for row in json.loads(output)] == ["fails"]
    assert "out of order" in output


def test_options_of_a_study_are_options_of_the_command(secant):
    status, output, _ = secant("run", ID, "--scale", "smoke", "--epsilon", "0.05", "--no-figure", "--json")
    assert json.loads(output)["config"]["epsilon"] == 0.05
    assert status in (0, 1)


def test_list_shows_every_study(secant):
    status, output, _ = secant("list", "--json")
    rows = json.loads(output)
    assert status == 0
    assert [row["id"] for row in rows] == [study.id for study in lab.catalog()]
    assert {"id", "source", "section", "title", "statement", "verdict"} <= set(rows[0])
    _, output, _ = secant("list", "--source", "quadreg")
    assert ID in output
    assert "thesis/" not in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("lst",), "Did you mean 'list'"),
        (("run",), "name a study first"),
        (("run", "quadreg/fig1"), "Did you mean 'quadreg/fig-1'"),
        (("show", "quadreg/fig-22"), "Did you mean 'quadreg/fig-2'"),
        (("verify", "nonsense"), "unknown study 'nonsense'"),
        (("verify", "--source", "quadrag"), "Did you mean 'quadreg'"),
        (("list", "--source", "quadrag"), "Did you mean 'quadreg'"),
        (("verify", "--scale", "smok"), "smoke"),
        (("run", ID, "--scale", "smok"), "Did you mean 'smoke'"),
        (("run", ID, "--epsilonn", "0.1"), "--epsilon"),
        (("run", ID, "--epsilon", "banana"), "banana"),
        (("run", ID, "--epsilon", "-1"), "epsilon: must be above 0 and at most 0.2, got -1.0"),
        (("run", ID, "--epsilon", "nan"), "epsilon: must be a finite number, got nan"),
        (("run", ID, "--steps", "1.5"), "1.5"),
    ],
)
def test_a_wrong_command_line_is_explained_and_exits_with_2(secant, arguments, message):
    status, _, errors = secant(*arguments)
    assert status == 2
    assert message in errors.replace("\n", " ")


def test_without_a_command_there_is_help(secant):
    status, output, _ = secant()
    assert status == 2
    assert "verify" in output
    assert secant("--help")[0] == 0
    assert secant("--version")[1].startswith("secant ")
    assert secant("run", "--help")[0] == 0


def test_a_store_that_cannot_be_written_is_said(secant, home):
    home.write_text("a file in the way")
    status, _, errors = secant("run", ID, "--scale", "smoke")
    assert status == 2
    assert "SECANT_HOME" in errors


def test_the_installed_command_works_end_to_end(tmp_path):
    environment = os.environ | {"SECANT_HOME": str(tmp_path / "home")}

    def secant(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "secant.cli", *arguments],
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )

    run = secant("run", ID, "--scale", "smoke", "--no-figure")
    assert run.returncode == 0, run.stderr
    runs = secant("runs", "--json")
    assert runs.returncode == 0, runs.stderr
    assert [row["study"] for row in json.loads(runs.stdout)] == [ID]
    assert any((tmp_path / "home" / "compiled").iterdir())


def test_importing_secant_is_light():
    code = (
        "import sys, secant; assert secant.simulate; "
        "heavy = {'matplotlib', 'xarray', 'diffrax', 'pandas', 'scipy'} & set(sys.modules); assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
