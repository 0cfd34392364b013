"""Looks that would come too seldom, on a part of each batch: by an injected clock, and in loops of JAX and PyTorch."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree
from on_parts import assert_parts_are_told

import secant as sc
from secant.monitors import MonitorWarning, read
from secant.monitors.base import HopelessError, Monitor, PassedError
from secant.monitors.in_jax.compiled_looks import Call, Setting, Taker
from secant.monitors.plan import AIM, RARE, Look, part, parts
from secant.monitors.sampling import TIMED, refused

LOOKS = (
    Look("batch_sharpness", ("gradient_norm", "batch_sharpness"), 2.0, 4.0),
    Look("sharpness", ("sharpness", "sharpness_error"), 7.0, 4.0),
    Look("update_curvature", ("update_norm", "update_curvature"), 1.0, 1.0, after=True),
)
COSTS = {"batch_sharpness": 2.0, "sharpness": 7.0, "update_curvature": 1.0}


class Loop:
    """A loop of steps of a second, whose looks take what they are told in proportion to their samples, and a rest."""

    def __init__(self, costs=COSTS, size=64, fixed=0.0, fewer=True, looks=LOOKS, **options):
        self.now, self.number, self.costs, self.size, self.fixed = 0.0, 0, dict(costs), size, fixed
        self.taken: list[tuple[int, str, int]] = []
        self.asked = 0
        options = {"record": False, "budget": 0.05} | options
        self.monitor = Monitor(looks, clock=lambda: self.now, fewer=fewer, **options)

    def take(self, name):
        samples = self.monitor._sampling.wanted(name, self.size)
        self.now += self.costs[name] * (self.fixed + (1 - self.fixed) * samples / self.size)
        self.taken.append((self.number, name, samples))
        return {name: float(samples), "loss": -1.0}

    def samples(self):
        self.asked += 1
        self.now += 5.0
        return self.size

    def run(self, steps, take=None, size=None):
        for _ in range(steps):
            self.monitor.observe(
                self.number,
                {"loss": 1.0},
                take or self.take,
                shape=(self.size,),
                size=size or self.samples,
            )
            self.now += 1.0
            self.number += 1
        return self.monitor.watched

    def steps(self, name):
        return [step for step, one, _ in self.taken if one == name]


def every(cost, weight=4.0, total=9.0):
    """Every how many steps of a second a look comes, at five per cent."""
    return math.ceil(cost / (0.05 * AIM * weight / total / (1 - 0.05 * AIM)))


def test_how_often_a_batch_is_halved():
    assert [parts(RARE, 64), parts(RARE + 1, 64), parts(2 * RARE, 64), parts(2 * RARE + 1, 64)] == [1, 2, 2, 4]
    assert parts(1e9, 64) == 4  # never less than a quarter
    assert [parts(1e9, size) for size in (15, 16, 31, 32)] == [1, 2, 2, 4]  # nor than eight samples
    assert [part(64, 2), part(65, 2), part(67, 4), part(12, 4), part(5, 2)] == [32, 33, 17, 8, 5]


def test_a_look_that_would_come_too_seldom_is_taken_on_half_of_the_batch(tmp_path):
    loop = Loop(record=tmp_path / "run")
    with pytest.warns(MonitorWarning) as said:
        loop.run(4_000)
    first = next(step for step, name, samples in loop.taken if samples == 32)
    assert next(step for step in loop.steps("update_curvature") if step > 1) == first  # timed once more before
    text = f"from step {first} on looks at `sharpness` use 32 of 64 samples: "
    text += f"on all samples they would come every {every(7)} steps."
    assert [str(one.message) for one in said] == [f"monitor: {text}"]
    assert every(7) > RARE > every(2)
    assert TIMED < first < TIMED + 5
    # It comes twice as often; the others as before, on all samples.
    assert np.diff(loop.steps("sharpness"))[3:].mean() == pytest.approx(every(3.5), rel=0.05)
    assert {samples for _, name, samples in loop.taken if name != "sharpness"} == {64}
    assert "32 of 64" in str(loop.monitor.plan)
    loop.monitor.close()
    run = read(tmp_path / "run")
    assert run.notes == [(first, text)]
    looks = run.about["plan"]["looks"]
    assert (looks["sharpness"]["samples"], looks["sharpness"]["of"]) == (32, 64)
    assert looks["batch_sharpness"]["samples"] is None
    # A row on a part keeps the loss that the loop gave.
    rows = {row["step"]: row for row in run.rows if row.get("sharpness") == 32.0}
    assert rows[first]["loss"] == 1.0


@pytest.mark.parametrize("budget", [0.02, 0.05])
@pytest.mark.parametrize("fixed", [0.0, 0.3])
@pytest.mark.filterwarnings("ignore::secant.monitors.MonitorWarning")
def test_the_budget_is_kept_within_a_tenth_on_parts_too(budget, fixed):
    loop = Loop(budget=budget, fixed=fixed)
    run = loop.run(10_000)
    assert len({samples for *_, samples in loop.taken}) > 1
    assert 0.9 * budget < run.column("share")[1][-1] < budget
    # By the clock alone: setting up, and seeing whether parts are like the whole, are no part of it.
    looks = loop.now - 10_000 - loop.monitor.plan.setup_seconds
    assert 0.9 * budget < looks / (looks + 10_000) < budget


@pytest.mark.filterwarnings("ignore::secant.monitors.MonitorWarning")
def test_what_is_chosen_is_chosen_once():
    loop = Loop(costs=COSTS | {"sharpness": 40.0})
    loop.run(3_000)
    chosen = [samples for _, name, samples in loop.taken if name == "sharpness"]
    assert chosen == [64] * 3 + [16] * (len(chosen) - 3)  # set up, timed once more, and a quarter at once
    assert loop.asked == 1
    loop.costs["batch_sharpness"] = 50.0  # whatever comes after
    loop.run(5_000)
    assert {samples for _, name, samples in loop.taken if name == "batch_sharpness"} == {64}
    loop.size = 128  # a quarter of another batch
    with pytest.warns(MonitorWarning, match="another size"):
        loop.run(2_000)
    assert loop.taken[-1][2] in (32, 128)
    assert {samples for step, name, samples in loop.taken if name == "sharpness" and step > 8_002} == {32}


def test_a_look_that_was_cheap_while_it_was_set_up_is_timed_once_more():
    """A search that begins where it has just ended costs half of one in the run."""
    loop = Loop()

    def take(name):
        before = [step for step, one, _ in loop.taken if one == name]
        if name == "sharpness":
            loop.costs[name] = 3.5 if before[-1:] == [loop.number] else 7.0
        return loop.take(name)

    said = f"use 32 of 64 samples: on all samples they would come every {every(7)} steps"
    with pytest.warns(MonitorWarning, match=said):
        loop.run(4_000, take)
    assert every(3.5) < RARE
    whole, cut = ([step for step, name, n in loop.taken if name == "sharpness" and n == size] for size in (64, 32))
    assert whole[2] in range(TIMED, TIMED + 5)
    assert cut[0] - whole[2] in range(1, 5)
    assert np.diff(cut)[1:].mean() == pytest.approx(every(3.5), rel=0.05)  # from the first look on


def test_a_part_that_takes_as_long_as_the_whole_is_given_up():
    loop = Loop(fixed=0.9)
    run = loop.run(2_000)
    ((step, text),) = run.notes
    expected = f"a look at `sharpness` comes every {every(7)} steps and uses all samples: "
    assert text == expected + "32 of 64 samples take 0.95 times as long."
    assert {samples for when, _, samples in loop.taken if when > step} == {64}
    assert 32.0 not in run.column("sharpness")[1]
    assert np.diff(loop.steps("sharpness"))[-1] == pytest.approx(every(7), abs=2)
    assert loop.monitor.plan.entries[1].look.samples is None


@pytest.mark.parametrize("error", [ValueError("rows by sixteen only"), HopelessError("rows by sixteen only")])
def test_a_part_that_fails_leaves_the_look_as_it_was(error):
    loop = Loop()

    def take(name):
        if loop.monitor._sampling.wanted(name, 64) < 64:
            raise error
        return loop.take(name)

    run = loop.run(2_000, take)
    ((_, text),) = run.notes
    assert text == f"looks at `sharpness` go on with all samples: {type(error).__name__}: rows by sixteen only"
    assert len(loop.steps("sharpness")) > 4
    assert 0.85 * 0.05 < run.column("share")[1][-1] < 0.05


def test_a_batch_that_holds_as_a_whole_only_is_never_cut():
    loop = Loop()

    def size():
        raise ValueError("the loss mixes samples.")

    run = loop.run(1_000, size=size)
    ((_, text),) = run.notes
    assert text == f"a look at `sharpness` comes every {every(7)} steps and uses all samples: the loss mixes samples."
    assert {samples for *_, samples in loop.taken} == {64}


@pytest.mark.parametrize(
    "options",
    [{"fewer": False}, {"every": 100}, {"looks": tuple(look._replace(samples=24) for look in LOOKS)}],
)
def test_nothing_is_chosen_where_samples_or_cadences_were_given(options):
    loop = Loop(**options)
    run = loop.run(1_000)
    assert loop.asked == 0
    assert run.notes == []
    assert len({samples for *_, samples in loop.taken}) == 1


@pytest.mark.parametrize("size", [15, 16])
@pytest.mark.filterwarnings("ignore::secant.monitors.MonitorWarning")
def test_small_batches_stay_whole(size):
    loop = Loop(size=size)
    loop.run(1_000)
    assert {samples for _, name, samples in loop.taken if name == "sharpness"} == ({15} if size == 15 else {16, 8})


def test_which_losses_have_parts_like_the_whole():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 32))
    mask = rng.uniform(size=64) > 0.5

    def answers(loss):
        return refused(*(loss(np.concatenate(one)) for one in ((x, y), (y, x), (x, x), (y, y), (x,), (y,))))

    assert answers(lambda v: np.mean(v**2)) == ""
    assert answers(lambda v: np.mean(v**2) + 7.0) == ""  # weight decay
    assert answers(lambda v: 2 * np.sum(v**2 * mask[: len(v)]) / len(v)) == ""  # dropout, by place
    assert "not a mean" in answers(lambda v: np.sum(v**2))
    assert "not a mean" in answers(lambda v: np.sum(v**2 * mask[: len(v)]))
    assert "mixes samples" in answers(lambda v: np.mean(((v - v.mean()) / v.std()) ** 4))  # batch norm
    assert "mixes samples" in answers(lambda v: np.sum(v**3 * (v > 0)) / np.sum(v > 0))  # weights of samples
    assert "not finite" in answers(lambda v: math.nan)
    assert "alike" in refused(1.0, 1.0, 1.0, 1.0, 1.0, 1.0)


RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(200, 32, 3)), RNG.normal(size=(200, 32, 2))
PRICES = {"batch_sharpness": 1.0, "sharpness": 16.0, "update_curvature": 2.5, "noise_scale": 1.5}


def loss(params, batch):
    x, y = batch
    return jnp.mean((jnp.tanh(x @ params["w"] + params["b"]) @ params["v"] - y) ** 2) / 2


def mixing(params, batch):
    x, y = batch
    hidden = x @ params["w"] + params["b"]
    hidden = jnp.tanh((hidden - hidden.mean(0)) / hidden.std(0))
    return jnp.mean((hidden @ params["v"] - y) ** 2) / 2


def start():
    draw = np.random.default_rng(1)
    return {name: draw.normal(size=shape) for name, shape in {"b": (4,), "v": (4, 2), "w": (3, 4)}.items()}


RULE = optax.sgd(0.02)


@functools.cache
def mover(own):
    """`(params, state, batch)` after a step, compiled once for all loops of a loss."""

    @jax.jit
    def move(params, state, batch):
        updates, state = RULE.update(jax.grad(own)(params, batch), state)
        return optax.apply_updates(params, updates), state

    return move


class JaxLoop:
    """A loop of JAX, with a step of a second and looks that take in proportion to their samples."""

    def __init__(self, own=loss, **options):
        self.now, self.move = 0.0, mover(own)
        self.params = jax.device_put(start())
        self.state, self.points, self.taken = RULE.init(self.params), [], []
        self.watch = None
        if options.pop("watched", True):
            given = {"optimiser": {"name": "sgd", "lr": 0.02}, "record": False, "budget": 0.05}
            self.watch = sc.monitor(own, **(given | {"clock": lambda: self.now} | options))
            self.watch._take, self._plain = self.take, self.watch._take

    def take(self, name, call):
        assert self.watch is not None
        samples = self.watch._sampling.wanted(name, 32)
        self.taken.append((call.step, name, samples))
        self.now += PRICES[name] * samples / 32
        return self._plain(name, call)

    def run(self, steps):
        for step in range(steps):
            batch = X[step % 200], Y[step % 200]
            self.points.append((self.params, batch))
            if self.watch is not None:
                self.watch(step, self.params, self.state, batch)
            self.params, self.state = self.move(self.params, self.state, batch)
            self.now += 1.0
        return self


@pytest.fixture(scope="module")
def in_jax():
    with jax.enable_x64(True), pytest.warns(MonitorWarning, match="from step"):
        return JaxLoop().run(500)


@jax.jit
def derivatives(params, batch):
    flat, back = ravel_pytree(params)
    at = lambda v: loss(back(v), batch)  # noqa: E731
    return flat, jax.grad(at)(flat), jax.hessian(at)(flat)


def dense(loop, step, rows):
    """Parameters, gradient and Hessian of rows of a step's batch, written out."""
    params, batch = loop.points[step]
    return jax.tree.map(np.asarray, derivatives(params, tuple(one[rows] for one in batch)))


