"""The targets' important directions are what their gradients say."""

import jax
import numpy as np
import pytest

from secant.data import TARGETS, regression, two_clusters

DRAWS = 200_000


@pytest.mark.parametrize("name", TARGETS)
def test_the_gradient_outer_product_matches_its_closed_form(name):
    target, dim = TARGETS[name], 12
    x = jax.random.normal(jax.random.key(0), (DRAWS, dim))
    gradients = np.asarray(jax.vmap(jax.grad(target.function))(x))
    products = gradients[:, :, None] * gradients[:, None, :]
    error = products.std(axis=0) / np.sqrt(DRAWS)
    # 144 entries: five standard errors leave a chance of about 1e-4 for any of them
    np.testing.assert_array_less(np.abs(products.mean(axis=0) - target.egop(dim)), 5 * error + 1e-12)


@pytest.mark.parametrize("name", [name for name, target in TARGETS.items() if target.variance is not None])
def test_the_variance_matches_its_closed_form(name):
    values = np.asarray(jax.vmap(TARGETS[name].function)(jax.random.normal(jax.random.key(1), (DRAWS, 12))))
    squares = (values - values.mean()) ** 2
    assert abs(squares.mean() - TARGETS[name].variance) < 5 * squares.std() / np.sqrt(DRAWS)


def test_regression_data_is_the_target_plus_noise():
    noisy, clean = (
        regression("rank-4", jax.random.key(2), samples=20_000, test_samples=5, noise=noise) for noise in (0.1, 0.0)
    )
    np.testing.assert_array_equal(noisy.train.x, clean.train.x)
    spread = (noisy.train.y - clean.train.y).std()
    assert spread == pytest.approx(0.1, abs=5 * 0.1 / np.sqrt(2 * 20_000))
    assert noisy.recipe == {"data": "rank-4", "samples": 20_000, "test_samples": 5, "dim": 100, "noise": 0.1}


def test_clusters_are_balanced():
    x, y = two_clusters(jax.random.key(0), samples=128)
    assert x.shape == (128, 1)
    assert y.sum() == 0
    assert np.mean(x[:, 0] * y) == pytest.approx(2.0, abs=5 / np.sqrt(128))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "rank-7"}, "unknown target 'rank-7'"),
        ({"dim": 5}, "needs `dim` of at least 10, got 5"),
        ({"samples": 0}, "at least one sample"),
    ],
)
def test_bad_input_is_refused_by_name(options, message):
    arguments = {"target": "rank-3", "key": jax.random.key(0), "samples": 3, "test_samples": 3} | options
    with pytest.raises(ValueError, match=message):
        regression(**arguments)


def test_an_odd_number_of_points_has_no_halves():
    with pytest.raises(ValueError, match="must be even"):
        two_clusters(jax.random.key(0), samples=3)
