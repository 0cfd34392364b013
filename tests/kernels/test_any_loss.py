"""Training on any loss: closed forms where there are any, another integrator, and what is refused."""

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import solve_ivp
from scipy.special import expit, softmax

import secant as sc
from secant import losses, nets
from secant.kernels import training, training_on

NET = nets.mlp([32], activation="erf", bias=True)
X = np.random.default_rng(0).normal(size=(7, 3))
with jax.enable_x64(True):
    K = np.asarray(sc.kernel(NET, X).ntk)
TIMES = [0.0, 0.3, 2.0, 11.0]


def test_the_squared_loss_is_its_closed_form():
    y, start, elsewhere = (np.random.default_rng(seed).normal(size=(5 - (seed == 2) * 3, 2)) for seed in (0, 1, 2))
    found = training_on(losses.half_sum, K[:5, :5], y, TIMES, between=K[5:, :5], start=start, start_test=elsewhere)
    run = training(K[:5, :5], y)
    for time, train, test, loss in zip(TIMES, found.train, found.test, found.loss, strict=True):
        assert_allclose(train, run.train(time, start), atol=1e-7)
        assert_allclose(test, run.test(time, K[5:, :5], start, elsewhere), atol=1e-7)
        assert_allclose(loss, np.sum((train - y) ** 2) / 2, rtol=1e-12)


@pytest.mark.parametrize("name", ["cross_entropy", "binary_cross_entropy"])
def test_other_losses_are_those_of_another_integrator(name):
    labels = np.eye(3)[[0, 1, 2, 1, 0]]
    of = {"cross_entropy": lambda f: softmax(f, 1) / 5, "binary_cross_entropy": lambda f: expit(f) / 15}[name]
    targets = {"cross_entropy": labels / 5, "binary_cross_entropy": labels / 15}[name]
    rows = np.concatenate([K[:5, :5], K[5:, :5]])

    def field(_, f):
        return -(rows @ (of(f.reshape(7, 3)[:5]) - targets)).ravel()

    expected = solve_ivp(field, (0, TIMES[-1]), np.zeros(21), "DOP853", TIMES, rtol=1e-11, atol=1e-12).y.T
    found = training_on(name, K[:5, :5], labels, TIMES, between=K[5:, :5])
    assert_allclose(np.concatenate([found.train, found.test], 1).reshape(4, -1), expected, atol=1e-7)
    if name == "cross_entropy":  # of the samples alone, and from a later time on: for one loss as for any
        assert_allclose(training_on(name, K[:5, :5], labels, TIMES[1:]).train, found.train[1:], atol=1e-7)


def test_a_wide_network_follows_it():
    """Cross-entropy of a network of width 4,096 against the limit: within ten times 1/sqrt(width) of what it moves."""
    labels, x = np.eye(2)[[0, 1, 1, 0, 1]], X[:5]
    net = nets.mlp([4_096], 2, activation="erf", bias=True)

    def step(params, _):
        slopes = jax.grad(lambda p: losses.cross_entropy(net.apply(p, x), labels))(params)
        return jax.tree.map(lambda p, g: p - 0.03 * g, params, slopes), None

    @jax.jit
    def run(key):
        params = net.init(key, x.shape)
        return net.apply(params, x), net.apply(jax.lax.scan(step, params, length=100)[0], x)

    start, end = map(np.asarray, run(jax.random.key(0)))
    found = training_on("cross_entropy", K[:5, :5], labels, [0.0, 3.0], start=start)
    moved = np.abs(found.train[1] - start).max()
    assert moved > 0.2
    assert_allclose(end, found.train[1], atol=10 * moved / 64)


def test_bad_input_is_named():
    y = np.ones(7)
    with pytest.raises(ValueError, match="`times` must be rising"):
        training_on("mse", K, y, [1.0, 0.5])
    with pytest.raises(ValueError, match=r"`between` must have shape \(m, 7\)"):
        training_on("mse", K, y, [1.0], between=K[:, :3])
    with pytest.raises(ValueError, match="unknown loss"):
        training_on("msee", K, y, [1.0])
    with pytest.raises(ValueError, match="do not stay finite"):
        training_on("half_sum", -1e3 * K, y, [1e3])