CHOSEN = {"batch_sharpness": None, "sharpness": 8, "update_curvature": 16, "noise_scale": 16}


def test_a_loop_in_jax_is_looked_at_on_parts(in_jax):
    watch = in_jax.watch
    assert {entry.look.name: entry.look.samples for entry in watch.plan.entries} == CHOSEN
    assert_parts_are_told(watch)
    assert all(step < 60 for step, _ in watch.watched.notes)


def test_numbers_on_parts_are_those_of_their_rows(in_jax):
    """Against dense derivatives of the first rows alone."""
    run = in_jax.watch.watched
    with jax.enable_x64(True):
        steps, values = run.column("update_curvature")
        flat, g, h = dense(in_jax, steps[-1], slice(16))
        u = np.asarray(ravel_pytree(in_jax.points[steps[-1] + 1][0])[0]) - flat
        assert values[-1] == pytest.approx(u @ h @ u / (u @ u), rel=1e-6)
        assert run.column("stable_multiple")[1][-1] == pytest.approx(-2 * g @ u / (u @ h @ u), rel=1e-6)

        steps, values = run.column("sharpness")
        assert steps[1] < 60 < steps[-1]
        for step, value, error in zip(steps[1:], values[1:], run.column("sharpness_error")[1][1:], strict=True):
            near = np.abs(np.linalg.eigvalsh(dense(in_jax, step, slice(8))[2]) - value).min()
            assert near <= error + 1e-10 * value

        # Of one sample, from halves of what was looked at: estimates on all rows and on half of them go into one mean.
        trace = square = unit = None
        looks = [(step, samples) for step, name, samples in in_jax.taken if name == "noise_scale"]
        assert {samples for _, samples in looks} == {32, 16}
        for step, samples in looks:
            one, two = (dense(in_jax, step, rows)[1] for rows in (slice(samples // 2), slice(samples // 2, samples)))
            apart, both = np.sum((one - two) ** 2) / 4, np.sum((one + two) ** 2) / 4
            first = trace is None
            unit = both + apart if first else 0.5 * unit + 0.5 * (both + apart)  # squared gradients of late
            trace = samples * apart / unit if first else 0.9 * trace + 0.1 * samples * apart / unit
            square = (both - apart) / unit if first else 0.9 * square + 0.1 * (both - apart) / unit
        assert run.column("noise_scale")[1][-1] == pytest.approx(trace / square if square > 0 else math.inf, rel=1e-8)


@pytest.mark.parametrize("samples", ["all", 24])
def test_samples_by_hand_in_jax(samples):
    loop = JaxLoop(samples=samples).run(120)
    assert loop.watch.watched.notes == []
    assert {entry.look.samples for entry in loop.watch.plan.entries} == {None if samples == "all" else 24}


def test_the_run_is_the_same_to_the_bit_where_it_is_looked_at_on_parts(in_jax):
    with jax.enable_x64(True):
        plain = JaxLoop(watched=False).run(500)
    for one, other in zip(jax.tree.leaves(plain.params), jax.tree.leaves(in_jax.params), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_loss_that_mixes_samples_is_looked_at_whole_in_jax():
    run = JaxLoop(own=mixing).run(80).watch.watched
    ((_, text),) = run.notes
    assert text.endswith("uses all samples: the loss mixes samples, or weighs them differently.")


def dropping(params, batch, key):
    x, y = batch
    hidden = jnp.tanh(x @ params["w"] + params["b"])
    hidden = 2 * jnp.where(jax.random.bernoulli(key, 0.5, hidden.shape), hidden, 0)
    return jnp.mean((hidden @ params["v"] - y) ** 2) / 2


def summed(params, batch):
    return 32 * loss(params, batch) if len(batch[0]) == 32 else len(batch[0]) * loss(params, batch)


@pytest.mark.parametrize(
    ("own", "others", "why"),
    [
        (loss, (), ""),
        (dropping, (jax.random.key(3),), ""),
        (mixing, (), "mixes samples"),
        (summed, (), "not a mean"),
        (lambda params, batch, weight: jnp.mean(weight) * loss(params, batch), (np.ones(32),), ""),
        (
            lambda params, batch, weight: jnp.mean(weight * batch[0].sum(1)) + params["b"].sum(),
            (np.ones(32),),
            "has no loss",
        ),
    ],
)
def test_what_is_cut_in_jax(own, others, why):
    taker = Taker(Setting(own), call := Call(0, start(), None, (X[0], Y[0]), others), print)
    if not why:
        assert taker.cuttable(call) == 32
    else:
        with pytest.raises(PassedError, match=why):
            taker.cuttable(call)


def test_stacked_batches_are_looked_at_whole():
    stacked = jax.tree.map(lambda leaf: np.stack([leaf, leaf]), start())
    taker = Taker(Setting(loss, stacked=True), call := Call(0, stacked, None, (X[:2], Y[:2]), ()), print)
    with pytest.raises(PassedError, match="stacked by devices"):
        taker.cuttable(call)


def test_a_batch_without_samples_is_looked_at_whole():
    own = lambda params, batch: jnp.sum(params["b"]) * batch  # noqa: E731
    taker = Taker(Setting(own), call := Call(0, start(), None, np.float32(2), ()), print)
    with pytest.raises(PassedError, match="no axis of samples"):
        taker.cuttable(call)
