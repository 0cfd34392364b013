"""The monitor of a loop in JAX: every number against dense derivatives, and a run that it does not change."""

import functools
import math
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree

import secant as sc
from secant.monitors import MonitorWarning, diagnose, read
from secant.monitors.in_jax import looks as jax_looks

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(24, 3)), RNG.normal(size=(24, 2))
BATCH = jax.device_put((X.astype(np.float32), Y.astype(np.float32)))


def f(params, x):
    hidden = jnp.tanh(x @ params["w"] + params["b"])
    return hidden @ params["v"]


def loss(params, batch):
    x, y = batch
    return jnp.mean((f(params, x) - y) ** 2) / 2


def start(dtype=jnp.float64):
    draw = np.random.default_rng(1)
    shapes = {"b": (4,), "v": (4, 2), "w": (3, 4)}
    return {name: jax.device_put(draw.normal(size=shape).astype(dtype)) for name, shape in shapes.items()}


def flattened(params):
    """Parameters in the order of their names, one after the other."""
    return np.concatenate([np.ravel(params[name]) for name in sorted(params)])


SLOPE = jax.jit(jax.grad(loss))
SGD = {"name": "sgd", "lr": 0.1}


@functools.cache
def slope_and_hessian(own):
    """`(params, *others)` -> gradient and Hessian of a loss, in one compiled function."""

    def both(params, *others):
        flat, back = ravel_pytree(params)
        at = lambda v: own(back(v), *others)  # noqa: E731
        return jax.grad(at)(flat), jax.hessian(at)(flat)

    compiled = jax.jit(both)
    return lambda *arguments: tuple(np.asarray(one, float) for one in compiled(*arguments))


@functools.cache
def dense():
    """Gradient and Hessian of the batch, written out."""
    with jax.enable_x64(True):
        return flattened(start()), *slope_and_hessian(loss)(start(), BATCH)


def watched(optimiser=None, steps=2, own=loss, params=None, rule=None, **options):
    """A few steps of a run, watched at every step."""
    rule = rule or optax.sgd(0.1)
    params = start() if params is None else params
    state = rule.init(params)
    watch = sc.monitor(own, optimiser=optimiser, **({"record": False, "every": 1} | options))
    for step in range(steps):
        watch(step, params, state, BATCH)
        if step < steps - 1:
            params, state = mover(rule)(params, state)
    return watch


@functools.cache
def mover(rule):
    """`(params, state)` after a step."""

    @jax.jit
    def move(params, state):
        updates, state = rule.update(jax.grad(loss)(params, BATCH), state, params)
        return optax.apply_updates(params, updates), state

    return move


@pytest.fixture(scope="module")
def first():
    """The first row of looks at a run of SGD, and the row along its first update."""
    with jax.enable_x64(True):
        watch = watched(optax.sgd(0.1), f=f)
        rows = [row for row in watch.watched.rows if row["step"] == 0]
    return rows[0], rows[1]


@pytest.mark.parametrize("scheduled", [False, True])
def test_looks_that_are_not_waited_for_find_the_same(monkeypatch, scheduled):
    rule = optax.sgd(optax.linear_schedule(0.1, 0.05, 10) if scheduled else 0.1)
    # A step size that comes from the device is of use where a curvature is held against it: in two of the looks.
    options = {"every": {"batch_sharpness": 1, "sharpness": 1}} if scheduled else {"f": f}
    waited = watched(rule, rule=rule, steps=8, **options).watched
    monkeypatch.setattr(jax, "default_backend", lambda: "far")
    begun = watched(rule, rule=rule, steps=8, **options).watched
    assert [row.keys() for row in begun.rows] == [row.keys() for row in waited.rows]
    for one, other in zip(begun.rows, waited.rows, strict=True):
        for name in one.keys() - {"look_seconds", "share", "sharpness_error"}:
            assert one[name] == pytest.approx(other[name], rel=1e-3), name


