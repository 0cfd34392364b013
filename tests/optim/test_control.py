"""Controllers of the step size: what they measure, what they do with it, and what they refuse."""

import functools
import types

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree
from scipy.sparse.linalg import LinearOperator, eigsh

import secant as sc
from secant import control
from secant.core.device import jit

CURVATURES = np.array([40.0, 8.0, 1.0, 0.2])


def bowl(x):
    return jnp.sum(CURVATURES * x**2) / 2


def run_of(transformation, loss=bowl, start=None, steps=60):
    """Loss, step size, critical step and catapults done, at the start and after every step."""
    rule = sc.optimisers.from_optax(transformation)(loss)

    def look(state):
        read = control.reading(state)
        return {"loss": loss(state.params), "size": read.size, "critical": read.meter.critical, "done": read.done}

    def step(state, _):
        return rule.step(state), look(state)

    @jax.jit
    def run(state):
        last, seen = jax.lax.scan(step, state, length=steps)
        return seen, look(last)

    seen, last = run(rule.init(np.ones(4) if start is None else start))
    return types.SimpleNamespace(**{name: np.append(seen[name], last[name]) for name in seen})


def behind_sgd(*made):
    return optax.chain(optax.sgd(1.0), *made)


def test_the_measured_critical_step_is_two_over_the_largest_curvature():
    data = run_of(behind_sgd(control.below_critical(share=0.5)))
    found = data.critical[1:]
    np.testing.assert_allclose(found[-1], 2 / CURVATURES[0], rtol=1e-12)
    assert (found >= 2 / CURVATURES[0] * (1 - 1e-12)).all()  # a curvature along some direction is never too large
    np.testing.assert_allclose(data.size[1:], 0.5 * found, rtol=1e-14)


def test_the_direction_is_the_best_in_the_plane_of_the_last_and_its_image():
    curvatures = np.linspace(1.0, 2.0, 12)  # so close to each other that ten looks do not reach the largest
    rule, start = control.below_critical(), np.ones(12)
    state = jax.jit(rule.init)(start)
    v, hessian = np.asarray(state.meter.vector), np.diag(curvatures)
    loss = lambda x: jnp.sum(curvatures * x**2) / 2  # noqa: E731
    _, state = jax.jit(lambda state: rule.update(-curvatures * start, state, start, value_fn=loss))(state)
    for _ in range(10):
        plane, _ = np.linalg.qr(np.stack([v, hessian @ v], axis=1))
        found, vectors = np.linalg.eigh(plane.T @ hessian @ plane)
        v = plane @ vectors[:, -1]
    assert found[-1] < 0.999 * curvatures[-1]
    np.testing.assert_allclose(2 / state.meter.critical, found[-1], rtol=1e-12)
    np.testing.assert_allclose(abs(np.asarray(state.meter.vector) @ v), 1, rtol=1e-12)


def test_it_trains_where_the_given_step_alone_would_diverge():
    data = run_of(behind_sgd(control.below_critical(lr=1.0)))
    assert data.loss[-1] < 0.01 * data.loss[0]
    assert (np.diff(data.loss[1:]) <= 0).all()
    small = run_of(behind_sgd(control.below_critical(lr=0.01)), steps=5)
    np.testing.assert_allclose(small.size[1:], 0.01)


def test_momentum_has_room_for_its_own_factor():
    heavy = optax.sgd(1.0, momentum=0.5)
    fine = run_of(optax.chain(heavy, control.below_critical(share=0.95, factor=3.0)), steps=200)
    assert fine.loss[-1] < 1e-3 * fine.loss[0]
    too_far = run_of(optax.chain(heavy, control.below_critical(share=0.95, factor=3.5)), steps=200)
    assert not too_far.loss[-1] < too_far.loss[0]


