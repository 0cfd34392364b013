"""Gradient noise, against per-sample gradients written out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import secant as sc
from secant.curvature import per_sample
from secant.theory.noise.fluctuation import noise_matrices

SAMPLES = 5


@pytest.fixture(autouse=True)
def wide():
    with jax.enable_x64(True):
        yield


def flat(tree):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def written_out(case, compile_quickly):
    """Gradients of the samples, each by itself, of half the squared error."""

    def half(params, x, y):
        return jnp.sum((case.net.apply(params, x[None])[0] - y) ** 2) / 2

    rows = compile_quickly(lambda p, x, y: jax.vmap(jax.grad(half), (None, 0, 0))(p, x, y))(case.params, case.x, case.v)
    return np.concatenate([np.reshape(leaf, (len(case.x), -1)) for leaf in jax.tree.leaves(rows)], 1)


def test_all_of_it_is_that_of_gradients_written_out(name, case, compile_quickly):
    one = case(name, samples=SAMPLES)
    g = written_out(one, compile_quickly)
    exact = noise_matrices(g, 1, "iid").covariance
    for memory in (2**30, 1):  # in one piece, and sample by sample
        noise = sc.gradient_noise(one.net.apply, one.params, one.x, one.v, "half_mean", memory=memory)
        pairs = noise.top(2)
        np.testing.assert_allclose(pairs.values, np.linalg.eigvalsh(exact)[::-1][:2], rtol=1e-9)
    np.testing.assert_allclose(noise.squares(), (g**2).sum(1), rtol=1e-10)
    np.testing.assert_allclose(flat(noise.mean()), g.mean(0), atol=1e-11 * np.abs(g).max())
    assert noise.trace().value == pytest.approx(np.trace(exact), rel=1e-10)
    assert noise.trace().error == 0
    vectors = np.stack([flat(jax.tree.map(lambda leaf, i=i: np.asarray(leaf)[i], pairs.vectors)) for i in range(2)])
    np.testing.assert_allclose(vectors @ vectors.T, np.eye(2), atol=1e-9)
    np.testing.assert_allclose(
        vectors @ exact, np.asarray(pairs.values)[:, None] * vectors, atol=1e-8 * np.trace(exact)
    )


X = np.random.default_rng(0).normal(size=(6, 3))
Y = np.random.default_rng(1).normal(size=6)
W = np.array([0.5, -1.0, 2.0])


def linear(w, x):
    return x @ w


GRADIENTS = X * (X @ W - Y)[:, None]


@pytest.mark.parametrize("sampling", ["iid", "fixed", "bernoulli"])
def test_batches_have_the_covariance_of_their_law(sampling):
    noise = sc.gradient_noise(linear, W, X, Y, "half_mean", batch=2, sampling=sampling)
    exact = noise_matrices(GRADIENTS, 2, sampling).covariance
    np.testing.assert_allclose(noise.dense(), exact, atol=1e-12)
    np.testing.assert_allclose(noise.mv(W), exact @ W, atol=1e-12)
    assert noise.trace().value == pytest.approx(np.trace(exact))
    np.testing.assert_allclose(noise.top(3).values, np.linalg.eigvalsh(exact)[::-1], rtol=1e-9)
    draws = np.asarray(jax.jit(lambda key: jax.vmap(noise.sample)(jax.random.split(key, 20_000)))(jax.random.key(0)))
    spread = np.sqrt((np.outer(np.diag(exact), np.diag(exact)) + exact**2) / len(draws))
    assert (np.abs(draws.T @ draws / len(draws) - exact) < 5 * spread).all()


def test_any_normalisation_of_the_loss_has_the_gradient_as_mean():
    for loss in ("half_sum", "mean_mse", lambda f, y: jnp.mean((f - y) ** 2)):
        noise = sc.gradient_noise(linear, W, X, Y, loss)
        gradient = np.asarray(jax.jit(jax.grad(lambda w, loss=loss: sc.losses.get(loss)(linear(w, X), Y)))(W))
        np.testing.assert_allclose(noise.mean(), gradient, rtol=1e-10)
    assert noise.noise_scale() == pytest.approx(noise.trace().value / float(gradient @ gradient))


def test_blocks_of_gradients_that_do_not_divide_the_samples(monkeypatch):
    monkeypatch.setattr(per_sample, "ENTRIES", 4 * len(W))
    found = jax.jit(lambda *given: per_sample.lengths(linear, sc.losses.half_mean, *given))(W, X, Y)
    np.testing.assert_allclose(found.squares, (GRADIENTS**2).sum(1), rtol=1e-10)
    np.testing.assert_allclose(found.mean, GRADIENTS.mean(0), atol=1e-12)


def test_more_directions_than_have_noise():
    same = np.repeat(X[:1], 4, 0)
    noise = sc.gradient_noise(linear, W, same, np.zeros(4), "half_mean")
    assert noise.trace().value == pytest.approx(0, abs=1e-12)
    np.testing.assert_allclose(noise.top(2).values, 0, atol=1e-12)
    still = sc.gradient_noise(linear, W, X, Y, "half_mean", batch=6, sampling="fixed")
    assert still.trace().value == 0
    np.testing.assert_allclose(still.top(1).values, 0, atol=1e-12)
    many = sc.gradient_noise(linear, W, X[:2], Y[:2], "half_mean").top(3)
    assert many.values[0] > 0
    np.testing.assert_allclose(many.values[1:], 0, atol=1e-10)


def test_many_samples_are_searched(monkeypatch):
    noise = sc.gradient_noise(linear, W, np.tile(X, (5, 1)), np.tile(Y, 5), "half_mean")
    exact = noise.top(2).values
    monkeypatch.setattr("secant.curvature.noise.AT_ONCE", 10)
    np.testing.assert_allclose(noise.top(2, tol=1e-8).values, exact, rtol=1e-7)


def test_quotients_of_batches():
    batches = np.array([[0, 1], [3, 4]])
    found = sc.batch_sharpness(linear, W, X, Y, "half_mean", batches)
    for rows, value in zip(batches, found, strict=True):
        g, H = GRADIENTS[rows].mean(0), X[rows].T @ X[rows] / 2
        assert value == pytest.approx(g @ H @ g / (g @ g), rel=1e-10)
    assert np.isnan(sc.batch_sharpness(linear, W, X, X @ W, "half_mean", batches)).all()


def test_the_step_that_second_moments_bear_follows_the_loss(drawn):
    net = sc.nets.mlp([4], 2, activation="tanh")
    params = drawn(net, X.shape, np.random.default_rng(0))
    plain = sc.stochastic_critical_lr(net.apply, params, X, batch=2, tol=1e-10)
    full = sc.stochastic_critical_lr(net.apply, params, X, batch=6)
    kernel = np.linalg.eigvalsh(sc.ntk(net.apply, params, X).dense())[-1]
    assert full.step == pytest.approx(12 / kernel, rel=1e-6)
    assert full.full == pytest.approx(12 / kernel, rel=1e-6)
    for loss, factor in (("mean_mse", 2), ("entry_mean", 1), ("half_sum", 2)):
        other = sc.stochastic_critical_lr(net.apply, params, X, batch=2, loss=loss, tol=1e-10)
        assert other.step == pytest.approx(plain.step / factor)
    assert plain.step < plain.full


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sc.gradient_noise(linear, W, X, Y, "half_mean", batch=7), "larger than the data"),
        (lambda: sc.gradient_noise(linear, W, X, Y, "half_mean", batch=0), "`batch`"),
        (lambda: sc.gradient_noise(linear, W, X, Y, "half_mean", batch=2, sampling="all"), "`sampling` must be"),
        (lambda: sc.gradient_noise(linear, W, X, Y, "half_mean", sampling="fixed"), "needs a `batch`"),
        (lambda: sc.gradient_noise(linear, W, X, Y[:3], "half_mean"), "`y` has 3 samples"),
        (lambda: sc.gradient_noise(lambda w, x: (x - x.mean(0)) @ w, W, X, Y, "half_mean"), "mixes samples"),
        (lambda: sc.stochastic_critical_lr(linear, W, X, batch=7), "larger than the data"),
        (lambda: sc.stochastic_critical_lr(linear, W, X, batch=2, loss="cross_entropy"), "squared losses"),
        (lambda: sc.batch_sharpness(linear, W, X, Y, "half_mean", np.array([[0, 9]])), "names samples"),
        (lambda: sc.measure.batch_sharpness(0), "`size`"),
        (lambda: sc.measure.batch_sharpness(9).on(sc.Problem(linear, X, Y, "half_mean")), "larger than the data"),
        (lambda: sc.measure.gradient_noise(0), "`k`"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_numbers_that_are_not_finite_are_refused():
    with pytest.raises(FloatingPointError, match="not finite"):
        sc.gradient_noise(linear, W * np.nan, X, Y, "half_mean").trace()