def test_losses_of_a_far_device_come_in_bundles(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "far")
    watch = sc.monitor(lambda p, b: jnp.sum(p * b), record=False, every=10**6)
    kinds = [np.float32 if step < 100 else np.float16 for step in range(200)]
    given = [float(step) if step % 50 == 49 else jax.device_put(kind(step)) for step, kind in enumerate(kinds)]
    params = jax.device_put(np.ones(2))
    for step, loss in enumerate(given):
        watch(step, params, None, params, loss=loss)
        if step == 97:
            assert len(watch.watched.column("loss")[0]) == 98  # asked for in the middle of a bundle
    steps, losses = watch.watched.column("loss")
    assert steps.tolist() == list(range(200))
    assert losses[1:].tolist() == steps[1:].tolist()


def test_looks_agree_with_dense_derivatives(first):
    flat, g, h = dense()
    row, along = first
    assert row["loss"] == pytest.approx(float(jax.jit(loss)(start(), BATCH)), rel=1e-12)
    assert row["gradient_norm"] == pytest.approx(np.linalg.norm(g), rel=1e-12)
    assert row["parameter_norm"] == pytest.approx(np.linalg.norm(flat), rel=1e-12)
    assert row["batch_sharpness"] == pytest.approx(g @ h @ g / (g @ g), rel=1e-10)
    assert row["batch"] == 24
    u = -0.1 * g  # the step of SGD
    assert along["update_norm"] == pytest.approx(np.linalg.norm(u), rel=1e-6)
    assert along["update_curvature"] == pytest.approx(u @ h @ u / (u @ u), rel=1e-6)
    assert along["stable_multiple"] == pytest.approx(-2 * g @ u / (u @ h @ u), rel=1e-6)


def test_the_sharpness_has_an_eigenvalue_within_its_error(first):
    row, _ = first
    _, g, h = dense()
    values, vectors = np.linalg.eigh(h)
    top, angle = values[-1], row["sharpness_error"] / (values[-1] - values[-2])
    share = (g @ vectors[:, -1]) ** 2 / (g @ g)
    assert row["sharpest_share"] == pytest.approx(share, abs=2 * angle + angle**2)
    assert abs(row["sharpness"] - top) <= row["sharpness_error"] + 1e-10
    assert row["sharpness_error"] <= jax_looks.NEAR * top
    assert row["threshold"] == pytest.approx(20.0, rel=1e-6)
    assert row["critical_lr"] == pytest.approx(2 / row["sharpness"], rel=1e-6)


@pytest.mark.parametrize(
    "rule", [optax.adam(1e-2, 0.8, 0.95, 1e-4), sc.optimisers.rmsprop(1e-2), sc.optimisers.adagrad(0.1)]
)
def test_the_sharpness_in_the_measure_of_the_optimiser(rule):
    own = rule if isinstance(rule, optax.GradientTransformation) else rule.transformation
    watch = watched(rule, steps=3, rule=own, every={"sharpness": 2})
    # The same two steps again, and the dense matrix there.
    params, state = start(), own.init(start())
    for _ in range(2):
        params, state = mover(own)(params, state)
    _, h = slope_and_hessian(loss)(params, BATCH)
    ours = rule if own is not rule else sc.optimisers.adam(1e-2, 0.8, 0.95, 1e-4)

    @jax.jit
    def divisor(params, state):
        memory = ours.transformation.update(jax.grad(loss)(params, BATCH), state, params)[1]
        return ours.preconditioner(sc.optimisers.OptimiserState(params, memory))

    p = flattened(divisor(params, state if own is not rule else _as_ours(state)))
    top = np.linalg.eigvalsh(h / np.sqrt(np.outer(p, p)))[-1]
    steps, values = watch.watched.column("sharpness")
    assert steps.tolist() == [0, 2]
    error = watch.watched.column("sharpness_error")[1][-1]
    assert abs(values[-1] - top) <= error + 1e-4 * top
    assert watch.watched.column("threshold")[1][-1] == pytest.approx(ours.threshold, rel=1e-4)


def _as_ours(state):
    return state  # a chain of the same two transformations


