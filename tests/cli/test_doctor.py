"""`secant doctor`: its page in the terminal, for machines and in HTML, and its exit status."""

import json
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
        (("sys:path",), "must be a function"),
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
