import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

from secant import Probe, simulate
from secant.theory.bias import diagonal
from secant.theory.bias.interpolants import min_norm


def data(seed, n=3, d=6):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, X @ rng.normal(size=d)


@given(st.integers(2, 6), st.floats(0.2, 3), st.floats(-1, 1))
def test_parameters_obey_their_flow_and_keep_what_they_keep(depth, alpha, place):
    edge = 0.5 if depth == 2 else alpha ** (2 - depth) / (depth * (depth - 2))
    s, h = 0.9 * edge * place, 1e-6 * edge
    u, v = diagonal.parameters(s, alpha, depth)
    (up, vp), (um, vm) = (diagonal.parameters(s + k * h, alpha, depth) for k in (1, -1))
    np.testing.assert_allclose((up - um) / (2 * h), depth * u ** (depth - 1), rtol=1e-5)
    np.testing.assert_allclose((vp - vm) / (2 * h), -depth * v ** (depth - 1), rtol=1e-5)
    np.testing.assert_allclose(diagonal.conserved(u, v, depth), diagonal.conserved(alpha, alpha, depth), rtol=1e-10)


@settings(max_examples=15, deadline=None)
@given(st.integers(2, 5), st.floats(0.2, 2), st.integers(0, 1000))
def test_the_potential_is_consistent(depth, alpha, seed):
    w = np.random.default_rng(seed).normal(size=4)
    R = diagonal.potential(alpha, depth)
    s = R.gradient(w)
    np.testing.assert_allclose(R.inverse(s), w, rtol=1e-8, atol=1e-10)
    h = 1e-5
    np.testing.assert_allclose(R.slope(s, np.ones(4)), 2 * h / (R.gradient(w + h) - R.gradient(w - h)), rtol=1e-4)
    slopes = [(R.value(w + h * e) - R.value(w - h * e)) / (2 * h) for e in np.eye(4)]
    np.testing.assert_allclose(slopes, s, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("depth", [2, 3, 4])
def test_the_limit_is_the_end_of_the_flow_of_all_parameters(depth):
    X, y = data(depth)
    d = X.shape[1]

    def field(_, theta):
        u, v = theta[:d], theta[d:]
        g = X.T @ (X @ (u**depth - v**depth) - y)
        return np.concatenate([-depth * u ** (depth - 1) * g, depth * v ** (depth - 1) * g])

    end = solve_ivp(field, (0, 1e3), np.full(2 * d, 0.5), method="LSODA", rtol=1e-11, atol=1e-13).y[:, -1]
    np.testing.assert_allclose(diagonal.limit(X, y, 0.5, depth), end[:d] ** depth - end[d:] ** depth, atol=1e-8)


def test_the_size_of_the_start_leads_from_one_norm_to_the_other():
    X, y = data(7)
    np.testing.assert_allclose(diagonal.limit(X, y, 1e3), min_norm(X, y, 2), atol=1e-9)
    small, least = np.abs(diagonal.limit(X, y, 1e-8)).sum(), np.abs(min_norm(X, y, 1)).sum()
    assert least - 1e-9 <= small <= 1.05 * least


@settings(max_examples=1, deadline=None)
@given(st.integers(0, 10_000))
def test_gradient_descent_ends_where_its_gains_say(seed):
    """Fifty problems at once, of all step sizes up to the critical one; some change signs on the way."""
    rng = np.random.default_rng(seed)
    X, alpha = rng.normal(size=(50, 3, 6)), 10 ** rng.uniform(-1, 0.3, (50, 1))
    y = np.einsum("kni,ki->kn", X, rng.normal(size=(50, 6)))
    flows = np.stack([diagonal.limit(*one) for one in zip(X, y, alpha, strict=True)])
    bend = (X * 4 * np.sqrt(flows**2 + 4 * alpha**4)[:, None]) @ X.transpose(0, 2, 1)
    lr = rng.uniform(0.05, 0.95, (50, 1)) * 2 / np.linalg.eigvalsh(bend)[:, -1:]

    def descent(k):
        return diagonal.descent(jnp.asarray(X)[k], jnp.asarray(y)[k], jnp.asarray(lr)[k], jnp.asarray(alpha)[k])

    run = simulate(descent, None, 4000, over={"k": np.arange(50)}, probes={"w": Probe(lambda s: s.w, every=4000)}).state
    missed = np.abs(np.einsum("kni,ki->kn", X, run.w) - y).max(1)
    settled = np.flatnonzero(missed < 1e-8)
    assert len(settled) > 25
    for k in settled:
        one = diagonal.Descent(*(np.asarray(part[k]) for part in run))
        np.testing.assert_allclose(one.w, diagonal.law(one, X[k], y[k], alpha[k]), atol=1e-6)
        np.testing.assert_allclose(np.log(np.abs(one.u * one.v)), 2 * np.log(alpha[k]) + one.log_gain, atol=1e-9)
    assert np.abs(run.w - flows)[settled].max() > 1e-2  # which is not where the flow ends


def test_a_step_is_one_of_gradient_descent():
    X, y = data(5)
    u, v = np.random.default_rng(1).normal(size=(2, 6))
    moved = diagonal.step(diagonal.Descent(u, v, np.zeros(6), np.zeros(6)), X, y, 0.02)
    pull = 2 * X.T @ (X @ (u**2 - v**2) - y)  # of half the squared residual, by u and by v up to these factors
    np.testing.assert_allclose(moved.u, u - 0.02 * u * pull, atol=1e-12)
    np.testing.assert_allclose(moved.v, v + 0.02 * v * pull, atol=1e-12)
    a = 0.02 * pull
    np.testing.assert_allclose(moved.shift, np.log(np.abs((1 - a) / (1 + a))) + 2 * a, atol=1e-12)


def test_the_map_is_the_step():
    X, y = data(9)
    by_hand = diagonal.begin(0.3, (6,))
    for _ in range(5):
        by_hand = diagonal.step(by_hand, X, y, 0.01)
    run = simulate(diagonal.descent(X, y, 0.01, 0.3), None, 5, probes={"w": lambda state: state.w})
    np.testing.assert_allclose(run.dataset.w[-1], by_hand.w, atol=1e-14)
    assert isinstance(run.state.log_gain, jnp.ndarray)


def test_bad_numbers_are_named():
    X, y = data(0)
    for alpha in (0.0, -1.0, np.nan):
        with pytest.raises(ValueError, match="`alpha`"):
            diagonal.weights(0.1, alpha)
    with pytest.raises(ValueError, match="`depth`"):
        diagonal.limit(X, y, 1.0, depth=1)