@pytest.mark.parametrize("rung", jax_looks.RUNGS)
def test_every_rung_of_the_ladder_gives_the_same(rung):
    params, structure = jax.tree.flatten(start())
    at = lambda theta: loss(jax.tree.unflatten(structure, theta), BATCH)  # noqa: E731
    _, g, h = dense()
    accurate = 1e-10 if rung != "difference" else 1e-5
    found = jax.jit(lambda params: jax_looks.batch_look(at, params, None, rung))(params)
    assert float(found["batch_sharpness"]) == pytest.approx(g @ h @ g / (g @ g), rel=accurate)
    times = jax.jit(lambda tree: jax_looks.product(at, params, rung)[1](tree))
    v = RNG.normal(size=g.size)
    tree = [v[:4], v[4:12].reshape(4, 2), v[12:].reshape(3, 4)]  # as the parameters are
    found = np.concatenate([np.ravel(leaf) for leaf in times(tree)])
    np.testing.assert_allclose(found, h @ v, rtol=100 * accurate, atol=100 * accurate)


def test_a_function_without_a_forward_derivative_is_served():
    @jax.custom_vjp
    def tanh(z):
        return jnp.tanh(z)

    tanh.defvjp(lambda z: (jnp.tanh(z), z), lambda z, c: (c * (1 - jnp.tanh(z) ** 2),))

    def own(params, batch):
        return jnp.mean((tanh(batch[0] @ params["w"] + params["b"]) @ params["v"] - batch[1]) ** 2) / 2

    watch = watched(SGD, own=own, steps=1, every={"batch_sharpness": 1})
    _, g, h = dense()
    assert watch.last["batch_sharpness"] == pytest.approx(g @ h @ g / (g @ g), rel=1e-10)
    assert watch.watched.notes == []


def test_curvature_by_differences_is_said():
    @jax.custom_vjp
    def tanh(z):
        return jnp.tanh(z)

    def back(z, c):  # a backward pass that cannot be differentiated itself
        shape = jax.ShapeDtypeStruct(z.shape, z.dtype)
        return (c * jax.pure_callback(lambda a: 1 - np.tanh(np.asarray(a)) ** 2, shape, z, vmap_method="sequential"),)

    tanh.defvjp(lambda z: (jnp.tanh(z), z), back)

    def own(params, batch):
        return jnp.mean((tanh(batch[0] @ params["w"] + params["b"]) @ params["v"] - batch[1]) ** 2) / 2

    with pytest.warns(MonitorWarning, match="a difference of gradients"):
        watch = watched(SGD, own=own, steps=1, every={"batch_sharpness": 1})
    _, g, h = dense()
    assert watch.last["batch_sharpness"] == pytest.approx(g @ h @ g / (g @ g), rel=1e-5)


def test_noise_from_halves_is_unbiased():
    rng = np.random.default_rng(3)
    data = rng.normal(size=(4_000, 6, 3)) * [1.0, 2.0, 0.5] + [0.7, 0.2, 0.0]  # 4,000 batches of 6
    at = lambda theta, batch: jnp.mean(batch @ theta[0])  # noqa: E731  # gradient: the mean of the samples
    theta = [jnp.ones(3)]

    def one(batch):
        return jax_looks.noise_look(at, theta, batch.reshape(2, 3, 3), 6)

    found = jax.jit(jax.vmap(one))(data)
    for name, expected in (("trace", 1 + 4 + 0.25), ("square", 0.7**2 + 0.2**2)):
        values = np.asarray(found[name])
        assert abs(values.mean() - expected) < 5 * values.std() / math.sqrt(len(values))


