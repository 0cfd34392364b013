"""What every monitor does: the budget by an injected clock, rows that do not wait, and no error in the loop."""

import json
import math
import os
import subprocess
import sys
import warnings

import numpy as np
import pytest

from secant.monitors import Writer, read
from secant.monitors.base import TIMED, Monitor, PassedError
from secant.monitors.plan import AIM, Look, cadences
from secant.monitors.records.keeper import Keeper, Later, MonitorWarning

LOOKS = (
    Look("batch_sharpness", ("gradient_norm", "batch_sharpness"), 2.0, 4.0),
    Look("sharpness", ("sharpness", "sharpness_error"), 7.0, 4.0),
    Look("update_curvature", ("update_norm", "update_curvature"), 1.0, 1.0, after=True),
)


class Loop:
    """A loop whose steps and looks take what they are told, by a clock of its own."""

    def __init__(self, monitor=None, step=1.0, costs=None, noise=0.0, **options):
        self.now, self.rng = 0.0, np.random.default_rng(0)
        self.costs = costs or {"batch_sharpness": 2.0, "sharpness": 7.0, "update_curvature": 1.0}
        self.step, self.noise, self.number, self.taken, self.held = step, noise, 0, [], []
        options = {"record": False} | options
        self.monitor = Monitor(LOOKS, clock=lambda: self.now, **options)

    def spend(self, seconds):
        self.now += seconds * (1 + self.noise * self.rng.standard_exponential())

    def take(self, name):
        self.spend(self.costs[name])
        self.taken.append((self.number, name))
        return {name: float(self.number)}

    def run(self, steps, shape=(64,), loss=1.0, take=None):
        for _ in range(steps):
            told = {"loss": loss}
            self.monitor.observe(
                self.number, told, take or self.take, hold=lambda: self.held.append(self.number), shape=shape
            )
            self.spend(self.step)
            self.number += 1
        return self.monitor.watched


@pytest.mark.parametrize("budget", [0.02, 0.05, 0.3])
@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_the_budget_is_kept_within_a_tenth(budget, noise):
    loop = Loop(budget=budget, noise=noise)
    run = loop.run(6_000)
    share = run.column("share")[1][-1]
    assert 0.9 * budget < share < budget
    if not noise:  # the clock agrees, which knows nothing of accounts; setting up is no part of the budget
        looks = loop.now - 6_000 - loop.monitor.plan.setup_seconds
        assert 0.9 * budget < looks / (looks + 6_000) < budget


def test_the_budget_is_kept_where_steps_get_faster_and_looks_slower():
    loop = Loop(budget=0.05)
    loop.run(5_000)
    before = loop.monitor._account.spent, loop.monitor._account.elapsed
    loop.step, loop.costs = 0.3, {name: 3 * cost for name, cost in loop.costs.items()}
    loop.run(6_000)
    spent, elapsed = loop.monitor._account.spent - before[0], loop.monitor._account.elapsed - before[1]
    assert 0.9 * 0.05 < spent / elapsed < 1.1 * 0.05


def test_what_the_plan_says_is_what_happens():
    loop = Loop(budget=0.05)
    loop.run(10_000)
    plan = loop.monitor.plan
    for entry in plan.entries:
        steps = np.array([step for step, name in loop.taken if name == entry.look.name])
        assert np.diff(steps)[2:].mean() == pytest.approx(entry.every, rel=0.05)
    assert plan.step_seconds == pytest.approx(1.0)
    assert plan.setup_seconds == pytest.approx(20.0)  # each look twice: compiled, and timed
    text = str(plan)
    assert "looks take 5.0% of the time; a step takes 1 s; setting up took 20 s" in text
    assert [line.split()[0] for line in text.splitlines()[1:]] == ["look", *loop.costs]


