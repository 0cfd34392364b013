"""Steepest descent goes where the norm says, on any tree of parameters."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import secant as sc
from secant.optim.rules.steepest import _direction

INF = float("inf")
NORMS = (1, 1.25, 1.5, 2, 3, 10, INF)


@functools.cache
def direction(norm):
    return jax.jit(_direction(norm))


def size(v, p):
    return np.abs(v).max() if p == INF else (np.abs(v) ** p).sum() ** (1 / p)


def dual(p):
    return INF if p == 1 else 1 if p == INF else p / (p - 1)


@given(seed=st.integers(0, 10**6), norm=st.sampled_from(NORMS))
@settings(max_examples=20, deadline=None)
def test_a_step_has_the_length_of_the_dual_norm_and_its_whole_descent(seed, norm):
    g = np.random.default_rng(seed).normal(size=5)
    v = np.asarray(direction(norm)(g))
    assert -g @ v == pytest.approx(size(v, norm) ** 2, rel=1e-10)
    assert -g @ v == pytest.approx(size(g, dual(norm)) ** 2, rel=1e-10)


def test_a_matrix_divides_and_gradient_descent_is_the_identity():
    g, D = np.array([1.0, -2.0, 0.5]), np.diag([1.0, 4.0, 2.0]) + 0.1
    np.testing.assert_allclose(jax.jit(_direction(D))(g), -np.linalg.solve(D, g))
    np.testing.assert_allclose(jax.jit(_direction(np.eye(3)))(g), direction(2)(g))


def test_the_spectral_norm_moves_all_singular_values_alike():
    rng = np.random.default_rng(0)
    tree = {"a": rng.normal(size=(3, 2)), "b": rng.normal(size=4)}
    moved = jax.tree.map(np.asarray, direction("spectral")(tree))
    total = np.linalg.norm(tree["a"], "nuc") + np.linalg.norm(tree["b"])
    np.testing.assert_allclose(np.linalg.svd(moved["a"])[1], total)
    assert np.linalg.norm(moved["b"]) == pytest.approx(total)
    assert -sum((moved[name] * leaf).sum() for name, leaf in tree.items()) == pytest.approx(total**2)


def test_a_zero_gradient_does_not_move_and_extreme_ones_do_not_overflow():
    for norm in (*NORMS, "spectral"):
        np.testing.assert_array_equal(direction(norm)(np.zeros(5)), 0)
    np.testing.assert_array_equal(jax.jit(_direction(np.eye(2)))(np.zeros(2)), 0)
    g = np.array([3.0, -4.0, 1.0, 0.5, -2.0])
    for norm in NORMS:
        for scale in (1e-150, 1e150):
            np.testing.assert_allclose(direction(norm)(g * scale) / scale, direction(norm)(g), rtol=1e-10)


def test_a_run_over_norms_and_trees_minimises():
    loss = lambda w: (w["a"] - 1) ** 2 / 2 + jnp.sum((w["b"] + 2) ** 2) / 2  # noqa: E731
    rules = {"p": np.array([1.5, 3.0])}
    run = sc.simulate(
        lambda p: sc.steepest_descent(loss, p, 0.2),
        {"a": 0.0, "b": np.zeros(2)},
        200,
        over=rules,
        probes={"loss": loss},
    )
    assert run["loss"][..., -1].values.max() < 1e-6


@pytest.mark.parametrize(
    ("norm", "error", "message"),
    [
        (0.5, ValueError, "Below 1 it is no norm"),
        (float("nan"), ValueError, "`norm` must be from 1"),
        ("nuclear", ValueError, "a number, a matrix or 'spectral'"),
        (None, TypeError, "a number, a matrix or 'spectral'"),
        (np.ones((2, 3)), ValueError, "must be square"),
        (-np.eye(2), ValueError, "symmetric and positive definite"),
        (np.array([[1.0, 5.0], [0.0, 1.0]]), ValueError, "symmetric and positive definite"),
    ],
)
def test_what_is_no_norm_is_refused(norm, error, message):
    with pytest.raises(error, match=message):
        sc.steepest_descent(lambda w: w, norm, 0.1)


def test_steps_and_sizes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="`lr`"):
        sc.steepest_descent(lambda w: w, 2, -0.1)
    with pytest.raises(ValueError, match="has 3 rows, and there are 2 parameters"):
        sc.steepest_descent(lambda w: jnp.sum(w**2), np.eye(3), 0.1).step(jnp.ones(2))