def test_the_noise_scale_of_a_run(monkeypatch):
    """By hand, from the gradients of the samples: sums over looks that forget, and only then their quotient."""
    kept, late, rng = 0.95, 0.8, np.random.default_rng(5)
    monkeypatch.setattr("secant.monitors.critical_batch.KEPT", kept)
    monkeypatch.setattr("secant.monitors.critical_batch.LATE", late)
    watch, params = sc.monitor(loss, record=False, every={"noise_scale": 1}), start()
    slopes = jax.jit(jax.vmap(lambda x, y: ravel_pytree(jax.grad(loss)(params, (x[None], y[None])))[0]))
    each = np.asarray(slopes(*BATCH))
    trace = square = unit = None
    for step in range(60):
        rows = rng.integers(0, 24, size=8)
        watch(step, params, None, (X[rows], Y[rows]))
        one, two = each[rows[:4]].mean(0), each[rows[4:]].mean(0)
        apart = ((one - two) ** 2).sum() / 4
        size = ((one**2).sum() + (two**2).sum()) / 2  # of a half
        unit = size if unit is None else late * unit + (1 - late) * size
        now = 8 * apart / unit, ((((one + two) / 2) ** 2).sum() - apart) / unit
        old = now if trace is None else (trace, square)
        trace, square = (kept * a + (1 - kept) * b for a, b in zip(old, now, strict=True))
    assert watch.last["noise_scale"] == pytest.approx(trace / square if square > 0 else math.inf, rel=1e-6)


def test_a_gradient_that_the_loop_has_is_taken():
    calls = []

    def own(params, batch):
        calls.append(1)
        return loss(params, batch)

    watch = sc.monitor(own, record=False, every={"batch_sharpness": 1})
    watch(0, start(), None, BATCH, grads=jax.tree.map(lambda leaf: 2 * np.asarray(leaf), SLOPE(start(), BATCH)))
    _, g, h = dense()
    assert watch.last["gradient_norm"] == pytest.approx(2 * np.linalg.norm(g))  # it is believed
    assert watch.last["batch_sharpness"] == pytest.approx(g @ h @ g / (g @ g), rel=1e-10)


def test_the_kernel_and_the_inputs(first):
    row, _ = first
    kernel = np.asarray(sc.ntk(f, start(), BATCH[0][:16]).dense())
    assert row["kernel_critical_lr"] == pytest.approx(2 * 16 / np.linalg.eigvalsh(kernel)[-1], rel=1e-6)
    assert row["kernel_drift"] == 0
    assert row["agop_change"] == 0
    watch = watched(rule=optax.sgd(0.5), steps=4, f=f, own="mean_mse", every={"kernel_drift": 1, "agop_change": 1})
    last = next(row for row in watch.watched.rows if row["step"] == 3)
    before = start()
    for _ in range(3):
        before = jax.tree.map(lambda p, g: np.asarray(p) - 0.5 * np.asarray(g), before, SLOPE(before, BATCH))
    now = np.asarray(sc.ntk(f, before, BATCH[0][:16]).dense())
    drift = np.abs(np.linalg.eigvalsh(now - kernel)).max() / np.linalg.eigvalsh(kernel)[-1]
    assert last["kernel_drift"] == pytest.approx(drift, rel=1e-6)
    # With the loss by its name, its curvature is known.
    curvature = sc.losses.mean_mse.curvature(jnp.zeros((16, 2)))
    assert last["kernel_critical_lr"] == pytest.approx(2 / curvature / np.linalg.eigvalsh(now)[-1], rel=1e-6)
    g0, g1 = (np.asarray(sc.agop(f, p, BATCH[0][:16])) for p in (start(), before))
    assert last["agop_change"] == pytest.approx(np.linalg.norm(g1 - g0) / np.linalg.norm(g0), rel=1e-6)


def test_a_model_that_mixes_samples_has_no_kernel():
    def normed(params, x):
        z = f(params, x)
        return z - z.mean(0)

    with pytest.warns(MonitorWarning, match="mixes samples"):
        watch = watched(SGD, steps=1, f=normed, every={"kernel_drift": 1, "batch_sharpness": 1})
    assert "batch_sharpness" in watch.last


def dead_of(own, *several):
    """The share of dead units at several parameters, one after the other."""
    found = []
    with sc.monitor(own, record=False, every={"dead_units": 1}) as watch:
        for step, params in enumerate(several):
            watch(step, params, None, BATCH)
            found.append(watch.last.get("dead_units"))
    return found


