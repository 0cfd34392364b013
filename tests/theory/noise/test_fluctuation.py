"""Stationary states, against the listing of all batches and against simulated chains."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secant.theory.noise import fluctuation as fl
from secant.theory.noise import linear_noise
from secant.theory.noise.mean_square import batches_of

LAWS = st.sampled_from(["fixed", "iid", "bernoulli"])


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 5), LAWS)
def test_noise_matrices_are_those_of_all_batches(seed, batch, law):
    g = np.random.default_rng(seed).normal(size=(5, 2)) + 1
    counts, chances = batches_of(5, batch, law)
    seen = counts @ g / batch
    found = fl.noise_matrices(g, batch, law)
    np.testing.assert_allclose(chances @ seen, found.mean, atol=1e-12)
    np.testing.assert_allclose((seen.T * chances) @ seen, found.second, atol=1e-12)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4), LAWS)
def test_a_step_over_all_batches_keeps_the_stationary_state(seed, batch, law):
    random = np.random.default_rng(seed)
    x, y, lr = random.normal(size=(4, 2)), random.normal(size=4), 0.05
    state = fl.stationary(x, y, lr, batch, law)
    if state.reason:
        return
    S, rho = state.covariance, x @ state.minimiser - y
    after = np.zeros((2, 2))
    for row, chance in zip(*batches_of(4, batch, law), strict=True):
        step, kick = np.eye(2) - lr / batch * (x.T * row) @ x, lr / batch * x.T @ (row * rho)
        after += chance * (step @ S @ step.T + np.outer(kick, kick))
    np.testing.assert_allclose(after, S, atol=1e-12)
    assert np.linalg.eigvalsh(S)[0] >= -1e-12
    np.testing.assert_allclose(np.diag(state.hessian @ S), lr / 2 * np.diag(state.second), atol=1e-12)
    slope = np.trace(state.hessian @ S @ state.hessian)
    assert slope == pytest.approx(lr / 2 * np.trace(state.hessian @ state.second))


def test_where_moments_diverge_they_are_infinite_with_a_reason():
    random = np.random.default_rng(0)
    state = fl.stationary(random.normal(size=(6, 2)), random.normal(size=6), 3.0, 1)
    assert "grow by a factor" in state.reason
    assert np.isinf(state.covariance).all()
    assert fl.valley_variance(1.0, 0.5, 2.0) == np.inf


def test_numbers_of_the_valley():
    assert fl.valley_variance(0.4, 0.01, 1.3) == pytest.approx(0.0020263, abs=1e-7)
    # One step of the recursion keeps the variance.
    v = fl.valley_variance(0.4, 0.1, 1.3)
    assert (1 - 0.26) ** 2 * v + 0.01 * 2 * 0.4 * 1.3 == pytest.approx(v)
    slopes = np.array([[1.0, 2.0], [0.5, -1.0]])
    assert 2 * fl.valley_drift(slopes, 0.7, 0.1).sum() == pytest.approx(-0.7 * 0.01 * (1.5**2 + 1))


@pytest.mark.parametrize(("half", "mass"), [(200, 0.7984), (400, 0.7992)])
def test_numbers_of_the_ring(half, mass):
    law = fl.ring_walk(np.repeat([1, 2], half))
    assert law[:half].sum() == pytest.approx(mass, abs=5e-5)
    assert law[:half].sum() == pytest.approx(4 * half / (5 * half + 2), abs=1e-10)
    middle = np.arange(half // 4, 3 * half // 4)
    assert law[middle].sum() / law[half + middle].sum() == pytest.approx(4, abs=5 / half)
    assert law.min() > 0


def test_equal_strides_give_an_equal_law():
    np.testing.assert_allclose(fl.ring_walk(np.full(9, 2)), 1 / 9)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fl.ring_walk(np.full(4, 2)), "separate parts, so there is more than one"),
        (lambda: fl.ring_walk(np.array([1, 0, 1])), "at least 1"),
        (lambda: fl.ring_walk(np.array([1.0, 2.0])), "whole numbers"),
        (lambda: fl.noise_matrices(np.ones((3, 2)), 4), "larger than the data"),
        (lambda: fl.noise_matrices(np.ones(3), 1), "one row per sample"),
        (lambda: fl.stationary(np.ones((4, 2)), np.ones(4), 0.1, 1), "rank 2"),
        (lambda: fl.stationary(np.ones((4, 1)), np.ones(3), 0.1, 1), "one row per sample"),
        (lambda: fl.valley_variance(-1.0, 0.1, 1.0), "`alpha`"),
        (lambda: fl.valley_drift(np.ones(2), 1.0, 0.1), "one gradient per row"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("batch", [1, 2])
def test_the_stationary_covariance_is_that_of_all_batches_as_random_steps(batch):
    """By another way: every batch is an affine step with its chance."""
    rng = np.random.default_rng(batch)
    x, y, lr = rng.normal(size=(4, 2)), rng.normal(size=4), 0.1
    rows = [list(chosen) for chosen in itertools.combinations(range(4), batch)]
    steps = linear_noise.RandomSteps(
        np.stack([np.eye(2) - lr / batch * x[b].T @ x[b] for b in rows]),
        np.stack([lr / batch * x[b].T @ y[b] for b in rows]),
        np.full(len(rows), 1 / len(rows)),
    )
    np.testing.assert_allclose(fl.stationary(x, y, lr, batch).covariance, steps.stationary().covariance, rtol=1e-10)
