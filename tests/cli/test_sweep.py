"""`secant sweep`: how values are written, what it prints, and the same bits from one process and from Ray."""

import json
import sys

import pytest

from secant import lab
from secant.cli.values import read_over
from secant.lab.runs import netcdf

ID = "quadreg/limit-series"


def load(path):
    return netcdf.read(path)


def test_a_sweep_prints_its_cells_and_writes_its_data(secant, home, tmp_path):
    output = str(tmp_path / "sweep.nc")
    command = ("sweep", ID, "--over", "epsilons=8:10", "--over", "shown=0.01,0.02", "--scale", "smoke")
    status, printed, errors = secant(*command, "--output", output, "--residual", "0.3")
    assert status in (0, 1), errors
    rows = [line.split() for line in printed.splitlines()[2:6]]
    assert [row[:2] for row in rows] == [["8", "0.01"], ["8", "0.02"], ["9", "0.01"], ["9", "0.02"]]
    assert "4 cells:" in printed
    assert output in printed.replace("\n", "")
    assert dict(load(output).sizes).items() >= {"epsilons": 2, "shown": 2}.items()

    status, printed, _ = secant(*command, "--residual", "0.3", "--json")
    facts = json.loads(printed)
    assert facts["cells"][0]["options"] == {"epsilons": 8, "shown": 0.01}
    assert facts["cells"][0]["config"]["residual"] == 0.3
    assert status == int(any(cell["verdict"] == "fails" for cell in facts["cells"]))
    assert facts["output"] is None

    status, _, errors = secant(*command, "--output", output)
    assert status == 2
    assert "output: " in errors
    assert "is the file of another sweep: options residual 0.3 there, 0.4 here" in errors.replace("\n", " ")
    assert "--overwrite" in errors


def test_a_cell_that_breaks_down_exits_with_1(secant, monkeypatch):
    def broken(config):
        raise RuntimeError("out of order")

    monkeypatch.setattr(lab.get(ID), "compute", broken)
    status, _, errors = secant("sweep", ID, "--over", "shown=0.01", "--scale", "smoke")
    assert status == 1
    assert "1 of 1 cells failed" in errors
    assert "shown=0.01: RuntimeError: out of order" in errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name a study first"),
        ((ID,), "over: name an option and its values"),
        ((ID, "--over", "shown"), "over: expected NAME=VALUES, such as seed=0,1,2, got 'shown'"),
        ((ID, "--over", "show=1"), "has no option 'show'. Did you mean 'shown'"),
        ((ID, "--over", "shown=a,b"), "over: shown: cannot read 'a,b'. Write shown=0.1,0.2."),
        ((ID, "--over", "epsilons=1:2:3:4"), "Write epsilons=0,1,2, or epsilons=0:100:10 for every tenth"),
        ((ID, "--over", "epsilons=5:5"), "over: epsilons: no values given"),
        ((ID, "--over", "shown=0.01", "--over", "shown=0.02"), "over: shown is given twice"),
        ((ID, "--over", "shown=0.01,0.01"), "over: shown: 0.01 is given twice"),
        ((ID, "--over", "shown=0.01", "--shown", "0.01"), "shown: swept over, and given as 0.01 as well"),
        ((ID, "--over", "residual=9"), "residual: must be"),
        (
            (ID, "--over", "shown=0.01", "--engine", "here", "--jobs", "2"),
            "jobs: --engine here is one process, got --jobs 2",
        ),
        ((ID, "--over", "shown=0.01", "--jobs", "0"), "jobs: must be at least 1, got 0"),
        ((ID, "--over", "shown=0.01", "--engine", "processes", "--cores", "0"), "cores: must be at least 1, got 0"),
        ((ID, "--over", "shown=0.01", "--engine", "ray", "--cores", "-1"), "cores: must be at least 1, got -1"),
        ((ID, "--over", "shown=0.01", "--cores", "0"), "cores: must be at least 1, got 0"),
        (
            (ID, "--over", "epsilons=0:99999999999"),
            "over: the values, 99,999,999,999 of epsilons, make 99,999,999,999 cells, and a sweep has at most 100,000.",
        ),
        ((ID, "--over", f"epsilons=0:{10**29}"), "a sweep has at most 100,000"),
        ((ID, "--over", f"epsilons={10**12}:0:-10"), "100,000,000,000 of epsilons"),
        ((ID, "--over", "epsilons=0:60000,60000:120000"), "120,000 of epsilons"),
        ((ID, "--over", "epsilons=0:10:0"), "Write epsilons=0,1,2"),
        (
            (ID, "--over", "epsilons=0:1000", "--over", "shown=" + ",".join(map(str, range(101)))),
            "1,000 of epsilons and 101 of shown, make 101,000 cells",
        ),
        ((ID, "--over", "shown=0.01", "--engine", "processes", "--address", "auto"), "Use --engine ray"),
        ((ID, "--over", "shown=0.01", "--address", "auto", "--jobs", "2"), "jobs: a running cluster"),
    ],
)
def test_a_wrong_command_line_is_explained_and_exits_with_2(secant, arguments, message):
    status, _, errors = secant("sweep", *arguments)
    assert status == 2
    assert message in errors.replace("\n", " ")


def test_tuples_are_written_with_semicolons(secant):
    study = lab.get("quadreg/fig-2")
    assert read_over(study, ("lrs=0.5,1;2", "steps=1000,2000:4000:1000")) == {
        "lrs": [(0.5, 1.0), (2.0,)],
        "steps": [1000, 2000, 3000],
    }
    status, _, errors = secant("sweep", study.id, "--over", "lrs=0.5;x")
    assert status == 2
    assert "over: lrs: cannot read '0.5;x'. Write 'lrs=0.5,1.5;0.25,0.75'." in errors.replace("\n", " ")


def test_without_ray_the_command_says_how_to_get_it(secant, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    status, _, errors = secant("sweep", ID, "--over", "shown=0.01", "--scale", "smoke", "--engine", "ray")
    assert status == 2
    assert 'pip install "secant[sweep]"' in errors


def test_a_ray_cluster_of_two_finds_the_same_bits_as_one_process(secant, tmp_path, monkeypatch):
    ray = pytest.importorskip("ray")
    command = ["sweep", ID, "--over", "shown=0.01,0.02", "--scale", "smoke", "--output"]
    secant(*command, str(tmp_path / "here.nc"))
    monkeypatch.setenv("SECANT_HOME", str(tmp_path / "other"))
    _, printed, errors = secant(*command, str(tmp_path / "ray.nc"), "--engine", "ray", "--jobs", "2")
    assert "2 cells:" in printed, errors
    assert load(tmp_path / "ray.nc").identical(load(tmp_path / "here.nc"))
    assert not ray.is_initialized(), "the cluster outlived the command"