def test_dead_units_are_those_over_all_units():
    """Hidden units with a bias far below what they are given; outputs are units as well."""

    def own(params, batch):
        hidden = jax.nn.relu(batch[0] @ params["hidden"]["kernel"] + params["hidden"]["bias"])
        return jnp.mean((hidden @ params["out"]["kernel"] + params["out"]["bias"] - batch[1]) ** 2)

    def params(dead):
        hidden = {"kernel": start()["w"], "bias": np.where(np.arange(4) < dead, -100.0, 100.0)}
        return {"hidden": hidden, "out": {"kernel": start()["v"], "bias": np.zeros(2)}}

    assert dead_of(own, *map(params, (0, 2, 3))) == pytest.approx([0, 2 / 6, 3 / 6])


def test_dead_units_of_a_norm_are_counted_once_and_layers_without_a_vector_not_at_all():
    def own(params, batch):
        z = batch[0] @ params["hidden"]["kernel"]
        hidden = jax.nn.relu(z * params["norm"]["scale"] + params["norm"]["bias"])
        return jnp.mean((hidden @ params["out"]["kernel"] - batch[1]) ** 2)

    norm = {"scale": np.ones(4), "bias": np.array([-100.0, 100.0, 100.0, 100.0])}
    params = {"hidden": {"kernel": start()["w"]}, "norm": norm, "out": {"kernel": start()["v"]}}
    assert dead_of(own, params) == [pytest.approx(1 / 4)]
    bare = lambda params, batch: jnp.mean((jax.nn.relu(batch[0] @ params["w"]) @ params["v"] - batch[1]) ** 2)  # noqa: E731
    assert dead_of(bare, {"w": -np.abs(start()["w"]), "v": start()["v"]}) == [None]


def test_biases_that_lie_side_by_side_are_of_different_layers():
    def own(params, batch):
        hidden = jax.nn.relu(batch[0] @ params["w"] + params["b1"])
        return jnp.mean((jax.nn.relu(hidden @ params["u"] + params["b2"]) @ params["v"] - batch[1]) ** 2)

    params = start() | {"u": np.eye(4), "b1": np.array([-100.0, 9, 9, 9]), "b2": np.array([9.0, -100.0, -100.0, 9])}
    del params["b"]
    # A unit without a way to the loss is off as well: two of the second layer take theirs from two of the first.
    assert dead_of(own, params) == [pytest.approx((3 + 2) / 8)]


@pytest.mark.parametrize(
    ("batches", "same"),
    [
        ([np.arange(8)] * 3, True),
        ([np.arange(8), np.arange(8)[::-1], np.roll(np.arange(8), 3)], True),
        ([np.arange(8), np.arange(8), np.arange(1, 9)], False),
        ([np.arange(8)], None),
    ],
)
def test_a_run_on_the_same_samples_is_known(batches, same):
    watch = sc.monitor(loss, record=False, every={"noise_scale": 1})
    params = start(jnp.float32)
    for step, rows in enumerate(batches):
        watch(step, params, None, (X[rows].astype(np.float32), Y[rows].astype(np.float32)))
    assert watch.watched.about.get("same_batch") is same


def test_a_look_that_is_timed_twice_is_no_second_batch():
    watch = sc.monitor(loss, record=False, budget=0.5)
    for step in range(4):
        watch(step, start(), None, (X[step : step + 8], Y[step : step + 8]))
    assert watch.watched.about.get("same_batch") is not True


