"""Detectors of rises, steps over the edge and spikes, on records made by hand and on a run."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import secant as sc
from secant.measure import events


def test_match_rates_count_both_ways():
    found = events.match_rates([1.0, 2.0, 1.0, 3.0, 3.0], [0.5, 0.5, 0.5, 0.9], [0.4, 0.3, 0.6, 0.8])
    assert found == (0.5, 1 / 3, 2, 3)
    calm = events.match_rates([3.0, 2.0, 1.0], 0.1, [0.2, 0.2])
    assert np.isnan(calm.foretold)
    assert np.isnan(calm.followed)
    assert (calm.rises, calm.over) == (0, 0)
    # At the edge is not over it.
    assert not events.over_edge(0.5, 0.5).any()
    assert not events.over_edge(0.5, np.nan).any()


def test_spikes_have_a_beginning_a_peak_and_an_end():
    loss = [4.0, 2.0, 2.5, 1.0, 1.2, 5.0, 9.0, 1.1, 1.0, 0.5, 2.0, 3.0]
    first, second = events.spikes(loss, factor=2.0)
    assert first == (3, 6, 8, 9.0)
    assert second == (9, 11, None, 6.0)
    assert events.spikes(loss, factor=2.0, tolerance=0.1)[0].end == 7
    assert events.spikes([3.0, 2.0, 1.0]) == []
    (blown,) = events.spikes([1.0, 2.0, np.inf, np.nan])
    assert blown.end is None
    assert np.isinf(blown.height) or np.isnan(blown.height)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0.01, 100.0), min_size=2, max_size=40))
def test_spikes_do_not_overlap_and_rise_enough(loss):
    last = 0
    for spike in events.spikes(loss, factor=1.5):
        assert spike.start >= last
        assert spike.start < spike.peak
        assert spike.height > 1.5
        assert loss[spike.start] <= min(loss[spike.start : spike.end])
        if spike.end is None:
            break
        assert loss[spike.end] <= loss[spike.start]
        last = spike.end


@pytest.mark.parametrize("loss", [[], [1.0], [[1.0, 2.0]]])
def test_records_that_are_no_run_are_refused(loss):
    with pytest.raises(ValueError, match="`loss`"):
        events.spikes(loss)
    with pytest.raises(ValueError, match="`loss`"):
        events.rises(loss)


@pytest.mark.parametrize("options", [{"factor": 1.0}, {"factor": float("nan")}, {"tolerance": -0.1}])
def test_bad_options_of_spikes_are_named(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        events.spikes([1.0, 2.0], **options)


@pytest.mark.parametrize("size", [3, 40])
def test_the_critical_step_of_every_batch_is_measured_before_the_step(size):
    """Against the kernel of the batch, written out, at the parameters of each step; 40 rows go another way than 3."""
    with jax.enable_x64(True):
        x = np.random.default_rng(0).normal(size=(45, 6))
        net = sc.nets.mlp([9], activation="tanh")
        problem = sc.Problem(net.apply, x, np.sin(x[:, 0]), sc.losses.mean_mse)
        batches = sc.Batches(size, seed=4)
        probes = {"critical": sc.measure.batch_critical_lr(), "loss": sc.measure.loss()}
        start = net.init(jax.random.key(0), x.shape)
        run = sc.train(problem, start, lr=0.3, steps=3, batches=batches, probes=probes)
        rows = np.asarray([batches.indices(45, 0)])
        expected = sc.batch_critical_lr(net.apply, start, x, problem.y, sc.losses.mean_mse, rows)
        np.testing.assert_allclose(run["critical"][0], expected[0], rtol=1e-6)
        rows = np.asarray([batches.indices(45, 3)])
        expected = sc.batch_critical_lr(net.apply, run.state, x, problem.y, sc.losses.mean_mse, rows)
        np.testing.assert_allclose(run["critical"][-1], expected[0], rtol=1e-6)
        with pytest.raises(ValueError, match="this run has no batches"):
            sc.train(problem, start, lr=0.3, steps=3, probes=probes)