def test_along_the_update_the_first_step_is_the_one_that_comes_back_to_the_same_loss():
    data = run_of(behind_sgd(control.below_critical(share=0.999999, along="update")), steps=1)
    gradient = CURVATURES * np.ones(4)
    exact = 2 * gradient @ gradient / (gradient @ (CURVATURES * gradient))
    np.testing.assert_allclose(data.critical[1], exact, rtol=1e-12)
    np.testing.assert_allclose(data.loss[1], data.loss[0], rtol=1e-4)


def test_along_the_update_it_fits_adam():
    rule = optax.chain(optax.scale_by_adam(), optax.scale(-1.0), control.below_critical(share=0.5, along="update"))
    data = run_of(rule, steps=200)
    assert data.loss[-1] < 1e-3 * data.loss[0]


def test_without_upward_curvature_the_step_is_the_given_one_or_the_optimisers_own():
    def hill(x):
        return -jnp.sum(CURVATURES * x**2) / 2

    start = np.full(4, 1e-9)
    assert (run_of(behind_sgd(control.below_critical(lr=0.3)), hill, start, 3).size[1:] == 0.3).all()
    assert (run_of(behind_sgd(control.below_critical()), hill, start, 3).size[1:] == 1).all()


def test_a_known_critical_step_is_taken_and_looks_can_be_rare():
    data = run_of(behind_sgd(control.below_critical(share=0.5, critical=lambda x: 0.01 * x[3] ** 2)), steps=3)
    np.testing.assert_allclose(data.size[1], 0.005)

    def moving(x):  # the curvature is another at every step
        return jnp.sum(jnp.cosh(x))

    rare = run_of(behind_sgd(control.below_critical(share=0.3, every=4)), moving, steps=12)
    assert len(set(rare.critical[1:].tolist())) == 3


@functools.cache
def network():
    task = sc.data.load("digits", classes=(0, 1), samples=32, seed=0)
    net = sc.nets.mlp([256])
    x, y = (jax.device_put(np.asarray(part, float)) for part in task.train)
    return sc.Problem(net.apply, x, y, sc.losses.mean_mse), net.init(jax.random.key(0), x.shape, jnp.float64)


def test_catapults_are_made_and_then_the_step_settles_below_the_critical_one():
    problem, start = network()
    data = run_of(behind_sgd(control.catapults(2, share=0.8, rest=5)), problem.objective, start, 90)
    assert data.done[-1] == 2
    tall = sc.measure.events.spikes(data.loss, factor=3.0)
    assert len(tall) == 2
    assert all(spike.end is not None for spike in tall)
    assert data.critical[-1] > 2 * data.critical[1]
    np.testing.assert_allclose(data.size[-1], 0.8 * data.critical[-1], rtol=1e-12)
    assert data.loss[-1] < 0.01 * data.loss[0]


def test_a_catapult_that_goes_too_far_is_given_up():
    problem, start = network()
    rule = behind_sgd(control.catapults(1, over=2.5, rest=5, height=3.0))
    data = run_of(rule, problem.objective, start, 60)
    assert data.done[-1] == 0
    assert data.loss.max() > 3 * data.loss[0]
    assert data.loss[-1] < 0.1 * data.loss[0]


@pytest.fixture(scope="module")
def spoilt():
    """A run on four batches an epoch, one sample of the third of which is no number, and the rows of the first."""
    with jax.enable_x64(True):
        problem, start = network()
        batches = sc.Batches(8)
        rows = [np.asarray(batches.indices(32, step)) for step in range(4)]
        x = np.array(problem.x)
        x[rows[2][0]] = np.nan
        run = sc.train(
            sc.Problem(problem.f, x, problem.y, problem.loss),
            start,
            rule=behind_sgd(control.below_critical(share=0.5)),
            batches=batches,
            steps=16,
            probes={
                "critical": sc.Probe(lambda state: control.reading(state).meter.critical, whole=True),
                "skipped": sc.Probe(lambda state: control.reading(state).skipped, whole=True),
            },
        )
        return run, rows


