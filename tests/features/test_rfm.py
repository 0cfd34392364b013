"""Recursive feature machines: scikit-learn's own checks, and each step against the long way round."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.utils.estimator_checks import parametrize_with_checks

import secant as sc
from secant.features import RFMClassifier, RFMRegressor, rfm


@parametrize_with_checks([RFMRegressor(), RFMClassifier()])
def test_they_are_estimators(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def product():
    x = np.random.default_rng(0).normal(size=(300, 12))
    return x, x[:, 0] * x[:, 1]


def test_without_rounds_it_is_kernel_ridge_regression(product):
    x, y = product
    ours = RFMRegressor(iterations=0, bandwidth=3.0, regularization=0.1).fit(x[:200], y[:200])

    def kernel(a, b):
        return np.exp(-np.linalg.norm(a - b) / 3.0)

    theirs = KernelRidge(alpha=0.1, kernel=kernel).fit(x[:200], y[:200] - y[:200].mean())
    np.testing.assert_allclose(ours.predict(x[200:]), theirs.predict(x[200:]) + y[:200].mean(), rtol=1e-9, atol=1e-12)


def test_the_metric_is_the_gradient_outer_product_of_the_round_before(product):
    """By automatic differentiation; where a gradient meets its own sample, the kink is left out by both."""
    x, y = product[0][:60], np.stack([product[1], product[0][:, 2]], axis=1)[:60]
    before = RFMRegressor(iterations=1, bandwidth=3.0, keep="last").fit(x, y)
    after = RFMRegressor(iterations=2, bandwidth=3.0, keep="last").fit(x, y)
    with jax.enable_x64(True):

        def f(coefficients, rows):
            apart = rows[:, None] - x[None]
            squares = jnp.einsum("ijd,de,ije->ij", apart, before.metric_, apart)
            safe = jnp.where(squares > 1e-18, squares, 1.0)
            kernel = jnp.where(squares > 1e-18, jnp.exp(-jnp.sqrt(safe) / 3.0), 1.0)
            return kernel @ coefficients

        expected = np.asarray(sc.agop(f, before.coefficients_, x))
    np.testing.assert_allclose(after.metric_ / np.trace(after.metric_), expected / np.trace(expected), atol=1e-9)


def test_the_error_of_leaving_one_out_needs_no_second_fit(product):
    x, y = product[0][:30], product[1][:30]
    machine = RFMRegressor(iterations=0, regularization=0.1, bandwidth=3.0).fit(x, y)
    residuals = []
    for i in range(30):
        kept = np.arange(30) != i
        # The intercept of all samples, which leaving one out does not change here.
        kernel = np.exp(-rfm.distances(x, x, np.eye(12)) / 3.0)
        solved = np.linalg.solve(kernel[np.ix_(kept, kept)] + 0.1 * np.eye(29), (y - y.mean())[kept])
        residuals.append(y[i] - y.mean() - kernel[i, kept] @ solved)
    assert machine.errors_ == pytest.approx([np.mean(np.square(residuals))])


def test_it_finds_the_two_features_that_matter_and_predicts_better(product):
    x, y = product
    plain = RFMRegressor(iterations=0).fit(x[:200], y[:200])
    machine = RFMRegressor().fit(x[:200], y[:200])
    assert set(np.argsort(machine.feature_importances_)[-2:]) == {0, 1}
    assert machine.feature_importances_.sum() == pytest.approx(1)
    assert machine.score(x[200:], y[200:]) > 0.95 > plain.score(x[200:], y[200:])
    assert float(sc.alignment(machine.metric_, sc.data.TARGETS["rank-2"].egop(12))) > 0.95
    scales = RFMRegressor(diagonal=True).fit(x[:200], y[:200])
    assert not (scales.metric_ - np.diag(np.diag(scales.metric_))).any()
    assert machine.best_iteration_ == int(np.argmin(machine.errors_))


def test_single_precision_stays_single(product):
    x, y = (part.astype(np.float32) for part in product)
    machine = RFMRegressor(iterations=2).fit(x[:100], y[:100])
    assert machine.metric_.dtype == machine.predict(x[100:]).dtype == np.float32
    double = RFMRegressor(iterations=2).fit(x[:100].astype(float), y[:100])
    np.testing.assert_allclose(machine.predict(x[100:]), double.predict(x[100:]), atol=0.02)


def test_constant_targets_are_predicted():
    x = np.random.default_rng(0).normal(size=(10, 3))
    assert RFMRegressor().fit(x, np.full(10, 2.0)).predict(x) == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"bandwidth": 0.0}, "`bandwidth` must be a number above 0"),
        ({"bandwidth": float("nan")}, "`bandwidth`"),
        ({"regularization": -1.0}, "`regularization`"),
        ({"iterations": 1.5}, "`iterations`"),
        ({"keep": "first"}, "`keep`"),
    ],
)
def test_bad_options_are_named(product, options, match):
    with pytest.raises(ValueError, match=match):
        RFMRegressor(**options).fit(*product)


def test_too_many_samples_are_refused_before_any_kernel_is_made(product, monkeypatch):
    monkeypatch.setattr(rfm, "available_bytes", lambda: 10_000)
    with pytest.raises(ValueError, match="Fit on at most 17 samples"):
        RFMRegressor().fit(*product)
    with pytest.raises(ValueError, match="one class only"):
        RFMClassifier().fit(product[0], np.zeros(300, int))
