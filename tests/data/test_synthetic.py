"""The targets' important directions are what their gradients say."""

import jax
import numpy as np
import pytest

from secant.data import TARGETS, quadratic_sample, regression, single_sample, sphere, two_clusters
from secant.theory.regression.quadratic_model import quadratic_jacobian

DRAWS, DIM = 50_000, 12
COUNT = 2_000


@pytest.fixture(scope="module")
def drawn():
    """Values and gradients of every target at Gaussian inputs."""
    x = np.random.default_rng(0).normal(size=(DRAWS, DIM))
    both = {name: jax.vmap(jax.value_and_grad(target.function)) for name, target in TARGETS.items()}
    with jax.enable_x64(True):
        return jax.device_get(jax.jit(lambda x: {name: f(x) for name, f in both.items()})(x))


@pytest.mark.parametrize("name", TARGETS)
def test_the_gradient_outer_product_matches_its_closed_form(drawn, name):
    gradients = drawn[name][1]
    mean, square = gradients.T @ gradients / DRAWS, (gradients**2).T @ gradients**2 / DRAWS
    error = np.sqrt(np.maximum(square - mean**2, 0) / DRAWS)
    # 144 entries: five standard errors leave a chance of about 1e-4 for any of them
    np.testing.assert_array_less(np.abs(mean - TARGETS[name].egop(DIM)), 5 * error + 1e-12)


@pytest.mark.parametrize(
    ("name", "eigenvalues"),
    [("rank-2", [1, 1]), ("rank-3", [24, 10, 4]), ("rank-4", [4, 3, 2, 1]), ("full-rank", [1e-4] * 100)],
)
def test_the_gradient_outer_product_has_the_rank_in_its_name(name, eigenvalues):
    found = np.linalg.eigvalsh(TARGETS[name].egop(100))[::-1]
    np.testing.assert_allclose(found, np.pad(np.array(eigenvalues, float), (0, 100 - len(eigenvalues))), atol=1e-12)


@pytest.mark.parametrize("name", [name for name, target in TARGETS.items() if target.variance is not None])
def test_the_variance_matches_its_closed_form(drawn, name):
    values = drawn[name][0]
    squares = (values - values.mean()) ** 2
    assert abs(squares.mean() - TARGETS[name].variance) < 5 * squares.std() / np.sqrt(DRAWS)


def test_regression_data_is_the_target_plus_noise():
    options = {"samples": COUNT, "test_samples": COUNT, "dim": 4}
    noisy, clean = (regression("rank-4", jax.random.key(2), **options, noise=noise) for noise in (0.1, 0.0))
    assert noisy.validation is None
    for part in ("train", "test"):
        np.testing.assert_array_equal(getattr(noisy, part).x, getattr(clean, part).x)
        np.testing.assert_allclose(getattr(clean, part).y, np.cumprod(getattr(clean, part).x, axis=1).sum(axis=1))
        spread = (getattr(noisy, part).y - getattr(clean, part).y).std()
        assert spread == pytest.approx(0.1, abs=5 * 0.1 / np.sqrt(2 * COUNT))
    assert noisy.recipe == {
        "data": "rank-4",
        "samples": COUNT,
        "validation_samples": 0,
        "test_samples": COUNT,
        "dim": 4,
        "noise": 0.1,
        "key": [0, 2],
    }


def test_validation_data_is_more_of_the_same():
    options = {"samples": COUNT, "test_samples": COUNT, "dim": 4}
    plain = regression("rank-4", jax.random.key(0), **options)
    task = regression("rank-4", jax.random.key(0), **options, validation_samples=COUNT)
    np.testing.assert_array_equal(plain.train.x, task.train.x)
    np.testing.assert_array_equal(plain.test.y, task.test.y)
    inputs = np.concatenate([part.x for part in (task.train, task.validation, task.test)])
    assert len(np.unique(inputs, axis=0)) == 3 * COUNT
    noise = task.validation.y - np.cumprod(task.validation.x, axis=1).sum(axis=1)
    assert noise.std() == pytest.approx(0.1, abs=5 * 0.1 / np.sqrt(2 * COUNT))


