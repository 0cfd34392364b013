"""Wide networks are estimators like any other."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.utils.estimator_checks import parametrize_with_checks

from secant.kernels import NNGPRegressor, NTKClassifier, NTKRegressor


@parametrize_with_checks([NTKRegressor(), NTKClassifier(), NNGPRegressor()])
def test_scikit_learn_is_content(estimator, check):
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


def test_bad_options_are_named():
    with pytest.raises(ValueError, match="`ridge` must be a number of at least 0, got -1"):
        NTKRegressor(ridge=-1).fit(np.eye(3), np.arange(3.0))