def test_train_hands_over_the_loss_of_the_batch(spoilt):
    problem, start = network()
    run, rows = spoilt
    flat, unravel = ravel_pytree(start)
    x, y = (np.asarray(part)[rows[0]] for part in (problem.x, problem.y))
    slope = jax.grad(lambda v: problem.objective_on(unravel(v), x, y))
    product = jax.jit(lambda v: jax.jvp(slope, (flat,), (v,))[1])
    hessian = LinearOperator((flat.size, flat.size), lambda v: np.asarray(product(v.ravel())), dtype=float)
    top = eigsh(hessian, 1, which="LA", v0=np.ones(flat.size), return_eigenvectors=False)
    np.testing.assert_allclose(run.dataset.critical.values[1], 2 / top[0], rtol=1e-2)


def test_a_batch_without_a_loss_is_passed_over(spoilt):
    problem, start = network()
    run, _ = spoilt
    assert run.dataset.skipped.values[::4].tolist() == [0, 1, 2, 3, 4]  # once an epoch
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(run.state))
    objective = jax.jit(problem.objective)
    assert objective(run.state) < 0.5 * objective(start)


# A critical step if one is told; the loss is `factor * bowl + offset + sqrt(inside)`, at 0 a root without a slope.
SOUND = {"factor": 1.0, "offset": 0.0, "inside": 1.0}
BROKEN = {
    "the critical step is not a number": (np.nan, {}),
    "the critical step is negative": (-1.0, {}),
    "the critical step is zero": (0.0, {}),
    "the loss is not a number": (None, {"factor": np.nan}),
    "the loss is infinite": (None, {"offset": np.inf}),
    "the loss is infinite, its slope is not": (0.01, {"offset": np.inf}),
    "the gradient is not a number": (0.01, {"inside": 0.0}),
}


@functools.cache
def controlled(along, lr, told):
    """A step of gradient descent behind which a controller looks `along`, or is `told` the critical step."""

    @functools.partial(jit, quick=True)
    def step(params, state, critical, factor, offset, inside):
        def loss(p):
            return factor * bowl(p) + offset + jnp.sqrt(jnp.abs(p[0] * 0) + inside)

        options = {"critical": lambda p: critical} if told else {}
        rule = behind_sgd(control.below_critical(lr, along=along, **options))
        value, gradient = jax.value_and_grad(loss)(params)
        updates, state = rule.update(gradient, state, params, value=value, value_fn=loss)
        return optax.apply_updates(params, updates), state

    return step


@pytest.mark.parametrize(("told", "broken"), BROKEN.values(), ids=BROKEN.keys())
@pytest.mark.parametrize(("along", "lr"), [("top", 0.5), ("update", None)])
def test_without_numbers_to_go_by_no_step_is_taken_and_nothing_is_lost(told, broken, along, lr):
    step = controlled(along, lr, told is not None)
    critical, start = 0.0 if told is None else told, np.ones(4)
    params, state = start, behind_sgd(control.below_critical(lr)).init(start)
    for count in (1, 2):
        params, state = step(params, state, critical, **(SOUND | broken))
        np.testing.assert_array_equal(params, start)
        read = control.reading(state)
        assert (int(read.skipped), int(read.step), float(read.size)) == (count, count, 1.0)
    if told is None:  # with a loss that is one, it goes on as if nothing had been
        for _ in range(60):
            params, state = step(params, state, critical, **SOUND)
        assert CURVATURES @ np.asarray(params) ** 2 < 0.01 * CURVATURES @ start**2
        assert int(control.reading(state).skipped) == 2


def test_catapults_are_made_after_a_first_loss_that_was_none():
    problem, start = network()
    rule = behind_sgd(control.catapults(1, share=0.8, rest=5))

    @jax.jit
    def step(params, state, factor):
        def loss(p):
            return problem.objective(p) * factor

        value, gradient = jax.value_and_grad(loss)(params)
        updates, state = rule.update(gradient, state, params, value=value, value_fn=loss)
        return optax.apply_updates(params, updates), state

    params, state = step(start, rule.init(start), np.nan)
    for _ in range(60):
        params, state = step(params, state, 1.0)
    assert int(control.reading(state).done) == 1
    assert int(control.reading(state).skipped) == 1


