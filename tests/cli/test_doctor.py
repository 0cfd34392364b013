"""`secant doctor`: its page in the terminal, for machines and in HTML, and its exit status."""

import json
import math
import sys

import pytest
from made_up import falling, record

from secant.monitors import Writer


@pytest.fixture
def kept(home):
    """Writes a made-up record to Secant's home under a name."""

    def keep(name, loss, **about):
        run = record(loss, gradient_norm=loss, load=about.pop("load", 0.5))
        with Writer(home / "watched" / name, {**run.about, **about}) as writer:
            writer.append(*run.rows)
        return name

    return keep


def spiked():
    loss = falling()
    loss[95:120] *= 40
    return loss


def test_a_healthy_run_ends_with_0_and_a_sick_one_with_1(secant, kept):
    status, output, _ = secant("doctor", kept("well", falling()))
    assert status == 0
    assert "✓ healthy" in output
    assert "secant run quadreg/fig-2" in output
    status, output, _ = secant("doctor", kept("ill", spiked()))
    assert status == 1
    assert "✗ bad batch" in output
    status, output, _ = secant("doctor", "ill", "--json")
    assert status == 1
    facts = json.loads(output)
    assert (facts["verdict"], facts["healthy"], facts["spikes"][0]["onset"]) == ("bad batch", False, 94)


def test_a_sentence_without_a_study_names_the_guide(secant, kept):
    loss = falling()
    loss[150:] = math.nan
    status, output, _ = secant("doctor", kept("lost", loss))
    assert status == 1
    assert "✗ overflow" in output
    told = "".join(output.split())
    assert "Nostudystandsbehindthissentence" in told
    assert "docs/guide/runs/doctor.md,'sentenceswithoutastudy'" in told


def test_a_run_that_goes_on_is_read(secant, kept, home):
    kept("going", falling())
    with (home / "watched" / "going" / "rows.jsonl").open("a") as file:
        file.write('{"step": 201, "lo')
    status, output, _ = secant("doctor", str(home / "watched" / "going"))
    assert status == 0
    assert "1 lines that cannot be read" in output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nothing",), "no record of a watched run"),
        (("no_such_module:factory",), "no module 'no_such_module'"),
        (("json:nothing",), "json has no 'nothing'"),
        (("sys:path",), "must be a function that returns (loss, params, batch), got list"),
        (("os:getcwd",), "must return (loss, params, batch)"),
        (("../x:y",), "no record of a watched run"),
    ],
)
def test_a_wrong_command_line_ends_with_2(secant, arguments, said):
    status, _, errors = secant("doctor", *arguments)
    assert status == 2
    assert said in " ".join(errors.split())


def test_a_name_that_is_no_name_is_not_imported(secant, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "harm.py").write_text("raise SystemExit('imported')")
    for given in ("harm", "harm:", "./harm:f", "harm:f()", "harm:f;g"):
        status, _, errors = secant("doctor", given)
        assert status == 2, errors
    assert "harm" not in sys.modules


FACTORY = """
import jax.numpy as jnp
import optax

def steep():
    loss = lambda params, batch: jnp.mean((batch @ params) ** 2) / 2
    return loss, jnp.ones(2), jnp.diag(jnp.array([2.0, 1.0])), optax.sgd(0.25)
"""


def test_a_factory_is_looked_at(secant, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "factory_of_a_test.py").write_text(FACTORY)
    status, output, _ = secant("doctor", "factory_of_a_test:steep", "--json")
    assert status == 0
    facts = json.loads(output)
    assert facts["numbers"]["load"] == pytest.approx(0.25 * 2 / 2, rel=1e-3)  # the Hessian is diag(4, 1)/2


def test_a_page_that_cannot_be_written_is_said(secant, kept, tmp_path):
    status, _, errors = secant("doctor", kept("well", falling()), "--page", str(tmp_path / "no" / "such" / "page.html"))
    assert status == 2
    assert "--page" in errors


def test_a_largest_step_is_tried(secant, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "factory_of_a_trial.py").write_text(FACTORY)
    status, output, errors = secant("doctor", "factory_of_a_trial:steep", "--trial", "50", "--json")
    assert status == 0
    assert "2 times the step size: kept" in errors
    tried = [one for one in json.loads(output)["sentences"] if one["text"].startswith("In trial runs of 50 steps")]
    assert tried[0]["value"] == pytest.approx(1 / 2**0.5, rel=0.05)  # the edge is at 2 over 2
    status, _, errors = secant("doctor", "well", "--trial", "50")
    assert status == 2
    assert "--trial needs module:factory" in " ".join(errors.split())


TORCH = """
import torch

def steep():
    model = torch.nn.Linear(2, 1, bias=False)
    torch.nn.init.ones_(model.weight)
    loss = lambda model, batch: (model(batch) ** 2).mean() / 2
    batch = torch.diag(torch.tensor([2.0, 1.0]))
    return loss, model, lambda step: batch, torch.optim.SGD(model.parameters(), lr=0.25)
"""


def test_a_factory_may_be_of_torch(secant, tmp_path, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "factory_of_torch.py").write_text(TORCH)
    status, output, _ = secant("doctor", "factory_of_torch:steep", "--json", "--trial", "50")
    assert status == 0
    facts = json.loads(output)
    assert facts["numbers"]["load"] == pytest.approx(0.25 * 2 / 2, rel=1e-3)
    assert any(one["text"].startswith("In trial runs of 50 steps") for one in facts["sentences"])
