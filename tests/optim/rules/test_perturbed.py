"""Gradient descent that is pushed off saddle points."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import secant as sc
from secant.optim import perturbed


def flat(w):
    """No gradient: what moves is noise."""
    return 0.0 * jnp.sum(w["a"]) + 0.0 * jnp.sum(w["b"])


def saddle(w):
    return w["a"][0] ** 2 / 2 - w["b"] ** 2 / 2 + w["b"] ** 4 / 4


START = {"a": np.zeros(3), "b": np.zeros(())}


def of(w):
    return jnp.concatenate([w["a"], w["b"][None]])


def test_noise_at_every_step_has_the_variance_it_should():
    run = sc.simulate(
        lambda seed: perturbed(flat, 0.5, 2.0, seed=seed), START, 1, probes={"w": of}, over={"seed": np.arange(4000)}
    )
    moved = run.dataset.w.values[:, 1]
    square = (moved**2).sum(1)
    assert square.mean() == pytest.approx(0.25 * 4, abs=4 * square.std() / 4000**0.5)
    np.testing.assert_allclose(np.cov(moved.T), 0.25 * np.eye(4), atol=0.03)


def test_rare_pushes_are_uniform_in_a_ball_and_wait():
    rule = lambda seed: perturbed(flat, 0.5, 2.0, below=0.1, wait=3, seed=seed)  # noqa: E731
    run = sc.simulate(rule, START, 9, probes={"w": of}, over={"seed": np.arange(4000)})
    steps = np.diff(run.dataset.w.values, axis=1)
    pushed = np.abs(steps).max((0, 2)) > 0
    assert pushed.tolist() == [True, False, False, False, True, False, False, False, True]
    length = np.linalg.norm(steps[:, 0], axis=1)
    assert length.max() <= 1.0
    assert (length**4).mean() == pytest.approx(0.5, abs=4 * 12**-0.5 / 4000**0.5)  # uniform
    assert not np.allclose(steps[:, 0], steps[:, 4])


def test_no_push_where_the_gradient_is_large():
    rule = perturbed(lambda w: 3 * jnp.sum(w), 0.1, 1.0, below=1.0, wait=0)
    np.testing.assert_allclose(sc.simulate(rule, np.zeros(2), 4).state, -1.2 * np.ones(2), rtol=1e-6)


def test_without_a_radius_it_is_gradient_descent():
    start = {"a": np.ones(3), "b": np.asarray(0.3)}
    runs = [
        sc.simulate(rule, start, 20).state for rule in (sc.gradient_descent(saddle, 0.1), perturbed(saddle, 0.1, 0.0))
    ]
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), *runs)


def test_a_run_leaves_the_saddle_and_goes_on_where_it_stopped():
    rule = perturbed(saddle, 0.1, 1e-3, below=1e-3, wait=200)
    last = sc.simulate(rule, START, 200).state
    assert float(saddle(jax.tree.map(np.asarray, last))) == pytest.approx(-0.25, abs=1e-3)
    state, step, resumed = rule.init(START), jax.jit(rule.step), jax.jit(lambda state: rule.step(rule.init(state)))
    for _ in range(5):
        state = step(state)
    jax.tree.map(np.testing.assert_array_equal, step(state).params, resumed(state).params)


def test_training_takes_it_as_a_rule():
    problem = sc.Problem(lambda w, x: x @ w, np.eye(2, dtype=np.float32), np.ones(2, np.float32), sc.losses.half_sum)
    run = sc.train(problem, np.zeros(2, np.float32), rule=lambda loss: perturbed(loss, 0.5, 1e-3), steps=30)
    np.testing.assert_allclose(run.state, 1.0, atol=5e-3)


def test_what_does_not_fit_is_refused_by_name():
    with pytest.raises(TypeError, match="`wait` is missing"):
        perturbed(flat, 0.1, 1.0, below=0.1)
    with pytest.raises(ValueError, match="`lr`"):
        perturbed(flat, 0.0, 1.0)
    with pytest.raises(ValueError, match="`radius`"):
        perturbed(flat, 0.1, -1.0)
    with pytest.raises(ValueError, match="`wait`"):
        perturbed(flat, 0.1, 1.0, below=0.1, wait=1.5)