MISPLACED = {
    "alone": lambda made: made,
    "in front": lambda made: optax.chain(made, optax.sgd(1.0)),
    "in front of momentum": lambda made: optax.chain(made, optax.sgd(0.1, momentum=0.9)),
    "in front of adam": lambda made: optax.chain(made, optax.adam(0.1)),
    "behind a clip": lambda made: optax.chain(optax.clip_by_global_norm(1.0), made, optax.sgd(1.0)),
    "behind a smaller clip": lambda made: optax.chain(optax.clip(0.1), made, optax.sgd(1.0)),
    "between": lambda made: optax.chain(optax.scale_by_adam(), made, optax.scale(-0.1)),
}
PLACED = {
    "sgd": lambda made: optax.chain(optax.sgd(1.0), made),
    "clip": lambda made: optax.chain(optax.clip(0.1), optax.sgd(1.0), made),
    "momentum": lambda made: optax.chain(optax.sgd(1.0, momentum=0.9, nesterov=True), made),
    "adam": lambda made: optax.chain(optax.scale_by_adam(), optax.scale(-1.0), made),
    "adamw": lambda made: optax.chain(optax.adamw(1.0), made),
    "lion": lambda made: optax.chain(optax.lion(1.0), made),
    "warmup": lambda made: optax.chain(optax.sgd(optax.linear_schedule(0.0, 1.0, 5)), made),
    "then a scale": lambda made: optax.chain(optax.sgd(1.0), made, optax.scale(0.5)),
    "masked": lambda made: optax.chain(optax.masked(optax.sgd(1.0), [True]), made),
}
LAST = r"must come last, behind the optimiser.*Use `optax.chain\(optax.sgd\(1.0\), control."


@pytest.mark.parametrize("chain", MISPLACED.values(), ids=MISPLACED.keys())
def test_a_controller_that_does_not_come_last_is_refused(chain):
    rule, start = chain(control.below_critical()), np.ones(4)
    with pytest.raises(ValueError, match=f"below_critical: the controller {LAST}below_critical"):
        sc.optimisers.from_optax(rule)
    with pytest.raises(ValueError, match=LAST):
        rule.update(CURVATURES * start, rule.init(start), start, value_fn=bowl)


def test_it_is_refused_inside_of_a_program_too():
    rules = {True: optax.chain(control.below_critical(), optax.adam(0.1)), False: behind_sgd(control.below_critical())}

    def run(rate, wrong):
        made = sc.optimisers.from_optax(rules[wrong])
        return rate * len(made.settings)

    assert jax.jit(functools.partial(run, wrong=False))(2.0) == 8
    with pytest.raises(ValueError, match=LAST):
        jax.jit(functools.partial(run, wrong=True))(2.0)


def test_training_refuses_it_before_anything_runs():
    problem, params = network()
    with pytest.raises(ValueError, match=f"catapults: the controller {LAST}catapults"):
        sc.train(problem, params, rule=optax.chain(control.catapults(1), optax.sgd(1.0)), steps=3)


@pytest.mark.parametrize("chain", [MISPLACED["in front of adam"], MISPLACED["behind a clip"]])
def test_where_that_cannot_be_raised_no_step_is_taken(chain):
    rule, start = chain(control.below_critical(lr=0.1)), jnp.array([1.0, -1.0, 0.5, 2.0])

    @jax.jit
    def step(params, state):
        updates, state = rule.update(jax.grad(bowl)(params), state, params, value_fn=bowl)
        return updates, state

    state = rule.init(start)
    for _ in range(3):
        updates, state = step(start, state)
        np.testing.assert_array_equal(updates, 0)
    read = control.reading(state)
    assert bool(read.astray)
    assert int(read.skipped) == 3