def test_a_look_that_is_cheap_comes_at_every_step_and_leaves_the_rest_to_others():
    costs = {"a": 0.001, "b": 1.0}
    assert cadences(costs, {"a": 1, "b": 1}, 1.0, 0.1) == {"a": 1.0, "b": math.ceil(1 / (0.1 / 0.9 - 0.001))}
    assert cadences({"a": 1e-6, "b": 1e-6}, {"a": 1, "b": 3}, 1.0, 0.1) == {"a": 1.0, "b": 1.0}
    loop = Loop(budget=0.05, costs={"batch_sharpness": 1e-4, "sharpness": 7.0, "update_curvature": 1e-4})
    run = loop.run(10_000)
    assert 0.9 * 0.05 < run.column("share")[1][-1] < 0.05
    assert len([1 for _, name in loop.taken if name == "batch_sharpness"]) > 9_000


def test_a_long_pause_is_followed_by_no_burst():
    loop = Loop(budget=0.05)
    loop.run(100)
    loop.now += 1e5
    before = len(loop.taken)
    loop.run(20)
    assert len(loop.taken) - before <= 4 * 3


def test_cadences_by_hand_do_not_ask_the_clock():
    loop = Loop(every={"gradient_norm": 20, "sharpness": 0, "update_curvature": 50}, noise=1.0)
    loop.run(101)
    assert [step for step, name in loop.taken if name == "batch_sharpness"] == [0, 20, 40, 60, 80, 100]
    # Finished a call later, recorded where it began.
    assert loop.monitor.watched.column("update_curvature")[0].tolist() == [0, 50]
    assert loop.held == [0, 50, 100]
    assert not [name for _, name in loop.taken if name == "sharpness"]
    assert "cadences given by hand" in str(loop.monitor.plan)
    assert [entry.every for entry in loop.monitor.plan.entries] == [20, math.inf, 50]
    assert Loop(every=7).monitor.plan.entries[1].every == 7


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"budget": 0}, "`budget`"),
        ({"budget": 1.5}, "`budget`"),
        ({"every": 0}, "`every`"),
        ({"every": {"warp": 3}}, "no look measures it"),
        ({"every": {"kernel_drift": 3}}, "not given"),
        ({"every": {"sharpness": 2.5}}, "sharpness"),
    ],
)
def test_arguments_that_cannot_be(options, words):
    with pytest.raises(ValueError, match=words):
        Loop(**options)


def test_sinks_must_be_sinks():
    with pytest.raises(TypeError, match="sinks"):
        Loop(sinks=[print])


def test_errors_do_not_reach_the_loop_and_are_said_once():
    loop = Loop(budget=0.05)

    def take(name):
        if name == "sharpness":
            raise RuntimeError("no derivative\nand much more")
        return loop.take(name)

    with pytest.warns(MonitorWarning, match="no more looks at `sharpness`: RuntimeError: no derivative") as said:
        run = loop.run(3_000, take=take)
    assert len(said) == 1
    assert run.notes == [(0, "no more looks at `sharpness`: RuntimeError: no derivative")]
    assert 0.9 * 0.05 < run.column("share")[1][-1] < 0.05  # the others have its part


def test_warnings_that_are_errors_do_not_reach_the_loop():
    loop = Loop(budget=0.05)

    def take(name):
        raise PassedError("the batch is elsewhere")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(loop.run(5, take=take).notes) == 1


def test_a_look_that_worked_is_given_up_after_three_failures():
    loop = Loop(every={"batch_sharpness": 1})
    loop.run(2)
    tried = []

    def take(name):
        tried.append(name)
        raise MemoryError

    with pytest.warns(MonitorWarning):
        loop.run(9, take=take)
    assert len(tried) == 3


def test_a_last_batch_of_another_size_is_passed_by_and_a_lasting_one_is_looked_at():
    loop = Loop(every={"batch_sharpness": 1})
    loop.run(5)
    with pytest.warns(MonitorWarning, match="another size"):
        loop.run(1, shape=(10,))
    loop.run(2)
    assert [step for step, _ in loop.taken] == [0, 1, 2, 3, 4, 6, 7]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loop.run(5, shape=(32,))
    assert [step for step, _ in loop.taken][7:] == [10, 11, 12]


def test_a_loss_that_is_not_finite_is_recorded_and_said(tmp_path):
    loop = Loop(budget=0.05, record=tmp_path / "run")
    loop.run(3)
    with pytest.warns(MonitorWarning, match="the loss is nan at step 3"):
        loop.run(2, loss=math.nan)
    loop.monitor.close()
    run = read(tmp_path / "run")
    np.testing.assert_array_equal(run.column("loss")[1], [1, 1, 1, math.nan, math.nan])
    assert run.notes == [(3, "the loss is nan at step 3.")]