def test_half_precision_that_overflows_is_told_from_a_run_that_diverges():
    """A loss scale that halves by hand, on activations that grow beyond what float16 holds."""
    x, y = jax.device_put((np.abs(X).astype(np.float16), np.full(24, 4.0)))

    def own(params, batch, scale=1.0):
        # The sum of the units outgrows float16 before it is made small again.
        out = (batch[0].astype(params.dtype) * 12_000) @ params
        return jnp.mean((out.astype(jnp.float32) / 12_000 - batch[1]) ** 2) / 2 * scale

    half = jax.jit(jax.value_and_grad(lambda p, s: own(p.astype(jnp.float16), (x, y), s)))
    watch = sc.monitor(own, optimiser={"name": "sgd", "lr": 0.1}, record=False, every=4)

    def train(params, scale):
        for step in range(60):
            value, slope = half(params, scale)
            watch(step, params, None, (x, y), loss=value / scale, scaler=scale)
            fine, slope = np.isfinite(slope).all(), np.asarray(slope)
            params, scale = (params - 0.1 * slope / scale, scale) if fine else (params, scale / 2)
        watch.close()

    with pytest.warns(MonitorWarning, match="the loss is"):
        train(np.zeros(3), 2.0**10)
    run = watch.watched
    looks = run.column("batch_sharpness")[1]
    assert np.isfinite(looks).all()  # taken in single precision
    assert len(run.column("scaler")[1]) == 60
    assert not np.isfinite(run.column("loss")[1][-20:]).any()  # of the loop, at looks too
    found = diagnose(run)
    assert found.verdict == "overflow"
    assert "not finite" in found.sentences[0].text


def test_keys_statistics_and_masks():
    def own(params, batch, key, statistics):
        keep = jax.random.bernoulli(key, 0.5, (len(batch["x"]), 4))
        hidden = jnp.tanh(batch["x"] @ params["w"] + params["b"] - statistics["mean"]) * keep
        errors = ((hidden @ params["v"] - batch["y"]) ** 2).mean(1) * batch["mask"]
        return errors.sum() / batch["mask"].sum(), {"mean": hidden.mean(0)}

    batch = {"x": BATCH[0], "y": BATCH[1], "mask": RNG.integers(0, 2, 24), "kind": "training"}
    others = jax.random.key(3), {"mean": np.ones(4)}
    watch = sc.monitor(own, record=False, every=1)
    watch(0, start(), None, batch, *others)
    g, h = slope_and_hessian(lambda params: own(params, batch, *others)[0])(start())
    assert watch.last["batch_sharpness"] == pytest.approx(g @ h @ g / (g @ g), rel=1e-10)
    assert watch.watched.notes == []
    assert "sharpness" in watch.last
    assert "threshold" not in watch.last


def test_half_precision_is_looked_at_in_single():
    with jax.enable_x64(False):
        with pytest.warns(MonitorWarning, match="single precision"):
            watch = watched(params=start(jnp.bfloat16), steps=1, every={"sharpness": 1, "batch_sharpness": 1})
        last = watch.last
        single = jax.tree.map(lambda leaf: np.asarray(leaf).astype(np.float32), start(jnp.bfloat16))
        g, h = slope_and_hessian(loss)(single, BATCH)
    assert last["batch_sharpness"] == pytest.approx(g @ h @ g / (g @ g), rel=1e-4)
    assert abs(last["sharpness"] - np.linalg.eigvalsh(h)[-1]) <= last["sharpness_error"] + 1e-4


def test_a_part_of_the_batch():
    watch = watched(steps=1, samples=8, every={"batch_sharpness": 1})
    g, h = slope_and_hessian(loss)(start(), tuple(np.asarray(part)[:8] for part in BATCH))
    assert watch.last["batch_sharpness"] == pytest.approx(g @ h @ g / (g @ g), rel=1e-10)
    assert watch.last["batch"] == 24  # the loop's
    assert watch.plan.entries[0].look.samples == 8


