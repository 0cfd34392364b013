"""Controllers of the step size: what they measure, what they do with it, and what they refuse."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import secant as sc
from secant import control

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
    x, y = (jnp.asarray(part, jnp.float64) for part in task.train)
    start = jax.tree.map(lambda leaf: leaf.astype(jnp.float64), net.init(jax.random.key(0), x.shape))
    return sc.Problem(net.apply, x, y, sc.losses.mean_mse), start


def test_catapults_are_made_and_then_the_step_settles_below_the_critical_one():
    problem, start = network()
    data = run_of(behind_sgd(control.catapults(2, share=0.8, rest=5)), problem.objective, start, 90)
    assert data.size_done.values[-1] == 2
    tall = sc.dynamics.catapults.spikes(data.loss.values, factor=3.0)
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


def test_without_the_loss_it_says_how_to_hand_it_over():
    transformation, start = control.below_critical(), jnp.ones(3)
    with pytest.raises(ValueError, match="value_fn=loss"):
        transformation.update(start, transformation.init(start), start)


def test_line_searches_of_optax_train_too():
    problem, start = network()
    rule = optax.chain(optax.sgd(1.0), optax.scale_by_backtracking_linesearch(max_backtracking_steps=15))
    run = sc.train(problem, start, rule=rule, steps=3, probes={"loss": sc.measure.loss()}, reduce=False)
    params, state = start, rule.init(start)
    value_and_grad = jax.value_and_grad(problem.objective)
    for _ in range(3):
        value, gradient = value_and_grad(params)
        updates, state = rule.update(gradient, state, params, value=value, grad=gradient, value_fn=problem.objective)
        params = optax.apply_updates(params, updates)
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
