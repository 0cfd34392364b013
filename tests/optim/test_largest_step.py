"""The maximal step size: by trial, and as one direction sees it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import secant as sc
from secant.theory.catapult import one_sample as catapult
from secant.theory.regression.one_mode_border import largest_step, survives


@pytest.fixture(scope="module")
def one_sample():
    """A quadratic model of one sample whose border is known in closed form."""
    with jax.enable_x64(True):
        x = jax.random.normal(jax.random.key(3), (1, 4), jnp.float64)
        net = sc.nets.two_layer(40)
        params = net.init(jax.random.key(0), x.shape)
        return sc.Problem(sc.expand(net.apply, params, 2), x, jnp.array([0.7]), sc.losses.half_sum), params


def test_one_sample_behind_frozen_gates_has_the_exact_border(one_sample):
    problem, params = one_sample
    output = float(problem.f(params, problem.x)[0])
    guess = sc.estimate_max_lr(problem, params)
    size = float(jnp.sum(problem.x**2) / 4)
    exact = float(catapult.max_step(output, guess.curvature, 40, 0.7, size))
    assert guess.lr == pytest.approx(exact, rel=1e-4)
    found = sc.find_max_lr(problem, params, points=10, rounds=3, steps=600)
    assert found.stable < exact * (1 + 1e-3)
    assert found.divergent > exact * (1 - 1e-3)
    assert found.divergent - found.stable == pytest.approx(14 / 1000 / guess.curvature, rel=1e-6)


def test_the_normalisation_of_the_loss_is_in_both(one_sample):
    problem, params = one_sample
    mean = sc.Problem(problem.f, problem.x, problem.y, sc.losses.mean_mse)
    ours, other = sc.estimate_max_lr(problem, params), sc.estimate_max_lr(mean, params)
    assert other.lr == pytest.approx(ours.lr / 2, rel=1e-9)
    assert other.curvature == pytest.approx(2 * ours.curvature, rel=1e-12)


@pytest.mark.parametrize("scale", [0.5, 3.0])
def test_the_border_has_the_units_of_a_step_size(scale):
    spectrum, squares = np.array([0.3, -0.1, 0.0]), np.array([0.5, 0.3, 0.4])
    # In z -> s z, J -> sqrt(s) J the same model has the step size eta / s.
    assert largest_step(scale * 0.05, spectrum, scale * squares) == pytest.approx(
        largest_step(0.05, spectrum, squares) / scale, rel=1e-6
    )


def test_where_curvature_cannot_fall_the_border_is_that_of_a_linear_model():
    # Just above 2 it takes long to leave: (eta lambda - 1)^1000 = 1e8 at 2.019.
    assert largest_step(0.1, [0.0], [2.0]) == pytest.approx(1.0, rel=0.02)
    assert bool(survives(jnp.array([0.99]), 0.1, jnp.array([0.0]), jnp.array([2.0]))[0])


def test_bad_input_is_named(one_sample):
    problem, params = one_sample
    with pytest.raises(ValueError, match="`between` must be two increasing positive numbers"):
        sc.find_max_lr(problem, params, between=(4.0, 2.0))
    with pytest.raises(ValueError, match="`points` must be at least 2"):
        sc.find_max_lr(problem, params, points=1)
    with pytest.raises(ValueError, match="squared losses"):
        sc.estimate_max_lr(sc.Problem(problem.f, problem.x, problem.y, lambda o, t: jnp.sum((o - t) ** 4)), params)
    nothing = jax.tree.map(jnp.zeros_like, params)
    broken = jax.tree.map(lambda leaf: jnp.full_like(leaf, jnp.nan), params)
    with pytest.raises(ValueError, match="the tangent kernel at `params` is zero"):
        sc.find_max_lr(sc.Problem(sc.nets.two_layer(40).apply, problem.x, problem.y, problem.loss), nothing)
    with pytest.raises(ValueError, match="not all finite"):
        sc.estimate_max_lr(problem, broken)
    with pytest.raises(ValueError, match="lists of equal length"):
        largest_step(0.1, [1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="`squares` must be at least 0"):
        largest_step(0.1, [1.0], [-1.0])


def test_nothing_that_diverges_is_infinity(one_sample):
    problem, params = one_sample
    found = sc.find_max_lr(problem, params, between=(0.5, 1.0), points=2, rounds=1, steps=50)
    assert found.divergent == float("inf")
    assert found.stable == pytest.approx(1.0 / found.curvature)