@pytest.mark.parametrize("donated", [False, True])
def test_the_run_is_the_same_to_the_bit(donated):
    rule = optax.adamw(1e-2)

    @functools.partial(jax.jit, donate_argnums=(0, 1) if donated else ())
    def move(params, state, batch, key):
        noisy = lambda p: loss(p, (batch[0] + 0.1 * jax.random.normal(key, batch[0].shape), batch[1]))  # noqa: E731
        value, gradient = jax.value_and_grad(noisy)(params)
        updates, state = rule.update(gradient, state, params)
        return optax.apply_updates(params, updates), state, value

    def run(watch):
        params, state, key = start(jnp.float32), rule.init(start(jnp.float32)), jax.random.key(0)
        for step in range(12):
            key, own = jax.random.split(key)
            if watch is not None:
                watch(step, params, state, BATCH)
            params, state, value = move(params, state, BATCH, own)
        return jax.tree.leaves((params, state, value))

    watch = sc.monitor(loss, optimiser=rule, f=f, record=False, every={"sharpness": 2, "update_curvature": 1})
    for one, other in zip(run(None), run(watch), strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
    assert watch.watched.notes == []
    # The first look finds out whether parameters are given away; of the others none is missing.
    assert len(watch.watched.column("update_curvature")[0]) >= 10


def test_parameters_of_another_tree_are_said_once_and_looked_at():
    watch = sc.monitor(loss, optimiser=SGD, record=False, every={"sharpness": 1, "batch_sharpness": 1})
    watch(0, start(), None, BATCH)
    wider = jax.device_put({"b": np.ones(5), "v": np.ones((5, 2)), "w": np.ones((3, 5))})
    with pytest.warns(MonitorWarning, match="have another tree or other shapes") as said:
        watch(1, wider, None, BATCH)
    assert len(said) == 1
    assert watch.last["parameter_norm"] == pytest.approx(math.sqrt(30))


def test_a_loss_that_is_no_number_is_said_once():
    with pytest.warns(MonitorWarning, match=r"`loss` must return a number, got shape \(24,\)") as said:
        watch = watched(own=lambda p, b: jnp.mean((f(p, b[0]) - b[1]) ** 2, 1), steps=3)
    assert len(said) == 1
    watch(3, start(), None, BATCH, loss=2.0)
    assert watch.watched.column("loss")[1].tolist() == [2.0]


def test_a_loss_that_cannot_be_called_is_said_once():
    watch = sc.monitor(lambda params: 0.0, record=False, every=1)
    with pytest.warns(MonitorWarning, match=r"`loss` could not be called as loss\(params, batch\)"):
        watch(0, start(), None, BATCH)
    watch(1, start(), None, BATCH)  # not again


def test_numbers_that_are_not_finite_leave_nothing_behind():
    watch = sc.monitor(loss, optimiser=SGD, record=False, every={"sharpness": 1, "batch_sharpness": 1})
    watch(0, start(), None, BATCH)
    before = watch.last["sharpness"]
    watch(1, jax.tree.map(lambda leaf: np.asarray(leaf) * np.nan, start()), None, BATCH)
    assert math.isnan(watch.last["sharpness"])
    assert math.isnan(watch.last["batch_sharpness"])
    watch(2, start(), None, BATCH)
    assert watch.last["sharpness"] == pytest.approx(before, rel=1e-2)


def test_a_saddle_and_a_flat_place():
    looks = {"sharpness": 1, "batch_sharpness": 1}
    watch = sc.monitor(lambda p, b: -jnp.sum(p**2), optimiser=SGD, record=False, every=looks)
    watch(0, np.ones(3), None, np.zeros((2, 1)))
    assert watch.last["sharpness"] == pytest.approx(-2)
    assert watch.last["critical_lr"] == math.inf
    watch(1, np.zeros(3), None, np.zeros((2, 1)))
    assert math.isnan(watch.last["batch_sharpness"])  # no gradient, no direction


def test_a_record_of_a_run_says_what_was_watched(tmp_path):
    looks = {"record": tmp_path / "run", "every": {"batch_sharpness": 1}}
    watch = watched(optax.adam(1e-3), rule=optax.adam(1e-3), steps=1, name="a test", **looks)
    watch.close()
    about = read(tmp_path / "run").about
    assert (about["framework"], about["parameters"], about["name"]) == ("jax", 24, "a test")
    assert about["optimiser"]["name"] == "adam"


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"loss": 3}, TypeError, "`loss`"),
        ({"loss": "mse"}, ValueError, "needs `f`"),
        ({"f": 3}, TypeError, "`f`"),
        ({"optimiser": "adam"}, TypeError, "`optimiser`"),
        ({"optimiser": {"name": "adam", "lr": -1}}, ValueError, "lr"),
        ({"samples": 1}, ValueError, "samples"),
        ({"budget": 2}, ValueError, "budget"),
    ],
)
def test_wrong_arguments_are_refused_at_once(options, error, words):
    with pytest.raises(error, match=words):
        sc.monitor(**({"loss": loss, "record": False} | options))


