import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

from secant import flow
from secant.theory.bias import diagonal
from secant.theory.bias.reparametrization import NotCommutingError, commutes, flow_limit, metric


def difference(theta):
    return theta["u"] ** 2 - theta["v"] ** 2


def start(alpha, d=5):
    return {"u": jnp.full(d, alpha), "v": jnp.full(d, alpha)}


def data(seed, n=2, d=5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, X @ rng.normal(size=d)


def test_the_metric_of_squares_is_twice_the_root_of_their_sum():
    theta = {"u": jnp.array([1.0, 2.0]), "v": jnp.array([0.0, 1.0])}
    np.testing.assert_allclose(metric(difference, theta), np.diag([4.0, 20.0]), atol=1e-13)


@pytest.mark.parametrize("alpha", [2.0, 0.1])
def test_the_limit_of_a_difference_of_squares_is_the_least_hypentropy(alpha):
    X, y = data(0)
    found = flow_limit(difference, start(alpha), X, y)
    np.testing.assert_allclose(found.weights, diagonal.limit(X, y, alpha), atol=1e-11)
    assert found.residual < 1e-12
    assert found.detour < 1e-8
    assert found.brackets.commute
    assert set(found.theta) == {"u", "v"}
    # What the flow keeps, and what the times mean.
    np.testing.assert_allclose(found.theta["u"] * found.theta["v"], alpha**2, rtol=1e-10)
    np.testing.assert_allclose(diagonal.weights(X.T @ found.times, alpha), found.weights, atol=1e-10)


@settings(max_examples=1, deadline=None)
@given(st.integers(0, 10_000))
def test_fifty_flows_end_in_their_limits(seed):
    """All parameters of fifty problems at once, each in units of its slowest rate, for thirty of them."""
    X, y = map(np.stack, zip(*(data(50 * seed + k) for k in range(50)), strict=True))
    alpha = np.random.default_rng(seed).uniform(0.6, 3.0, 50)
    ends = np.stack([flow_limit(difference, start(a), *one).weights for a, *one in zip(alpha, X, y, strict=True)])
    # u^2 - v^2 moves by 4 (u^2 + v^2) times its pull, which is least at the start or at the end.
    square = 2 * alpha[:, None] ** 2
    bends = [(X * 4 * size[:, None]) @ X.transpose(0, 2, 1) for size in (square + 0 * ends, np.hypot(ends, square))]
    unit = 1 / np.minimum(*(np.linalg.eigvalsh(bend)[:, 0] for bend in bends))

    def field(state, k):
        u, v = state
        pull = 2 * jnp.asarray(unit)[k] * (jnp.asarray(y)[k] - jnp.asarray(X)[k] @ (u**2 - v**2)) @ jnp.asarray(X)[k]
        return u * pull, -v * pull

    begin = lambda k: (jnp.full(5, jnp.asarray(alpha)[k]),) * 2  # noqa: E731
    u, v = flow(field, begin, 30.0, over={"k": np.arange(50)}, samples=2, rtol=1e-9, atol=1e-11).state
    np.testing.assert_allclose(u**2 - v**2, ends, atol=1e-6 * np.abs(y).max())


def test_cubes_end_where_their_flow_ends():
    X, y = data(1)
    found = flow_limit(lambda t: t[0] ** 3 - t[1] ** 3, jnp.full((2, 5), 0.5), X, y)

    def field(_, state):
        u, v = state[:5], state[5:]
        g = X.T @ (X @ (u**3 - v**3) - y)
        return np.concatenate([-3 * u**2 * g, 3 * v**2 * g])

    end = solve_ivp(field, (0, 3e3), np.full(10, 0.5), method="LSODA", rtol=1e-11, atol=1e-13).y[:, -1]
    np.testing.assert_allclose(found.weights, end[:5] ** 3 - end[5:] ** 3, atol=1e-8)


def test_matrices_under_measurements_that_commute_have_a_limit_and_others_are_refused():
    rng = np.random.default_rng(2)
    vectors = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    together = np.stack([vectors @ np.diag(values) @ vectors.T for values in np.eye(3)[:2]])
    y = np.array([1.0, 0.5])
    found = flow_limit(lambda U: U @ U.T, 0.3 * jnp.eye(3), together, y)
    # Along the measured directions eigenvalues go where they have to, the third stays.
    values = np.linalg.eigvalsh(found.weights.reshape(3, 3))
    np.testing.assert_allclose(values, [0.09, 0.5, 1.0], atol=1e-10)
    apart = rng.normal(size=(2, 3, 3))
    apart = apart + apart.swapaxes(1, 2)
    reachable = (apart * np.eye(3)).sum((1, 2))
    with pytest.raises(NotCommutingError, match="history"):
        flow_limit(lambda U: U @ U.T, 0.9 * jnp.eye(3) + 0.1, apart, reachable)
    formal = flow_limit(lambda U: U @ U.T, 0.9 * jnp.eye(3) + 0.1, apart, reachable, check=False)
    assert formal.residual < 1e-8
    assert formal.detour > 1e-6


def test_samples_may_repeat():
    X, y = data(3)
    twice = flow_limit(difference, start(0.5), np.vstack([X, X]), np.tile(y, 2))
    np.testing.assert_allclose(twice.weights, flow_limit(difference, start(0.5), X, y).weights, atol=1e-10)


def test_what_cannot_be_is_refused():
    X, y = data(4)
    with pytest.raises(ValueError, match="cannot be led"):
        flow_limit(lambda t: t**2, jnp.ones(5), np.abs(X), -np.ones(2))  # squares cannot be negative
    with pytest.raises(ValueError, match="row of 5 numbers"):
        flow_limit(difference, start(1.0), X[:, :4], y)
    with pytest.raises(ValueError, match="2 finite numbers"):
        flow_limit(difference, start(1.0), X, [1.0, np.nan])
    with pytest.raises(ValueError, match="`X` must hold finite"):
        commutes(difference, start(1.0), np.full((2, 5), np.inf))
    with pytest.raises(ValueError, match="`theta` must hold finite"):
        metric(difference, start(np.nan))
