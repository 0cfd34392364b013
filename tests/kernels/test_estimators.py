"""Wide networks are estimators like any other."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.utils.estimator_checks import parametrize_with_checks

import secant as sc
from secant import nets
from secant.kernels import NNGPRegressor, NTKClassifier, NTKRegressor, SingularKernelError, estimators, posterior

PLAIN = nets.mlp([8], activation="identity", bias=True)


# Its checks are of the estimators, and of inputs of fifty shapes, of which each is compiled: the plainest network.
@parametrize_with_checks([NTKRegressor(), NTKClassifier(), NNGPRegressor()])
def test_scikit_learn_is_content(estimator, check, monkeypatch):
    monkeypatch.setattr(estimators, "_default", lambda: PLAIN)
    check(estimator)


def test_a_product_is_learnt():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 3))
    y = x[:, 0] * np.tanh(x[:, 1])
    assert NTKRegressor().fit(x[:60], y[:60]).score(x[60:], y[60:]) > 0.5
    mean, spread = NNGPRegressor(ridge=1e-6).fit(x[:60], y[:60]).predict(x, return_std=True)
    assert_allclose(mean[:60], y[:60], atol=0.05)
    assert spread[:60].max() < spread[60:].min()
    labels = np.array(["a", "b", "c"])[np.digitize(y, [-0.2, 0.2])]
    assert NTKClassifier().fit(x[:60], labels[:60]).score(x[60:], labels[60:]) > 0.5


def test_a_gaussian_process_is_its_posterior():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(12, 2)), rng.normal(size=12)
    net = nets.mlp([64], activation="erf", bias=True)
    mean, spread = NNGPRegressor(net, ridge=0.1).fit(x[:8], y[:8]).predict(x[8:], return_std=True)
    k = np.asarray(sc.kernel(net, (x - x[:8].mean(0)) / x[:8].std(), only="nngp").nngp)
    noise = 0.1 * np.mean(np.diagonal(k[:8, :8]))
    expected = posterior(k[:8, :8], k[8:, :8], k[8:, 8:], y[:8] - y[:8].mean(), noise=noise)
    assert_allclose(mean, expected.mean + y[:8].mean(), rtol=1e-10)
    assert_allclose(spread, np.sqrt(np.diagonal(expected.covariance)), rtol=1e-8)


def test_a_singular_kernel_is_named():
    x = np.array([[0.0, 1.0], [0.0, 1.0], [1.0, 0.5]])
    with pytest.raises(SingularKernelError, match="NTKRegressor: the kernel is singular in float64: its condition"):
        NTKRegressor(ridge=0.0).fit(x, np.arange(3.0))


def test_bad_options_are_named():
    with pytest.raises(ValueError, match="`ridge` must be a number of at least 0, got -1"):
        NTKRegressor(ridge=-1).fit(np.eye(3), np.arange(3.0))