def test_clusters_are_balanced():
    x, y = two_clusters(jax.random.key(0), samples=128)
    assert x.shape == (128, 1)
    assert y.sum() == 0
    assert np.mean(x[:, 0] * y) == pytest.approx(2.0, abs=5 / np.sqrt(128))


def test_points_on_the_sphere_point_anywhere_and_one_is_longer():
    x, y = sphere(jax.random.key(0), samples=4000, dim=5, which=7)
    length = np.linalg.norm(x, axis=1)
    np.testing.assert_allclose(length, np.where(np.arange(4000) == 7, 2, 1), rtol=1e-14)
    np.testing.assert_allclose(y, length, rtol=1e-14)
    directions = x / length[:, None]
    # uniform: mean 0 and covariance I/5; coordinates squared have variance 2(d - 1)/(d^2(d + 2))
    assert np.abs(directions.mean(axis=0)).max() < 5 * np.sqrt(1 / 5 / 4000)
    spread = np.sqrt(2 * 4 / (25 * 7) / 4000)
    assert np.abs(directions.T @ directions / 4000 - np.eye(5) / 5).max() < 5 * spread


def test_a_single_sample_is_gaussian():
    x, y = single_sample(jax.random.key(0), dim=10_000, y=0.5)
    assert x.shape == (1, 10_000)
    np.testing.assert_array_equal(y, [0.5])
    assert abs((x**2).mean() - 1) < 5 * np.sqrt(2 / 10_000)


def test_a_quadratic_sample_starts_with_a_kernel_of_one():
    features, second, y = quadratic_sample(jax.random.key(0), y=2.0)
    assert (features.shape, second.shape, y.tolist()) == ((1, 100), (1, 100, 100), [2.0])
    np.testing.assert_array_equal(second[0] @ second[0], np.eye(100))
    assert abs(np.trace(second[0])) < 5 * np.sqrt(100)
    w = jax.device_put(np.random.default_rng(1).normal(size=100))
    assert float(np.sum(quadratic_jacobian(w, features, second, 0.0) ** 2)) == pytest.approx(1, rel=1e-14)


REGRESSION = {"target": "rank-3", "samples": 3, "test_samples": 3}


@pytest.mark.parametrize(
    ("function", "options", "message"),
    [
        (regression, REGRESSION | {"target": "rank-7"}, "unknown target 'rank-7'"),
        (regression, REGRESSION | {"dim": 5}, "needs `dim` of at least 10, got 5"),
        (regression, REGRESSION | {"samples": 0}, "`samples` must be a whole number of at least 1, got 0"),
        (regression, REGRESSION | {"test_samples": 1.5}, "`test_samples` must be a whole number"),
        (regression, REGRESSION | {"validation_samples": -1}, "`validation_samples` must be .* at least 0"),
        (regression, REGRESSION | {"noise": -0.1}, "`noise` must be a standard deviation"),
        (regression, REGRESSION | {"noise": float("nan")}, "`noise` must be a standard deviation"),
        (two_clusters, {"samples": 3}, "`samples` must be even"),
        (two_clusters, {"samples": 0}, "`samples` must be a whole number of at least 2"),
        (sphere, {"samples": 0}, "`samples` must be"),
        (sphere, {"dim": 0}, "`dim` must be"),
        (sphere, {"which": 100}, "`which` must be one of the 100 samples"),
        (sphere, {"scale": 0.0}, "`scale` must be a positive number"),
        (single_sample, {"dim": 0}, "`dim` must be"),
        (quadratic_sample, {"dim": 2.0}, "`dim` must be"),
    ],
)
def test_bad_input_is_refused_by_name(function, options, message):
    with pytest.raises(ValueError, match=message):
        function(key=jax.random.key(0), **options)
