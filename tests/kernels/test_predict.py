"""Training on a kernel against matrix exponentials, explicit steps and other libraries."""

import math

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import linalg, stats

import secant as sc
from secant import nets
from secant.kernels import SingularKernelError, label_complexity, log_evidence, posterior, training


@pytest.fixture(scope="module")
def data():
    with jax.enable_x64(True):
        net = nets.mlp([8, 8], activation="relu", bias=True)
        x = np.random.default_rng(0).normal(size=(12, 4))
        y = np.stack([x[:, 0] * x[:, 1], np.sin(x[:, 2])], 1)
        whole = jax.tree.map(np.asarray, sc.kernel(net, x))
        parts = ((slice(8), slice(8)), (slice(8, 12), slice(8)), (slice(8, 12), slice(8, 12)))
        cut = [whole._replace(nngp=whole.nngp[part], ntk=whole.ntk[part]) for part in parts]
        return *cut, y[:8], y[8:]


def test_flow_is_the_matrix_exponential(data):
    train, between, _, y, _ = data
    run = training(train.ntk, y)
    start, start_test = 0.3 * np.ones_like(y), 0.1
    for time in (0.0, 0.7, 30.0):
        decay = linalg.expm(-np.asarray(train.ntk) * time)
        assert_allclose(run.train(time, start), y + decay @ (start - y), atol=1e-12)
        moved = np.linalg.solve(train.ntk, (np.eye(8) - decay) @ (y - start))
        assert_allclose(run.test(time, between.ntk, start, start_test), start_test + between.ntk @ moved, atol=1e-11)
    assert_allclose(run.test(math.inf, between.ntk), between.ntk @ np.linalg.solve(train.ntk, y), atol=1e-10)
    assert_allclose(run.train(math.inf), y, atol=1e-14)


def test_descent_is_its_steps(data):
    train, between, _, y, _ = data
    step = 1.9 / float(np.linalg.eigvalsh(train.ntk)[-1])
    run = training(train.ntk, y[:, 0], step=step)
    assert run.largest_step > step
    f, elsewhere = np.zeros(8), np.zeros(4)
    for _ in range(25):
        apart = np.asarray(y[:, 0]) - f
        f, elsewhere = f + step * train.ntk @ apart, elsewhere + step * between.ntk @ apart
    assert_allclose(run.train(25), f, atol=1e-12)
    assert_allclose(run.test(25, between.ntk), elsewhere, atol=1e-12)
    with pytest.raises(ValueError, match="diverges; use one below"):
        training(train.ntk, y, step=3 * step).train(math.inf)


def test_an_ensemble_is_that_of_trained_random_networks(data):
    """Outputs at the start drawn from their Gaussian, each trained: an independent path to mean and covariance."""
    train, between, test, y, _ = data
    run = training(train.ntk, y[:, 0])
    found = run.ensemble(2.0, train, between, test)
    whole = np.block([[train.nngp, np.asarray(between.nngp).T], [between.nngp, test.nngp]])
    # The map from outputs at the start to outputs elsewhere is linear: its covariance is exact.
    pull = np.stack([run.test(2.0, between.ntk, start) - run.test(2.0, between.ntk) for start in np.eye(8)], 1)
    by_hand = np.concatenate([pull, np.eye(4)], 1)
    assert_allclose(found.covariance, by_hand @ whole @ by_hand.T, atol=1e-11)
    assert_allclose(found.mean, run.test(2.0, between.ntk), atol=1e-14)


def test_posterior_and_evidence(data):
    train, between, test, y, _ = data
    whole = np.asarray(train.nngp) + 0.1 * np.eye(8)
    found = posterior(train.nngp, between.nngp, test.nngp, y, noise=0.1)
    assert_allclose(found.mean, between.nngp @ np.linalg.solve(whole, y), atol=1e-12)
    assert_allclose(
        found.covariance, test.nngp - between.nngp @ np.linalg.solve(whole, np.asarray(between.nngp).T), atol=1e-12
    )
    density = stats.multivariate_normal(np.zeros(8), whole)
    assert_allclose(log_evidence(train.nngp, y, noise=0.1), sum(density.logpdf(np.asarray(y).T)), rtol=1e-12)
    weight = np.asarray(y[:, 0]) @ np.linalg.solve(train.ntk, y[:, 0])
    assert_allclose(label_complexity(train.ntk, y[:, 0]), np.sqrt(2 * weight * np.trace(train.ntk)) / 8, rtol=1e-10)


def test_evidence_has_its_slope_in_the_variances(data):
    net = nets.mlp([8], activation="erf", bias=True)
    x = np.random.default_rng(1).normal(size=(6, 3))
    evidence = jax.jit(
        jax.value_and_grad(
            lambda v: log_evidence(sc.kernel(net, x, variances=[(v, 0.1), (1.0, 0.1)]).nngp, x[:, 0], noise=0.1)
        )
    )
    ahead, behind = (float(evidence(1.3 + step)[0]) for step in (1e-5, -1e-5))
    assert_allclose(evidence(1.3)[1], (ahead - behind) / 2e-5, rtol=1e-6)


def test_a_singular_kernel_is_never_inverted(data):
    train, _, _, y, _ = data
    twice = np.block([[train.ntk, train.ntk[:, :1]], [train.ntk[:1], train.ntk[:1, :1]]])
    labels = np.concatenate([y, y[:1]])
    for call in (
        lambda: posterior(twice, np.ones((2, 9)), np.eye(2), labels),
        lambda: log_evidence(twice, labels),
        lambda: label_complexity(twice, labels[:, 0]),
        lambda: training(twice, labels).train(math.inf),
    ):
        with pytest.raises(SingularKernelError, match=r"condition number is .* Use a ridge of") as caught:
            call()
    assert np.isfinite(log_evidence(twice, labels, noise=caught.value.ridge))
    assert np.isfinite(training(twice, labels).train(5.0)).all()  # finite times need no inverse


def test_bad_arguments_are_named(data):
    train, _, _, y, _ = data
    for match, call in (
        (r"shape \(n, n\)", lambda: training(train.ntk[:3], y)),
        ("one row for each of 8", lambda: training(train.ntk, y[:3])),
        ("finite", lambda: training(train.ntk, y * np.nan)),
        ("`step`", lambda: training(train.ntk, y, step=-1.0)),
        ("at least 0", lambda: log_evidence(train.ntk, y, noise=-1.0)),
    ):
        with pytest.raises(ValueError, match=match):
            call()