class Number:
    """One that is under way on a device."""

    come = False

    def __float__(self):
        self.come = True
        return 2.0


def test_rows_wait_for_nobody_and_come_in_order():
    keeper = Keeper(False, {}, ready=lambda value: isinstance(value, float) or value.come)
    under_way = Number()
    keeper.add(0, {"loss": 1.0})
    keeper.add(1, {"loss": under_way})
    keeper.add(2, {"loss": 3.0})
    keeper.flush()
    assert (len(keeper.rows), keeper.waiting, under_way.come) == (1, 2, False)
    under_way.come = True
    keeper.flush()
    assert [row["loss"] for row in keeper.rows] == [1, 2, 3]


class Device:
    """Works through what it is given while the loop goes on: its clock is ahead of the loop's."""

    def __init__(self, costs):
        self.loop, self.busy, self.costs, self.waits = 0.0, 0.0, costs, 0
        self.monitor = Monitor(LOOKS, clock=lambda: self.loop, record=False, ready=lambda value: self.busy <= self.loop)

    def wait(self):
        self.waits += 1
        self.loop = max(self.loop, self.busy)

    def work(self, seconds):
        self.busy = max(self.busy, self.loop) + seconds

    def run(self, steps, step=1.0, dispatch=0.2):
        for number in range(steps):

            def begin(name, number=number):
                self.loop += 0.01
                self.work(self.costs[name])
                return Later({"found": 2.0 * number}, lambda numbers: {name: numbers["found"] / 2})

            def take(name):
                found = begin(name)
                self.wait()
                return found.finish(found.arrays)

            self.monitor.observe(number, {"loss": 1.0}, take, shape=1, wait=self.wait, begin=begin)
            self.work(step)
            self.loop += dispatch
            if number % 50 == 49:  # the loop prints a loss
                self.wait()


def test_where_a_device_works_on_its_own_looks_are_begun_and_left_alone():
    device = Device({"batch_sharpness": 2.0, "sharpness": 7.0, "update_curvature": 1.0})
    device.run(20_000)
    run = device.monitor.watched
    looks = {name: len(run.column(name)[0]) for name in device.costs}
    assert device.waits - 20_000 // 50 < 2 * sum(looks.values()) / TIMED + 30
    for name in device.costs:
        steps, values = run.column(name)
        late = 1 if name == "update_curvature" else 0  # which is finished at the next call
        assert (values == steps + late).all()
    assert 0.9 * 0.05 < run.column("share")[1][-1] < 0.05
    spent = sum(device.costs[name] * count for name, count in looks.items())
    assert 0.04 < spent / device.busy < 0.055
    assert device.monitor.last["sharpness"] == run.column("sharpness")[1][-1]


def test_a_look_that_is_lost_on_its_way_is_said_and_the_rest_is_kept():
    keeper = Keeper(False, {})

    def broken(numbers):
        raise ValueError("it broke")

    keeper.add(0, {"loss": 1.0, "look sharpness": Later({"found": 1.0}, broken)})
    with pytest.warns(MonitorWarning, match="numbers of `look sharpness` did not come"):
        keeper.flush(wait=True)
    assert keeper.rows == [{"step": 0, "loss": 1.0}]


def test_what_is_no_number_is_said_and_the_rest_is_kept():
    keeper = Keeper(False, {})
    keeper.add(0, {"loss": "many", "lr": 0.1})
    with pytest.warns(MonitorWarning, match="`loss` could not be read as a number"):
        keeper.flush()
    assert keeper.rows[0]["lr"] == 0.1
    assert math.isnan(keeper.rows[0]["loss"])


class Sink:
    def __init__(self, fails=10**9):
        self.rows, self.fails, self.closed = [], fails, False

    def write(self, step, row):
        if len(self.rows) >= self.fails:
            raise ConnectionError("gone")
        self.rows.append((step, row))

    def close(self):
        self.closed = True


