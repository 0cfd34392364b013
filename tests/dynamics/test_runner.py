"""`simulate` keeps its promises: the same numbers as a plain loop, whatever the cadences, axes and interruptions."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from secant.dynamics import (
    CheckpointMismatchError,
    CheckpointWriteError,
    Map,
    Outcome,
    Probe,
    Stop,
    resumable,
    simulate,
)
from secant.dynamics import runner as runner_module
from secant.optim import gradient_descent

logistic = Map(init=lambda x: x, step=lambda x: 3.7 * x * (1 - x))


def identity(x):
    return x


def double(x):
    return 2 * x


def logistic_step(x, r):
    return r * x * (1 - x)


def plain_loop(step, x, steps, *values):
    """All states of a loop over a compiled step."""
    path = [x]
    for _ in range(steps):
        path.append(step(path[-1], *values))
    return np.array(path)


one_step, any_step = jax.jit(logistic.step), jax.jit(logistic_step)


class InterruptAfter:
    """A progress reporter that presses Ctrl-C after so many updates."""

    def __init__(self, updates):
        self.left = updates

    def start(self, label, total):
        pass

    def update(self, done, note):
        self.left -= 1
        if self.left <= 0:
            raise KeyboardInterrupt

    def close(self):
        pass


@settings(max_examples=8, deadline=None)
@given(
    steps=st.sampled_from([0, 7, 60]),
    cadences=st.sampled_from([(1, 1), (2, 3), (6, 4), (5, 9)]),
    chunk_bytes=st.sampled_from([1, 100, 10_000]),
)
def test_every_record_equals_the_plain_loop_at_its_own_cadence(steps, cadences, chunk_bytes):
    fast, slow = cadences
    with pytest.MonkeyPatch.context() as patch, jax.enable_x64(True):
        patch.setattr(runner_module, "CHUNK_BYTES", chunk_bytes)
        probes = {"a": Probe(identity, every=fast), "b": Probe(double, every=slow)}
        run = simulate(logistic, 0.3, steps, probes=probes)
        expected = plain_loop(one_step, np.float64(0.3), steps)
    np.testing.assert_array_equal(run["a"].values, expected[::fast])
    np.testing.assert_array_equal(run["b"].values, 2 * expected[::slow])
    np.testing.assert_array_equal(run["a"][run["a"].dims[0]], np.arange(0, steps + 1, fast))
    np.testing.assert_array_equal(run.state, expected[-1])


def _logistic(r):
    return Map(init=identity, step=lambda x: logistic_step(x, r))


@functools.cache
def _looked_at(fast, slow, every):
    """Probes and a rule that all examples of these cadences share, and with them what is compiled."""
    stop = Stop(
        converged=lambda x, limit: jnp.abs(x) < limit["near"],
        diverged=lambda x, limit: jnp.abs(x) > limit["far"],
        every=every,
    )
    return {"x": Probe(identity, every=fast), "looks": _counted(slow)}, stop


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.sampled_from([0, 1, 61, 300]),
    cadences=st.sampled_from([(1, 1, None), (2, 3, 1), (3, 7, 5), (4, 50, 2)]),
    near=st.sampled_from([0.0, 1e-9, 1e-3]),
    far=st.sampled_from([4.0, 1e6, np.inf]),
    clocks=st.lists(st.integers(0, 2**32), min_size=2, max_size=2),
)
def test_a_run_is_the_same_to_the_bit_whatever_the_clock(random_clock, steps, cadences, near, far, clocks):
    """Rates below 1 come to rest, those above 3 roam, and those above 4 escape; where all have, the run ends."""
    fast, slow, _ = cadences
    probes, stop = _looked_at(*cadences)
    over = {"r": np.array([0.4, 0.9, 4.2]), "limit": {"near": np.array([near]), "far": np.array([far])}}

    def go(clock=None, chunk_bytes=runner_module.CHUNK_BYTES):
        with pytest.MonkeyPatch.context() as patch, jax.enable_x64(True):
            patch.setattr(runner_module, "CHUNK_BYTES", chunk_bytes)
            if clock is not None:
                random_clock(clock)
            return simulate(_logistic, 0.3, steps, probes=probes, over=over, stop=stop)

    plain = go()
    for clock in clocks:
        for size in (1, 10_000):
            other = go(clock, size)
            xr.testing.assert_identical(plain.dataset, other.dataset)
            np.testing.assert_array_equal(plain.state, other.state)
    ended = int(plain.dataset.stopped_at.max())
    for name, cadence in (("x", fast), ("looks", slow)):
        last = int(plain[name][plain[name].dims[-1]][-1])
        assert ended - cadence < last <= min(steps, ended + cadence - 1)
        if last >= ended and name == "x":
            np.testing.assert_array_equal(plain[name].values[..., -1], plain.state)


def _counted(every):
    """A probe that remembers how often it has looked."""
    return Probe(lambda x, seen: (seen, seen + 1), every=every, memory=lambda x: jnp.zeros((), int))


def test_a_grid_of_axes_equals_its_trajectories_one_by_one():
    rates, starts = np.array([2.9, 3.3, 3.9]), np.array([0.1, 0.4])
    run = simulate(_logistic, identity, 50, probes={"x_t": Probe(identity, every=5)}, over={"r": rates, "x": starts})
    assert run["x_t"].dims == ("r", "x", "step")
    for r in rates:
        for x in starts:
            alone = plain_loop(any_step, x, 50, r)
            np.testing.assert_allclose(run["x_t"].sel(r=r, x=x), alone[::5], rtol=1e-11)


def test_axes_may_be_pytrees_and_probes_may_name_axes():
    starts = {"x": jnp.linspace(0.1, 0.5, 4), "y": jnp.arange(4.0)}
    run = simulate(
        Map(init=lambda s: s, step=lambda s: s),
        lambda start: start,
        2,
        probes={"sum": lambda s, lr: lr * (s["x"] + s["y"])},
        over={"start": starts, "lr": np.array([1.0, 10.0])},
    )
    expected = np.outer(np.linspace(0.1, 0.5, 4) + np.arange(4.0), [1.0, 10.0])
    np.testing.assert_allclose(run["sum"].isel(step=-1), expected)


def test_seeds_give_the_same_bits_again():
    def walk(key):
        key, sub = jax.random.split(key[0])
        return key, jax.random.normal(sub)

    def go():
        return simulate(
            Map(init=lambda key: (key, jnp.zeros(())), step=walk),
            lambda seed: jax.random.key(seed),
            20,
            probes={"x": lambda s: s[1]},
            over={"seed": np.arange(3)},
        )

    first, again = go()["x"], go()["x"]
    np.testing.assert_array_equal(first, again)
    assert len(np.unique(first.isel(step=-1))) == 3


@pytest.mark.parametrize("over", [None, {"rate": np.array([0.5, 0.9])}], ids=["one", "batch"])
def test_a_step_is_traced_once_whatever_is_asked_of_it(over):
    traced = []

    def step(x):
        traced.append(x.shape)
        return 0.5 * x

    simulate(Map(init=lambda x: x, step=step), 1.0, 10, probes={"x": Probe(identity, every=3)}, over=over)
    assert traced == [()]


def test_random_keys_of_a_state_have_one_dimension_an_axis():
    walk = Map(init=lambda s: s, step=lambda s: (jax.random.fold_in(s[0], 1), s[1] + 1))
    over = {"seed": np.arange(3), "x": np.array([0.5, 1.5])}
    key, x = simulate(walk, lambda seed, x: (jax.random.key(seed), x), 1, over=over).state
    assert key.shape == x.shape == (3, 2)
    np.testing.assert_array_equal(x, [[1.5, 2.5]] * 3)
    expected = jax.random.key_data(jax.random.fold_in(jax.random.key(2), 1))
    np.testing.assert_array_equal(jax.random.key_data(key[2, 0]), expected)


def test_arrays_keep_their_own_dimensions():
    run = simulate(
        Map(init=lambda x: x, step=lambda x: x + 1),
        lambda k: jnp.full((2, 3), k),
        4,
        probes={"m": Probe(identity, dims=("row", "column"), units="m", label="$M$")},
        over={"k": np.arange(5.0)},
    )
    assert dict(run["m"].sizes) == {"k": 5, "step": 5, "row": 2, "column": 3}
    assert run["m"].attrs == {"units": "m", "long_name": "$M$"}
    np.testing.assert_array_equal(run["m"].sel(k=2, step=3), np.full((2, 3), 5.0))


def test_stopped_trajectories_freeze_and_say_how_and_when_they_ended():
    run = simulate(
        lambda r: Map(init=lambda x: x, step=lambda x: r * x),
        1.0,
        400,
        probes={"x": identity},
        over={"r": np.array([0.5, 1.0, 2.0, 1e200])},
        stop=Stop(converged=lambda x: x < 0.1, diverged=lambda x: x > 100),
    )
    assert run["outcome"].values.tolist() == [
        Outcome.CONVERGED,
        Outcome.UNFINISHED,
        Outcome.DIVERGED,
        Outcome.DIVERGED,
    ]
    assert run["stopped_at"].values.tolist() == [4, 400, 7, 1]
    assert (run["x"].sel(r=0.5, step=slice(4, None)) == 0.5**4).all()
    assert (run["x"].sel(r=2.0, step=slice(7, None)) == 2.0**7).all()


def test_a_run_ends_when_every_trajectory_has():
    run = simulate(
        Map(init=lambda x: x, step=lambda x: x / 2),
        1.0,
        10**9,
        probes={"x": identity},
        stop=Stop(converged=lambda x: x < 1e-3),
    )
    assert run["stopped_at"] == 10
    assert run["x"].sizes["step"] == 11


def test_divergence_is_an_outcome():
    run = simulate(Map(init=lambda x: x, step=lambda x: x**3), 10.0, 50, probes={"x": identity})
    assert run["outcome"] == Outcome.DIVERGED
    assert run["stopped_at"] == 6


def test_the_loop_is_traced_once_and_an_equal_run_not_at_all():
    traces = []

    def step(x):
        traces.append(1)
        return 0.5 * x

    system, probe = Map(init=lambda x: x, step=step), Probe(identity)
    simulate(system, 1.0, 1000, probes={"x": probe})
    once = len(traces)
    assert once <= 4
    simulate(system, 2.0, 1000, probes={"x": probe})
    assert len(traces) == once


def test_gradient_descent_is_a_map():
    run = simulate(gradient_descent(lambda p: (p["a"] ** 2 + p["b"] ** 2) / 2, 0.5), {"a": 1.0, "b": 2.0}, 3)
    assert run.state == {"a": 0.125, "b": 0.25}


def test_integers_may_start_a_run_of_floats():
    assert simulate(Map(init=lambda x: x, step=lambda x: x / 2), 1, 2).state == 0.25


@pytest.mark.parametrize("updates", [1, 2, 4])
def test_an_interrupted_run_resumes_to_the_same_bits(tmp_path, monkeypatch, updates):
    monkeypatch.setattr(runner_module, "CHUNK_BYTES", 4000)
    monkeypatch.setattr(runner_module, "SAVE_SECONDS", 0.0)
    arguments = {
        "system": _logistic,
        "start": 0.2,
        "steps": 1003,
        "probes": {"x": Probe(identity, every=3), "y": Probe(identity, every=2)},
        "over": {"r": np.linspace(3.5, 4.0, 7)},
    }
    whole = simulate(**arguments)
    with pytest.raises(KeyboardInterrupt):
        simulate(**arguments, checkpoint=tmp_path, progress=InterruptAfter(updates))
    again = simulate(**arguments, checkpoint=tmp_path)
    read_back = simulate(**arguments, checkpoint=tmp_path)
    for run in (again, read_back):
        for name in ("x", "y", "outcome", "stopped_at"):
            np.testing.assert_array_equal(run[name], whole[name])
        np.testing.assert_array_equal(run.state, whole.state)


def test_random_keys_survive_a_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setattr(runner_module, "SAVE_SECONDS", 0.0)
    monkeypatch.setattr(runner_module, "CHUNK_BYTES", 80)

    def step(state):
        key, sub = jax.random.split(state[0])
        return key, jax.random.normal(sub)

    arguments = {
        "system": Map(init=lambda key: (key, jnp.zeros(())), step=step),
        "start": lambda: jax.random.key(3),
        "steps": 200,
        "probes": {"x": lambda s: s[1]},
    }
    whole = simulate(**arguments)
    with pytest.raises(KeyboardInterrupt):
        simulate(**arguments, checkpoint=tmp_path, progress=InterruptAfter(3))
    np.testing.assert_array_equal(simulate(**arguments, checkpoint=tmp_path)["x"], whole["x"])


def test_a_damaged_checkpoint_is_said_and_the_run_begins_again(tmp_path, monkeypatch):
    monkeypatch.setattr(runner_module, "SAVE_SECONDS", 0.0)
    whole = simulate(logistic, 0.3, 500, probes={"x": identity}, checkpoint=tmp_path)
    for path in tmp_path.glob("*.npz"):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        with pytest.warns(RuntimeWarning, match="damaged"):
            again = simulate(logistic, 0.3, 500, probes={"x": identity}, checkpoint=tmp_path)
        np.testing.assert_array_equal(again["x"], whole["x"])


def test_a_checkpoint_of_another_run_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(runner_module, "SAVE_SECONDS", 0.0)
    simulate(logistic, 0.3, 500, probes={"x": identity}, checkpoint=tmp_path)
    for start, system in ((0.31, logistic), (0.3, Map(init=lambda x: x, step=lambda x: 3.6 * x * (1 - x)))):
        with pytest.raises(CheckpointMismatchError, match="another run"):
            simulate(system, start, 500, probes={"x": identity}, checkpoint=tmp_path)


def test_a_checkpoint_that_cannot_be_written_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(runner_module, "SAVE_SECONDS", 0.0)
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(CheckpointWriteError, match=r"cannot save in .*file"):
        simulate(logistic, 0.3, 500, probes={"x": identity}, checkpoint=tmp_path / "file" / "below")


def test_runs_inside_a_resumable_block_are_read_back_in_order(tmp_path, monkeypatch):
    monkeypatch.setattr(runner_module, "SAVE_SECONDS", 0.0)

    def two():
        with resumable(tmp_path):
            return [simulate(logistic, x, 100, probes={"x": identity})["x"].values for x in (0.2, 0.3)]

    np.testing.assert_array_equal(two(), two())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["000", "001"]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_start_that_is_not_finite_is_refused_and_named(bad):
    with pytest.raises(ValueError, match=r"not finite at \['b'\] for 1 of 3 trajectories, the first at k\[1\]"):
        simulate(
            Map(init=lambda x: x, step=lambda x: x),
            lambda k: {"a": jnp.zeros(2), "b": k},
            5,
            over={"k": np.array([0.0, bad, 1.0])},
        )


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"steps": -1}, ValueError, "`steps` must be a whole number of at least 0, got -1"),
        ({"steps": 2.5}, ValueError, "got 2.5"),
        ({"over": {"k": np.array([])}}, ValueError, "axis 'k' is empty"),
        ({"over": {"k": 3.0}}, ValueError, "axis 'k' needs arrays of one common leading length"),
        ({"over": {"step": np.ones(2)}}, ValueError, "'step' cannot name an axis"),
        ({"over": {"x": np.ones(2)}, "probes": {"x": identity}}, ValueError, "'x' is already the name"),
        ({"probes": {"p": lambda s, lr: s}}, TypeError, "probe 'p' takes 'lr', which no axis provides"),
        ({"system": lambda k: 3, "over": {"k": np.ones(2)}}, TypeError, "the system must make a Map"),
        ({"system": Map(lambda x: x, lambda x: (x, x))}, TypeError, "same structure"),
        ({"system": Map(lambda x: x, lambda x: jnp.stack([x, x]))}, TypeError, "changes the shape"),
        ({"stop": Stop(converged=lambda x: jnp.array([True]))}, TypeError, "must return one truth value"),
    ],
)
def test_bad_input_is_refused_by_name(change, error, message):
    arguments = {"system": logistic, "start": 0.3, "steps": 5} | change
    with pytest.raises(error, match=message):
        simulate(**arguments)


@pytest.mark.parametrize("every", [0, -1, 1.5, True])
def test_a_cadence_is_a_whole_number(every):
    with pytest.raises(ValueError, match="`every` must be a whole number"):
        Probe(identity, every=every)
