"""Controllers of the step size: what they measure, what they do with it, and what they refuse."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import secant as sc
from secant import control
from secant.core.device import jit

CURVATURES = np.array([40.0, 8.0, 1.0, 0.2])


def bowl(x):
    return jnp.sum(CURVATURES * x**2) / 2


def run_of(transformation, loss=bowl, start=None, steps=60):
    begin = jnp.ones(4, jnp.float64) if start is None else start
    rule = sc.optimisers.from_optax(transformation)
    looked = {"value": lambda s: s.size, "critical": lambda s: s.meter.critical, "done": lambda s: s.done}
    probe = sc.Probe(
        lambda state: {name: look(control.reading(state)) for name, look in looked.items()}, whole=True, label="size"
    )
    return sc.simulate(rule(loss), begin, steps, probes={"loss": loss, "size": probe}).dataset


def behind_sgd(*made):
    return optax.chain(optax.sgd(1.0), *made)


def test_the_measured_critical_step_is_two_over_the_largest_curvature():
    data = run_of(behind_sgd(control.below_critical(share=0.5)))
    found = data.size_critical.values[1:]
    np.testing.assert_allclose(found[-1], 2 / CURVATURES[0], rtol=1e-12)
    assert (found >= 2 / CURVATURES[0] * (1 - 1e-12)).all()  # a curvature along some direction is never too large
    np.testing.assert_allclose(data["size"].values[1:], 0.5 * found, rtol=1e-14)


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
    assert (np.diff(data.loss.values[1:]) <= 0).all()
    small = run_of(behind_sgd(control.below_critical(lr=0.01)), steps=5)
    np.testing.assert_allclose(small["size"].values[1:], 0.01)


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
    np.testing.assert_allclose(data.size_critical.values[1], exact, rtol=1e-12)
    np.testing.assert_allclose(data.loss[1], data.loss[0], rtol=1e-4)


def test_along_the_update_it_fits_adam():
    rule = optax.chain(optax.scale_by_adam(), optax.scale(-1.0), control.below_critical(share=0.5, along="update"))
    data = run_of(rule, steps=200)
    assert data.loss[-1] < 1e-3 * data.loss[0]


def test_without_upward_curvature_the_step_is_the_given_one_or_the_optimisers_own():
    def hill(x):
        return -jnp.sum(CURVATURES * x**2) / 2

    start = jnp.full(4, 1e-9)
    assert (run_of(behind_sgd(control.below_critical(lr=0.3)), hill, start, 3)["size"].values[1:] == 0.3).all()
    assert (run_of(behind_sgd(control.below_critical()), hill, start, 3)["size"].values[1:] == 1).all()


def test_a_known_critical_step_is_taken_and_looks_can_be_rare():
    data = run_of(behind_sgd(control.below_critical(share=0.5, critical=lambda x: 0.01 * x[3] ** 2)), steps=3)
    np.testing.assert_allclose(data["size"].values[1], 0.005)

    def moving(x):  # the curvature is another at every step
        return jnp.sum(jnp.cosh(x))

    rare = run_of(behind_sgd(control.below_critical(share=0.3, every=4)), moving, steps=12)
    assert len(set(rare.size_critical.values[1:].tolist())) == 3


@functools.cache
def network():
    task = sc.data.load("digits", classes=(0, 1), samples=32, seed=0)
    net = sc.nets.mlp([256])
    x, y = (jax.device_put(np.asarray(part, float)) for part in task.train)
    return sc.Problem(net.apply, x, y, sc.losses.mean_mse), net.init(jax.random.key(0), x.shape, jnp.float64)


def test_catapults_are_made_and_then_the_step_settles_below_the_critical_one():
    problem, start = network()
    data = run_of(behind_sgd(control.catapults(2, share=0.8, rest=5)), problem.objective, start, 90)
    assert data.size_done.values[-1] == 2
    tall = sc.measure.events.spikes(data.loss.values, factor=3.0)
    assert len(tall) == 2
    assert all(spike.end is not None for spike in tall)
    assert data.size_critical.values[-1] > 2 * data.size_critical.values[1]
    np.testing.assert_allclose(data["size"].values[-1], 0.8 * data.size_critical.values[-1], rtol=1e-12)
    assert data.loss[-1] < 0.01 * data.loss[0]


def test_a_catapult_that_goes_too_far_is_given_up():
    problem, start = network()
    rule = behind_sgd(control.catapults(1, over=2.5, rest=5, height=3.0))
    data = run_of(rule, problem.objective, start, 60)
    assert data.size_done.values[-1] == 0
    assert data.loss.max() > 3 * data.loss[0]
    assert data.loss[-1] < 0.1 * data.loss[0]


def test_train_hands_over_the_loss_of_the_batch():
    problem, start = network()
    batches = sc.Batches(8)
    run = sc.train(
        problem,
        start,
        rule=behind_sgd(control.below_critical(share=0.5)),
        batches=batches,
        steps=10,
        reduce=False,
        probes={
            "loss": sc.measure.loss(),
            "critical": sc.Probe(lambda state: control.reading(state).meter.critical, whole=True),
        },
    )
    assert run.dataset.loss[-1] < run.dataset.loss[0]
    rows = batches.indices(32, 0)
    first = sc.critical_lr(problem.f, start, problem.x[rows], problem.y[rows], sc.losses.mean_mse).exact
    np.testing.assert_allclose(run.dataset.critical.values[1], first, rtol=1e-2)


BROKEN = {
    "the critical step is not a number": ({"critical": lambda p: jnp.nan}, bowl),
    "the critical step is negative": ({"critical": lambda p: -1.0}, bowl),
    "the critical step is zero": ({"critical": lambda p: 0.0}, bowl),
    "the loss is not a number": ({}, lambda p: bowl(p) * jnp.nan),
    "the loss is infinite": ({}, lambda p: bowl(p) + jnp.inf),
    "the loss is infinite, its slope is not": ({"critical": lambda p: 0.01}, lambda p: bowl(p) + jnp.inf),
    "the gradient is not a number": ({"critical": lambda p: 0.01}, lambda p: bowl(p) + jnp.sqrt(jnp.abs(p[0] * 0))),
}


@pytest.mark.parametrize(("options", "loss"), BROKEN.values(), ids=BROKEN.keys())
@pytest.mark.parametrize(("along", "lr"), [("top", 0.5), ("update", None)])
def test_without_numbers_to_go_by_no_step_is_taken_and_nothing_is_lost(options, loss, along, lr):
    rule = behind_sgd(control.below_critical(lr, **options, along=along))
    start = np.ones(4)

    @functools.partial(jit, quick=True, static_argnames="loss")
    def step(params, state, loss):
        value, gradient = jax.value_and_grad(loss)(params)
        updates, state = rule.update(gradient, state, params, value=value, value_fn=loss)
        return optax.apply_updates(params, updates), state

    params, state = start, jit(rule.init, quick=True)(start)
    for count in (1, 2):
        params, state = step(params, state, loss)
        np.testing.assert_array_equal(params, start)
        read = control.reading(state)
        assert (int(read.skipped), int(read.step), float(read.size)) == (count, count, 1.0)
    if not options:  # with a loss that is one, it goes on as if nothing had been
        for _ in range(60):
            params, state = step(params, state, bowl)
        assert bowl(params) < 0.01 * bowl(start)
        assert int(control.reading(state).skipped) == 2


def test_a_batch_without_a_loss_is_passed_over():
    problem, start = network()
    x = problem.x.at[5].set(jnp.nan)  # one sample of 32: one batch in four has it
    spoilt = sc.Problem(problem.f, x, problem.y, problem.loss)
    rule = behind_sgd(control.below_critical(share=0.5))
    skipped = sc.Probe(lambda state: control.reading(state).skipped, whole=True)
    run = sc.train(spoilt, start, rule=rule, batches=sc.Batches(8), steps=16, probes={"skipped": skipped})
    assert int(run.dataset.skipped[-1]) == 4
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(run.state))
    assert problem.objective(run.state) < 0.5 * problem.objective(start)


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

    params, state = step(start, rule.init(start), jnp.nan)
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
    with pytest.raises(ValueError, match=f"below_critical: it {LAST}below_critical"):
        sc.optimisers.from_optax(rule)
    with pytest.raises(ValueError, match=LAST):
        rule.update(CURVATURES * start, jax.jit(rule.init)(start), start, value_fn=bowl)


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
    with pytest.raises(ValueError, match=f"catapults: it {LAST}catapults"):
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
    rule = chain(control.below_critical(lr=0.01))
    start = [jnp.array([1.0, -1.0, 0.5, 2.0])]

    def loss(params):
        return bowl(params[0])

    made = sc.optimisers.from_optax(rule)
    run = sc.simulate(made(loss), start, 3, probes={"loss": loss})
    assert run.dataset.loss[-1] < run.dataset.loss[0]


def test_later_updates_may_point_anywhere():
    heavy = optax.chain(optax.sgd(1.0, momentum=0.95), control.below_critical(share=0.9, factor=3.9))
    data = run_of(heavy, lambda x: jnp.sum(x**2) / 2, jnp.ones(1, jnp.float64), steps=300)
    assert data.loss[-1] < 1e-3  # momentum carries it past the minimum and up the other side, again and again


def test_without_the_loss_it_says_how_to_hand_it_over():
    transformation, start = control.below_critical(), jnp.ones(3)
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
    np.testing.assert_allclose(run.dataset.loss.values[-1], problem.objective(params), rtol=1e-10)


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
    x = jnp.ones(())
    state = rule.init(x)
    seen = {"value": 5.0, "grad": 10.0 * x, "value_fn": loss}
    for reading, expected in ((0.2, 0.1), (float("nan"), 0.1), (0.1, 0.05), (-1.0, 0.05)):
        _, state = rule.update(10.0 * x, state, x, critical=reading, **seen)
        assert float(control.reading(state).size) == pytest.approx(expected)
    assert not looked  # neither the loss nor its curvature was asked for