def test_sinks_get_every_row_and_one_that_fails_is_left():
    good, bad = Sink(), Sink(fails=1)
    loop = Loop(every={"batch_sharpness": 2}, sinks=[bad, good])
    with pytest.warns(MonitorWarning, match="the sink Sink failed and gets no more rows: gone"):
        loop.run(4)
    loop.monitor.close()
    loop.monitor.close()
    assert [step for step, _ in good.rows] == [0, 1, 2, 3]
    assert good.rows[0][1]["batch_sharpness"] == 0.0
    assert good.closed
    assert not bad.closed
    loop.run(2)  # after `close` nothing happens
    assert len(good.rows) == 4


def test_the_second_writer_goes_on_in_memory(tmp_path):
    with Writer(tmp_path / "run", {}) as first:
        first.append({"step": 0, "loss": 5.0})
        with pytest.warns(MonitorWarning, match=r"another process writes.*in memory only"):
            second = Loop(record=tmp_path / "run", every={"batch_sharpness": 1})
        assert len(second.run(5).rows) == 5
    assert len(read(tmp_path / "run").rows) == 1


def test_a_newer_record_is_left_as_it_is(tmp_path):
    newer = tmp_path / "run" / "about.json"
    newer.parent.mkdir()
    newer.write_text(json.dumps({"format": 99, "secant": "9.0"}))
    with pytest.warns(MonitorWarning, match=r"format 99.*in memory only"):
        loop = Loop(record=tmp_path / "run", every={"batch_sharpness": 1})
    assert len(loop.run(3).rows) == 3
    assert json.loads(newer.read_text()) == {"format": 99, "secant": "9.0"}


def test_a_full_disk_loses_nothing_that_was_written(tmp_path, monkeypatch):
    loop = Loop(record=tmp_path / "run", every={"batch_sharpness": 1})
    loop.run(3)

    def full(self, *rows):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Writer, "append", full)
    with pytest.warns(MonitorWarning, match="No space left") as said:
        loop.run(3)
    assert len(said) == 1
    assert len(loop.monitor.watched.rows) == 6
    assert len(read(tmp_path / "run").rows) == 3


def test_a_run_that_ends_without_closing_loses_nothing(tmp_path):
    code = (
        "from secant.monitors.base import Monitor\n"
        f"watch = Monitor((), record={str(tmp_path / 'run')!r})\n"
        "for step in range(5): watch.observe(step, {'loss': 1.0}, None)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=dict(os.environ))
    assert len(read(tmp_path / "run").rows) == 5


def test_a_record_of_its_own_is_made_in_the_home(tmp_path, monkeypatch):
    monkeypatch.setenv("SECANT_HOME", str(tmp_path))
    for number in (1, 2):
        with Monitor((), about={"framework": "none"}) as watch:
            watch.observe(0, {"loss": 1.0}, None)
        assert watch.path == tmp_path / "watched" / f"run-{number}"
    assert read("run-2").about["framework"] == "none"


def test_memory_is_bounded_and_looks_are_kept_longest(monkeypatch):
    monkeypatch.setattr("secant.monitors.records.keeper.ROWS", 100)
    keeper = Keeper(False, {})

    def add(steps):
        for step in steps:
            keeper.add(step, {"loss": 1.0} | ({"sharpness": 2.0} if step % 40 == 0 else {}))
            keeper.flush()

    add(range(100))
    with pytest.warns(MonitorWarning, match="every second older row is dropped"):
        add(range(100, 1_000))
    assert len(keeper.rows) <= 100
    assert [row["step"] for row in keeper.rows if "sharpness" in row] == list(range(0, 1_000, 40))
    assert keeper.rows == sorted(keeper.rows, key=lambda row: row["step"])


def test_the_plan_is_in_the_record(tmp_path):
    loop = Loop(budget=0.05, record=tmp_path / "run")
    loop.run(500)
    loop.monitor.close()
    facts = read(tmp_path / "run").about["plan"]
    assert facts["budget"] == 0.05
    assert facts["looks"]["sharpness"]["every"] == math.ceil(7 / (0.05 * AIM * 4 / 9 / (1 - 0.05 * AIM)))
