"""The loss adds up over the kernel's directions, and the kernel bounds its gradient."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import secant as sc
from secant.curvature import convergence, kernel_drift

SQUARED = ["half_sum", "mean_mse", "half_mean", "entry_mean"]
NETS = {k: sc.nets.mlp([5], k, activation="tanh") for k in (1, 2)}


SAMPLES = 4


@functools.cache
def compiled(outputs):
    """The outputs of a network and the gradient of half the sum of squares, of parameters, inputs and targets."""

    def run(p, x, y):
        found, pull = jax.vjp(lambda p: NETS[outputs].apply(p, x), p)
        return found, pull(found - y)[0]

    return jax.jit(run)


def value_and_gradient(outputs, loss, params, x, y):
    """A squared loss, its gradient, and the outputs: all of them are half the sum of squares times a number."""
    found, gradient = compiled(outputs)(params, x, y)
    half = np.sum(np.square(np.asarray(found) - y)) / 2
    times = {"half_sum": 1, "mean_mse": 2 / SAMPLES, "half_mean": 1 / SAMPLES, "entry_mean": 2 / y.size}[loss]
    return times * half, times * np.concatenate([np.ravel(g) for g in jax.tree.leaves(gradient)]), found


def problem(seed, outputs):
    generator = np.random.default_rng(seed)
    net = NETS[outputs]
    x = generator.normal(size=(SAMPLES, 3))
    y = generator.normal(size=net.output_shape(x.shape))
    return net.apply, net.init(jax.random.key(seed), x.shape), x, y


@given(st.integers(0, 1000), st.sampled_from([1, 2]), st.sampled_from(SQUARED))
@settings(max_examples=20, deadline=None)
def test_the_parts_of_the_loss_add_up_to_it(seed, outputs, loss):
    f, params, x, y = problem(seed, outputs)
    split = sc.loss_split(f, params, x, y, loss)
    total, _, _ = value_and_gradient(outputs, loss, params, x, y)
    parts = np.asarray(split.parts)
    np.testing.assert_allclose(parts.sum(), total, rtol=1e-12)
    for s in (0, 1, len(parts), -1):
        np.testing.assert_allclose(float(split.within(s)), parts[:s].sum(), rtol=1e-12)
        np.testing.assert_allclose(float(split.beyond(s)), parts[s:].sum(), rtol=1e-12)
    assert np.all(np.diff(split.eigenvalues) <= 0)
    kernel = np.asarray(sc.ntk(f, params, x).dense())
    values, vectors = np.asarray(split.eigenvalues), np.asarray(split.directions)
    np.testing.assert_allclose(kernel @ vectors, values * vectors, atol=1e-11)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(len(kernel)), atol=1e-12)


@given(st.integers(0, 1000), st.sampled_from([1, 2]), st.sampled_from(SQUARED))
@settings(max_examples=20, deadline=None)
def test_the_gradient_is_what_the_kernel_says(seed, outputs, loss):
    r"""$\|\nabla L\|^2 = c^2 r^T K r$, and the Polyak-Lojasiewicz inequality."""
    f, params, x, y = problem(seed, outputs)
    value, gradient, given = value_and_gradient(outputs, loss, params, x, y)
    loss = sc.losses.get(loss)
    found = convergence(f, params, x, y, loss)
    c, residual = loss.curvature(y), (np.asarray(given) - y).ravel()
    kernel = np.asarray(sc.ntk(f, params, x).dense())
    np.testing.assert_allclose(gradient @ gradient, c**2 * residual @ kernel @ residual, rtol=1e-10)
    np.testing.assert_allclose(found.ratio, gradient @ gradient / (2 * value), rtol=1e-10)
    values = np.linalg.eigvalsh(kernel)
    np.testing.assert_allclose([found.smallest, found.largest], [max(values[0], 0), values[-1]], atol=1e-12)
    assert 0 <= found.mu <= found.ratio * (1 + 1e-9)
    np.testing.assert_allclose(found.mu, c * found.smallest, rtol=1e-12)


def test_the_loss_of_a_fixed_kernel_falls_at_the_stated_rate():
    generator = np.random.default_rng(0)
    x, y, w = generator.normal(size=(3, 5)), generator.normal(size=3), generator.normal(size=5)

    def loss(w):  # the mean of the squares
        return np.mean((x @ w - y) ** 2)

    def gradient(w):
        return 2 / 3 * x.T @ (x @ w - y)

    found = convergence(lambda w, x: x @ w, w, x, y, "mean_mse")
    step = 1 / (2 / 3 * float(found.largest))
    after = loss(w - step * gradient(w))
    assert after <= float(found.rate) * loss(w)
    # Along the slowest direction it falls exactly so.
    slow = np.linalg.lstsq(x, y + np.linalg.eigh(x @ x.T)[1][:, 0], rcond=None)[0]
    np.testing.assert_allclose(loss(slow - step * gradient(slow)), float(found.rate) * loss(slow), rtol=1e-9)


def test_duplicated_samples_leave_no_guarantee():
    f, params, x, y = problem(0, 1)
    twice = convergence(f, params, np.concatenate([x, x]), np.concatenate([y, y]), "half_sum")
    assert twice.smallest <= 1e-12 * twice.largest
    assert twice.mu >= 0


def test_at_zero_loss_the_ratio_is_not_a_number():
    f, params, x, _ = problem(0, 1)
    assert np.isnan(convergence(f, params, x, f(params, x), "half_sum").ratio)


@given(st.integers(0, 1000))
@settings(max_examples=10, deadline=None)
def test_drift_is_a_relative_spectral_norm(seed):
    a, b = np.random.default_rng(seed).normal(size=(2, 4, 4))
    start, now = a @ a.T, b @ b.T
    np.testing.assert_allclose(
        kernel_drift(start, now), np.linalg.norm(now - start, 2) / np.linalg.norm(start, 2), rtol=1e-10
    )
    assert kernel_drift(start, start) == 0


def test_a_kernel_that_shrinks_has_moved_as_far_as_one_that_grows():
    start = np.diag([4.0, 1.0])
    for change in (np.diag([-3.0, 0.0]), np.diag([3.0, 0.0]), np.diag([0.5, -3.0])):
        np.testing.assert_allclose(kernel_drift(start, start + change), 0.75, rtol=1e-12)


@pytest.mark.parametrize("shapes", [((3, 3), (2, 2)), ((3,), (3,)), ((3, 2), (3, 2))])
def test_drift_compares_square_matrices_of_one_size(shapes):
    with pytest.raises(ValueError, match=r"kernel_drift: `start` and `now` must be square matrices of one size, got"):
        kernel_drift(*(np.ones(shape) for shape in shapes))


@pytest.mark.parametrize(("measure", "caller"), [(sc.loss_split, "loss_split"), (convergence, "convergence")])
def test_arguments_that_do_not_fit_are_refused_by_name(measure, caller):
    f, params, x, y = problem(0, 1)
    for wrong, error, message in (
        ((f, params, x, y[:3], "half_sum"), ValueError, "`y` has 3 samples and `x` has 4"),
        ((f, params, x, y[:, None], "half_sum"), ValueError, r"`y` has shape \(4, 1\) and the outputs have \(4,\)"),
        ((f, params, x, y, "cross_entropy"), ValueError, "`loss` must be one of the squared losses"),
        ((f, params, x, y, lambda o, t: jnp.sum(o)), ValueError, "`loss` must be one of the squared losses"),
        ((f, params, x, y * np.nan, "half_sum"), FloatingPointError, "the result is not finite"),
    ):
        with pytest.raises(error, match=f"{caller}: {message}"):
            measure(*wrong)


def test_both_can_be_compiled():
    f, params, x, y = problem(0, 1)
    split = jax.jit(lambda p: sc.loss_split(f, p, x, y, "half_sum").parts)(params)
    np.testing.assert_allclose(split, sc.loss_split(f, params, x, y, "half_sum").parts, rtol=1e-10, atol=1e-14)
    ratio = jax.jit(lambda p: convergence(f, p, x, y, "half_sum").ratio)(params)
    np.testing.assert_allclose(ratio, convergence(f, params, x, y, "half_sum").ratio, rtol=1e-10)
