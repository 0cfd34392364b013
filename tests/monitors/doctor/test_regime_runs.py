"""Runs whose regime is known, watched by the monitor: what the doctor says of them, and that they are that."""

import functools

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from bench.doctor import regime_runs as runs  # noqa: E402
from bench.doctor import regime_tables  # noqa: E402

from secant.monitors import diagnose  # noqa: E402

SEED = 1000


@functools.cache
def made(kind):
    return runs.make(runs.plan(kind, SEED), SEED)


@pytest.mark.parametrize("kind", runs.KINDS)
def test_the_doctor_says_what_the_run_is(kind):
    found = diagnose(made(kind).watched)
    assert runs.is_right(kind, found.verdict, found.regime), (found.verdict, found.regime)
    assert found.sentences[0].text


def test_runs_are_what_they_are_said_to_be():
    """By their construction, and by all samples, of which a monitor sees a batch."""
    assert made("overflow of activations").lost > 0.5
    assert made("overflow of an unchecked scale").lost == 1
    usual = made("float16, a scaler at work")
    assert usual.lost < 0.2
    assert (np.diff(usual.watched.column("scaler")[1]) < 0).any()  # it halves now and then
    assert made("lazy").watched.column("kernel_drift")[1][-1] < 0.1
    assert made("learning features").watched.column("kernel_drift")[1][-1] > 0.3
    assert made("stochastic edge").sharpness < 0.75  # of all samples, while batches are at their edge
    assert made("edge, all samples").sharpness == pytest.approx(1, abs=0.1)
    assert made("below both edges").sharpness < 0.5
    few, many = made("batch far below critical"), made("batch far above critical")
    assert few.batch < few.critical_batch[0] / 4
    assert many.batch > 4 * many.critical_batch[1]


def test_what_is_recorded_of_all_samples_is_their_curvature():
    run = made("lazy")
    load = run.watched.column("sharpness")[1] / run.watched.column("threshold")[1]
    assert load[-1] == pytest.approx(run.sharpness, rel=0.02)
    assert run.watched.about["same_batch"] is True


def test_the_critical_batch_is_that_of_all_samples_though_gradients_shrank():
    run = made("batch far above critical")
    norms = run.watched.column("gradient_norm")[1]
    assert norms[-1] < norms[0] / 3
    assert run.critical_batch[0] / 2 < run.watched.column("noise_scale")[1][-1] < 2 * run.critical_batch[1]


def test_gradients_written_out_are_those_of_the_network():
    random = torch.Generator().manual_seed(0)
    for rule, smooth in (("standard", True), ("ntk", False), ("mean-field", False)):
        model = runs.Net(3, 4, rule, smooth, random)
        x = torch.randn(5, 3, generator=random)
        rows = [torch.autograd.grad(one, list(model.parameters()), retain_graph=True) for one in model(x)]
        expected = torch.stack([torch.cat([part.reshape(-1) for part in row]) for row in rows])
        assert torch.allclose(runs._jacobian(model, x).float(), expected, atol=1e-6)


def test_a_row_of_the_table(monkeypatch, capsys):
    monkeypatch.setattr(runs, "make", lambda plan, seed: made("lazy"))
    monkeypatch.setattr("sys.argv", ["regime_tables", "2", "lazy"])
    regime_tables.main()
    assert capsys.readouterr().out.endswith("| healthy 2 | lazy 2 | 2 of 2 |\n")
