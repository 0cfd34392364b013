"""Second moments of SGD, against the map over all batches written out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secant.theory.noise import mean_square as ms


def kernel(random, rows, rank=None):
    features = random.normal(size=(rows, rank or rows)) * np.exp(random.normal(size=rank or rows))
    return features @ features.T


def radius(K, lr, batch, **law):
    """The spectral radius of the map on matrices over the range of the kernel."""
    values, U = np.linalg.eigh(K)
    U = U[:, values > 1e-10 * values[-1]]
    both = np.kron(U, U)
    return np.abs(np.linalg.eigvals(both.T @ ms.dense_map(K, lr, batch, **law) @ both)).max()


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.data())
def test_the_map_over_all_batches_has_spectral_radius_one_there(seed, data):
    outputs = data.draw(st.sampled_from([1, 1, 2]))
    n = data.draw(st.integers(1, 5 if outputs == 1 else 3))
    law = {"outputs": outputs, "sampling": data.draw(st.sampled_from(["fixed", "iid", "bernoulli"]))}
    batch = data.draw(st.integers(1, n))
    K = kernel(np.random.default_rng(seed), n * outputs, data.draw(st.integers(1, n * outputs)))
    found = ms.critical_step(K, batch, tol=1e-12, **law)
    assert radius(K, found.step, batch, **law) == pytest.approx(1, abs=1e-9)
    assert radius(K, 0.9 * found.step, batch, **law) < 1
    assert found.step <= found.full * (1 + 1e-9)


def test_closed_cases():
    random = np.random.default_rng(0)
    K = kernel(random, 6)
    assert ms.critical_step(K, 6).step == pytest.approx(12 / np.linalg.eigvalsh(K)[-1], rel=1e-9)
    unit = K / np.sqrt(np.outer(np.diag(K), np.diag(K)))
    assert ms.critical_step(2.5 * unit, 1).step == pytest.approx(2 / 2.5, rel=1e-9)
    assert ms.critical_step(np.ones((4, 4)), 2).ratio == pytest.approx(1)  # all samples alike: there is no noise
    assert ms.critical_step(np.zeros((3, 3)), 2).step == np.inf


def test_larger_batches_bear_larger_steps():
    K = kernel(np.random.default_rng(1), 12)
    steps = [ms.critical_step(K, batch).step for batch in range(1, 13)]
    assert (np.diff(steps) > 0).all()
    found = ms.critical_step(K, 3, tol=1e-10)
    assert found.products < 40
    assert found.error <= 1e-10


def test_almost_surely_more_is_borne_than_in_the_mean_square():
    K = kernel(np.random.default_rng(2), 8)
    step = ms.critical_step(K, 2).step
    growth = ms.lyapunov_exponent(K, step, 2, steps=400, runs=8)
    assert growth.value + 3 * growth.error < 0
    full = ms.lyapunov_exponent(K, 0.9 * ms.critical_step(K, 8).step, 8, steps=200, runs=2)
    shrink = np.abs(1 - 0.9 * ms.critical_step(K, 8).step / 8 * np.linalg.eigvalsh(K)).max()
    assert full.value == pytest.approx(np.log(shrink), abs=0.02)


@pytest.mark.parametrize("sampling", ["fixed", "iid", "bernoulli"])
@pytest.mark.parametrize("amplify", [1.0, 3.0])
def test_mean_losses_are_those_over_all_pairs_of_batches(sampling, amplify):
    rng = np.random.default_rng(3)
    K, r, lr, n = kernel(rng, 4), rng.normal(size=4), 0.7, 4
    drawn, chance = ms.batches_of(n, 2, sampling)
    a, b = (1 + np.array([1, -1]) * np.sqrt(2 * amplify - 1)) / 2
    M, exact = np.outer(r, r), []
    for _ in range(3):
        exact.append(np.trace(M) / (2 * n))
        steps = [
            (p * q, np.eye(n) - lr / (2 * amplify) * K * (a * s + b * t))
            for s, p in zip(drawn, chance, strict=True)
            for t, q in zip(drawn, chance, strict=True)
        ]
        M = sum(weight * step @ M @ step.T for weight, step in steps)
    found = ms.mean_losses(K, r, np.array([lr, 2 * lr]), 2, 2, amplify=amplify, sampling=sampling)
    np.testing.assert_allclose(found[0], exact, rtol=1e-12)
    np.testing.assert_allclose(found[1], ms.mean_losses(K, r, 2 * lr, 2, 2, amplify=amplify, sampling=sampling))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ms.critical_step(np.eye(3), 4), "a `batch` of 4 is larger than the data"),
        (lambda: ms.critical_step(np.eye(3), 0), "`batch` must be"),
        (lambda: ms.critical_step(np.eye(3), 1, outputs=2), "not a multiple of `outputs`"),
        (lambda: ms.critical_step(np.ones((2, 3)), 1), "square matrix"),
        (lambda: ms.critical_step(-np.eye(3), 1), "no negative eigenvalue"),
        (lambda: ms.critical_step(np.triu(np.ones((3, 3))), 1), "symmetric"),
        (lambda: ms.critical_step(np.eye(3), 1, sampling="all"), "`sampling` must be"),
        (lambda: ms.batches_of(40, 20), "too many to list"),
        (lambda: ms.mean_losses(np.eye(3), np.ones(2), 0.1, 1, 2), "`residual` must have 3 entries"),
        (lambda: ms.mean_losses(np.eye(3), np.ones(3), 0.1, 1, 2, amplify=0.5), "`amplify` must be at least 1"),
        (lambda: ms.mean_losses(np.eye(3), np.ones(3), -0.1, 1, 2), "`lr` must be"),
        (lambda: ms.lyapunov_exponent(np.eye(3), -1.0, 1), "`lr` must be"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
