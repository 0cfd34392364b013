"""Noise of chosen laws, and batches with amplified noise."""

import jax
import numpy as np
import pytest
from scipy import stats

import secant as sc
from secant.optim import noises, noisy, svag

SAMPLES, SIZE = 8, 3
X = np.random.default_rng(0).normal(size=(SAMPLES, 2))
Y = np.random.default_rng(1).normal(size=SAMPLES)
PROBLEM = sc.Problem(lambda w, x: x @ w["a"], X, Y, sc.losses.half_mean)
START = {"a": np.array([0.5, -1.0])}
GRADIENTS = X * (X @ START["a"] - Y)[:, None]
SIGMA = np.cov(GRADIENTS.T, bias=True)


def moved(rule):
    """How far one step of a rule leads from the start."""
    return rule.shown(rule.step(rule.init(START)))["a"] - START["a"]


def steps_of(rule, seeds):
    """Where one step of size 1 from the start leads, seed by seed, less the start."""
    return np.asarray(jax.jit(jax.vmap(lambda seed: moved(rule(seed))))(np.arange(seeds)))


@pytest.mark.parametrize(
    ("noise", "covariance"),
    [
        (noises.isotropic(0.5), 0.25 * np.eye(2)),
        (noises.two_point(0.5, 0.2), 0.25 * np.eye(2)),
        (noises.student(0.5, 8.0), 0.25 * np.eye(2)),
        (noises.gaussian(PROBLEM, SIZE), SIGMA / SIZE),
        (noises.matched(PROBLEM, SIZE), np.trace(SIGMA) / (2 * SIZE) * np.eye(2)),
    ],
)
def test_noise_has_mean_zero_and_its_covariance(noise, covariance):
    draws = steps_of(lambda seed: noisy(PROBLEM.objective, 1.0, noise, seed=seed), 8_000)
    mean = GRADIENTS.mean(0)
    np.testing.assert_array_less(np.abs(draws.mean(0) + mean), 4 * np.sqrt(np.diag(covariance) / 8_000) + 1e-6)
    products = ((draws - draws.mean(0))[:, :, None] * (draws - draws.mean(0))[:, None]).reshape(-1, 4)
    np.testing.assert_array_less(
        np.abs(products.mean(0) - covariance.ravel()), 4 * products.std(0) / np.sqrt(8_000) + 1e-6
    )


def test_noise_is_multiplied_by_the_step_size():
    of = jax.jit(lambda lr: moved(noisy(PROBLEM.objective, lr, noises.isotropic(0.5), seed=3)))
    np.testing.assert_allclose(of(0.5), of(1.0) / 2, rtol=1e-12)


def test_third_moments_and_tails():
    skewed = np.asarray(jax.jit(noises.two_point(1.0))(jax.random.key(0), np.zeros(100_000)))
    assert set(np.round(skewed, 4)) == {3.0, -0.3333}
    assert (skewed**3).mean() == pytest.approx(8 / 3, abs=4 * 8.5 / 100_000**0.5)
    tails = np.asarray(jax.jit(noises.student(1.0, 3.0))(jax.random.key(1), np.zeros(20_000)))
    assert stats.kstest(tails * np.sqrt(3), stats.t(3).cdf).pvalue > 1e-3


def test_bernoulli_batches_have_their_covariance():
    """Every sample by itself with chance B/n: the second moments of the gradients, not centred."""
    batches = lambda seed: sc.Batches(SIZE, seed=seed, sampling="bernoulli")  # noqa: E731
    told = {"lr": 1.0, "steps": 1, "batches": batches, "over": {"seed": np.arange(8_000)}}
    draws = np.asarray(sc.train(PROBLEM, START, **told).state["a"]) - START["a"]
    share = SIZE / SAMPLES
    covariance = (1 - share) / SIZE * GRADIENTS.T @ GRADIENTS / SAMPLES
    np.testing.assert_array_less(
        np.abs(draws.mean(0) + GRADIENTS.mean(0)), 4 * np.sqrt(np.diag(covariance) / 8_000) + 1e-6
    )
    found = np.cov(draws.T)
    np.testing.assert_allclose(found, covariance, atol=0.08 * np.abs(covariance).max())
    with pytest.raises(ValueError, match="no fixed size"):
        sc.Batches(2, sampling="bernoulli").indices(5, 0)
    with pytest.raises(ValueError, match="Bernoulli batch"):
        sc.train(PROBLEM, START, lr=0.1, steps=1, batches=batches(0), probes={"l": sc.measure.batch_loss()})


def test_amplified_noise_is_that_of_batches_times_the_amplification():
    @jax.jit
    def of(amplify):
        rule = lambda seed: svag(PROBLEM, sc.Batches(1, seed=seed, replace=True), 1.0, amplify)  # noqa: E731
        return jax.vmap(lambda seed: moved(rule(seed)))(np.arange(8_000)) * amplify

    for amplify in (2.0, 5.0):
        draws = np.asarray(of(amplify))
        products = (draws + GRADIENTS.mean(0))[:, :, None] * (draws + GRADIENTS.mean(0))[:, None]
        np.testing.assert_array_less(
            np.abs(products.mean(0) - amplify * SIGMA), 4 * products.std(0) / np.sqrt(8_000) + 1e-6
        )


def test_without_amplification_it_is_sgd():
    batches = sc.Batches(SIZE, seed=4)
    one = sc.simulate(svag(PROBLEM, batches, 0.1), START, 20).state["a"]
    other = sc.train(PROBLEM, START, lr=0.1, steps=20, batches=batches).state["a"]
    np.testing.assert_allclose(one, other, rtol=1e-6)


def test_weight_decay_of_gradient_descent():
    rule = sc.optimisers.gd(0.1, weight_decay=0.5)
    assert rule.threshold == pytest.approx(19.5)
    last = sc.simulate(rule(lambda x: 3 * x**2 / 2), 1.0, 4).state
    assert float(last) == pytest.approx((1 - 0.35) ** 4, rel=1e-6)
    assert sc.optimisers.gd(0.1, weight_decay=0) == sc.optimisers.gd(0.1)
    assert not rule.rotates  # in the span of the data the rest of the weights would not decay


def test_bad_input_is_refused_by_name():
    bad = {
        "`amplify` must be at least 1": lambda: svag(PROBLEM, sc.Batches(2), 0.1, 0.5),
        "larger than the data": lambda: svag(PROBLEM, sc.Batches(9), 0.1, 2),
        "fixed size": lambda: svag(PROBLEM, sc.Batches(2, sampling="bernoulli"), 0.1, 2),
        "`scale`": lambda: noises.isotropic(-1.0),
        "`freedom` must be above 2": lambda: noises.student(1.0, 2.0),
        "`chance`": lambda: noises.two_point(1.0, 0.0),
        "9 of 8 samples": lambda: noises.gaussian(PROBLEM, 9),
        "`noise` must be a function": lambda: noisy(PROBLEM.objective, 0.1, 0.3),
        "`weight_decay`": lambda: sc.optimisers.gd(0.1, weight_decay=-1.0),
        "`sampling`": lambda: sc.Batches(2, sampling="poisson"),
        "`replace`": lambda: sc.Batches(2, replace=True, sampling="bernoulli"),
    }
    for message, call in bad.items():
        with pytest.raises((ValueError, TypeError), match=message):
            call()