def test_the_gradient_itself_is_refused_while_a_program_is_compiled():
    rule, start = optax.chain(control.below_critical(), optax.sgd(1.0)), jnp.ones(4, jnp.float64)

    @jax.jit
    def step(params, state):
        gradient = jax.grad(bowl)(params)
        return rule.update(gradient, state, params, grad=gradient, value_fn=bowl)

    with pytest.raises(ValueError, match=LAST):
        step(start, rule.init(start))


@pytest.mark.parametrize("chain", PLACED.values(), ids=PLACED.keys())
def test_a_controller_that_comes_last_is_not(chain):
    rule = chain(control.below_critical(lr=0.01, critical=lambda params: 2 / CURVATURES[0]))
    data = run_of(rule, lambda params: bowl(params[0]), [np.array([1.0, -1.0, 0.5, 2.0])], steps=3)
    assert data.loss[-1] < data.loss[0]


def test_later_updates_may_point_anywhere():
    heavy = optax.chain(optax.sgd(1.0, momentum=0.95), control.below_critical(share=0.9, factor=3.9))
    data = run_of(heavy, lambda x: jnp.sum(x**2) / 2, np.ones(1), steps=300)
    assert data.loss[-1] < 1e-3  # momentum carries it past the minimum and up the other side, again and again


def test_without_the_loss_it_says_how_to_hand_it_over():
    transformation, start = control.below_critical(), np.ones(4)
    with pytest.raises(ValueError, match="value_fn=loss"):
        transformation.update(start, transformation.init(start), start)


def test_line_searches_of_optax_train_too():
    problem, start = network()
    rule = optax.chain(optax.sgd(1.0), optax.scale_by_backtracking_linesearch(max_backtracking_steps=15))
    run = sc.train(problem, start, rule=rule, steps=3, probes={"loss": sc.measure.loss()}, reduce=False)
    params, state = start, rule.init(start)

    @jax.jit
    def step(params, state):
        value, gradient = jax.value_and_grad(problem.objective)(params)
        updates, state = rule.update(gradient, state, params, value=value, grad=gradient, value_fn=problem.objective)
        return optax.apply_updates(params, updates), state

    for _ in range(3):
        params, state = step(params, state)
    np.testing.assert_allclose(run.dataset.loss.values[-1], jax.jit(problem.objective)(params), rtol=1e-10)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: control.below_critical(lr=0.0), "`lr` must be a finite number above 0"),
        (lambda: control.below_critical(share=1.0), "`share` must be a finite number above 0 and below 1"),
        (lambda: control.below_critical(along="down"), "`along` must be one of top, update"),
        (lambda: control.below_critical(factor=-1), "`factor` must be"),
        (lambda: control.below_critical(every=0), "`every` must be a whole number"),
        (lambda: control.catapults(0), "`count` must be a whole number"),
        (lambda: control.catapults(1, over=1.0), "`over` must be above 1"),
        (lambda: control.catapults(1, rest=0), "`rest` must be a whole number"),
        (lambda: control.catapults(1, height=0.5), "`height` must be above 1"),
        (lambda: control.reading((1, 2)), "it holds 0"),
        (lambda: control.below_critical().init({}), "has no arrays"),
    ],
)
def test_what_makes_no_sense_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_reading_from_elsewhere_takes_the_place_of_a_look():
    looked = []

    def loss(x):
        looked.append(1)
        return 5.0 * x**2

    rule = optax.chain(optax.sgd(1.0), control.below_critical(share=0.5))
    x = np.ones(())
    state = rule.init(x)

    @jax.jit
    def update(state, reading):
        return rule.update(10.0 * x, state, x, critical=reading, value=5.0, grad=10.0 * x, value_fn=loss)

    for reading, expected in ((0.2, 0.1), (float("nan"), 0.1), (0.1, 0.05), (-1.0, 0.05)):
        _, state = update(state, reading)
        assert float(control.reading(state).size) == pytest.approx(expected)
    assert not looked  # neither the loss nor its curvature was asked for
