"""Mirror descent as a Map."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import secant as sc
from secant.theory.bias import interpolants, potentials


def quadratic_loss(X, y):
    X, y = jnp.asarray(X), jnp.asarray(y)
    return lambda w: jnp.sum((X @ jnp.concatenate([w["a"].ravel(), w["b"]]) - y) ** 2)


@pytest.mark.parametrize(
    ("potential", "lr"),
    [
        (potentials.entropy(), 0.01),
        (potentials.quadratic(np.arange(1.0, 6.0)), 0.05),
        (potentials.lp(1.5), 0.02),
        (potentials.hypentropy(0.3), 0.005),
    ],
    ids=lambda case: getattr(case, "name", ""),
)
def test_a_tree_of_parameters_ends_in_the_nearest_solution(potential, lr):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2, 5))
    y, start = X @ np.exp(rng.normal(size=5) / 2), np.exp(rng.normal(size=5) / 4)
    tree = {"a": jnp.asarray(start[:4].reshape(2, 2)), "b": jnp.asarray(start[4:])}
    run = sc.simulate(sc.mirror_descent(quadratic_loss(X, y), potential, lr), tree, 3000)
    found = np.concatenate([np.ravel(run.state["a"]), np.ravel(run.state["b"])])
    np.testing.assert_allclose(found, interpolants.bregman_projection(X, y, potential, start).weights, atol=1e-4)


def test_of_a_number_it_is_the_closed_form():
    run = sc.simulate(sc.mirror_descent(lambda w: 3 * w, potentials.entropy(), 0.1), 2.0, 4, probes={"w": lambda w: w})
    np.testing.assert_allclose(run.dataset.w, 2 * np.exp(-0.3 * np.arange(5)), rtol=1e-5)


def test_matrices_stay_positive():
    A = jnp.array([[1.0, 0.5], [0.0, -1.0]])
    rule = sc.mirror_descent(lambda w: (jnp.sum(A * w["m"]) - 1) ** 2, potentials.spectral_entropy(), 0.05)
    run = sc.simulate(rule, {"m": jnp.eye(2)}, 300)
    exact = interpolants.bregman_projection(np.asarray(A)[None], np.ones(1), potentials.spectral_entropy()).weights
    np.testing.assert_allclose(run.state["m"], exact, atol=1e-4)


def test_step_sizes_can_be_an_axis():
    run = sc.simulate(
        lambda lr: sc.mirror_descent(lambda w: w, potentials.entropy(), lr),
        1.0,
        2,
        over={"lr": jnp.array([0.1, 0.2])},
        probes={"w": lambda w: w},
    )
    np.testing.assert_allclose(run.dataset.w[:, -1], np.exp([-0.2, -0.4]), rtol=1e-5)


def test_what_has_no_meaning_is_refused_by_name():
    with pytest.raises(ValueError, match="`lr`"):
        sc.mirror_descent(lambda w: w, potentials.entropy(), -1.0)
    with pytest.raises(ValueError, match="entropy is defined on positive weights"):
        sc.mirror_descent(jnp.sum, potentials.entropy(), 0.1).init({"a": jnp.array([1.0, -1.0])})
    rule = sc.mirror_descent(jnp.sum, potentials.lp(1.5), 0.1)
    assert jax.eval_shape(rule.step, jnp.ones(3)).shape == (3,)