SEVERAL = """
import warnings
import jax, jax.numpy as jnp, numpy as np, optax
import secant as sc
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from secant.monitors.in_jax.compiled_looks import Call, Setting, Taker
from secant.monitors.base import PassedError

assert jax.device_count() == 4
rng = np.random.default_rng(0)
x, y = rng.normal(size=(8, 3)).astype(np.float32), rng.normal(size=(8, 2)).astype(np.float32)
params = {name: jnp.asarray(rng.normal(size=shape), jnp.float32) for name, shape in {"v": (4, 2), "w": (3, 4)}.items()}
loss = lambda p, b: jnp.mean((jnp.tanh(b[0] @ p["w"]) @ p["v"] - b[1]) ** 2)
rule = optax.adam(1e-2)
warnings.simplefilter("error")

def moved(params, state, batch):
    updates, state = rule.update(jax.grad(loss)(params, batch), state, params)
    return optax.apply_updates(params, updates), state

facts = {"name": "adam", "lr": 1e-2}

def run(place, batch, move, **options):
    params_, state = place(params), place(rule.init(params))
    watch = sc.monitor(options.pop("loss", loss), **({"optimiser": facts, "record": False, "every": 1} | options))
    for step in range(3):
        watch(step, params_, state, batch)
        params_, state = move(params_, state, batch)
    assert watch.watched.notes == [], watch.watched.notes
    return watch.last

alone = run(lambda tree: tree, (x, y), jax.jit(moved))

mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("data", "model"))
def sharded(tree):
    where = lambda a: NamedSharding(mesh, P(None, "model") if a.ndim == 2 else P())
    return jax.tree.map(lambda a: jax.device_put(a, where(a)), tree)
batch = tuple(jax.device_put(a, NamedSharding(mesh, P("data"))) for a in (x, y))
split = run(sharded, batch, jax.jit(moved))
call = Call(0, sharded(params), None, batch, ())
try:
    raise SystemExit(f"cut: {Taker(Setting(loss), call, print).cuttable(call)}")
except PassedError as why:
    assert str(why) == "arrays are spread over several devices.", why

copies = lambda tree: jax.tree.map(lambda a: jnp.stack([jnp.asarray(a)] * 4), tree)
def on_each(params, state, batch):
    gradient = jax.lax.pmean(jax.grad(loss)(params, batch), "devices")
    updates, state = rule.update(gradient, state, params)
    return optax.apply_updates(params, updates), state
each = tuple(a.reshape(4, 2, *a.shape[1:]) for a in (x, y))
together = lambda p, b: jax.lax.pmean(loss(p, b), "devices")
mapped = run(copies, each, jax.pmap(on_each, axis_name="devices"), stacked="devices", loss=together, optimiser=rule)

for name, value in alone.items():
    np.testing.assert_allclose(split[name], value, rtol=2e-4, err_msg=name)
    np.testing.assert_allclose(mapped[name], value, rtol=2e-3 if name == "noise_scale" else 2e-4, err_msg=name)
# A batch that lives on another device than the parameters is copied, and that is said.
warnings.simplefilter("default")
watch = sc.monitor(loss, optimiser=facts, record=False, every={"sharpness": 1})
near, far = jax.devices()[0], jax.devices()[1]
watch(0, jax.device_put(params, near), None, jax.device_put((x, y), far))
assert "sharpness" in watch.last
assert ["another device" in text for _, text in watch.watched.notes] == [True]
print("all the same")
"""


def test_sharded_and_mapped_runs_give_the_same_numbers():
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=4"
    environment = dict(os.environ) | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, "-c", SEVERAL], env=environment, capture_output=True, text=True)
    assert done.stdout.strip() == "all the same", done.stderr[-3000:]
