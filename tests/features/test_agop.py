"""The average gradient outer product against dense Jacobians and closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import secant as sc

NET = sc.nets.mlp([5, 4], outputs=3, activation="tanh", bias=True)


def dense(f, params, x):
    """From the Jacobian of every sample, written out."""
    jacobian = jax.jit(jax.jacrev(lambda row: f(params, row[None])[0]))
    jacobians = np.stack([jacobian(row) for row in np.asarray(x)])
    flat = jacobians.reshape(-1, x[0].size)
    return flat.T @ flat / len(x)


@pytest.fixture(scope="module")
def network():
    """Samples, parameters, and what their Jacobians say."""
    with jax.enable_x64(True):
        x = np.random.default_rng(0).normal(size=(7, 6))
        params = NET.init(jax.random.key(1), x.shape)
        return x, params, dense(NET.apply, params, x)


@pytest.mark.parametrize("block", [1, 4, 7, 100])
def test_streamed_is_dense(block, network):
    x, params, expected = network
    with jax.enable_x64(True):
        found = sc.agop(NET.apply, params, x, block=block)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
        assert np.linalg.eigvalsh(found)[0] > -1e-14


def test_images_are_read_pixel_by_pixel():
    with jax.enable_x64(True):
        x = np.random.default_rng(0).normal(size=(3, 4, 4, 2))

        def f(w, x):
            return jnp.tanh(x.reshape(len(x), -1) @ w)

        w = np.random.default_rng(1).normal(size=32)
        found = sc.agop(f, w, x)
        assert found.shape == (32, 32)
        np.testing.assert_allclose(found, dense(f, w, x), rtol=1e-12, atol=1e-14)


def test_a_linear_function_has_the_product_of_its_weights():
    with jax.enable_x64(True):
        w = np.random.default_rng(0).normal(size=(4, 2))
        x = np.random.default_rng(1).normal(size=(9, 4))
        np.testing.assert_allclose(sc.agop(lambda w, x: x @ w, w, x), w @ w.T, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", list(sc.data.TARGETS))
def test_the_closed_forms_of_the_targets_are_their_expectations(name):
    """By Monte Carlo, within five standard errors of each entry."""
    target, dim, n = sc.data.TARGETS[name], 12, 40_000
    with jax.enable_x64(True):
        x = jax.random.normal(jax.random.key(0), (n, dim), jnp.float64)
        gradients = np.asarray(jax.jit(jax.vmap(jax.grad(target.function)))(x))
        products = gradients[:, :, None] * gradients[:, None, :]
        error = products.std(axis=0) / np.sqrt(n)
        assert (
            np.abs(products.mean(axis=0) - target.egop(dim)) <= 5 * error + 1e-12 + 2e-3 * (name == "full-rank")
        ).all()
        found = sc.agop(lambda _, x: jax.vmap(target.function)(x), np.zeros(1), x)
        np.testing.assert_allclose(found, products.mean(axis=0), rtol=1e-9, atol=1e-12)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), scale=st.floats(1e-12, 1e12))
def test_alignment_is_a_cosine(seed, scale):
    with jax.enable_x64(True):
        a, b = (m @ m.T for m in np.random.default_rng(seed).normal(size=(2, 4, 2)))
        found = float(sc.alignment(a, scale * b))
        assert 0 <= found <= 1 + 1e-12
        np.testing.assert_allclose(found, np.sum(a * b) / np.linalg.norm(a) / np.linalg.norm(b), rtol=1e-10)
        np.testing.assert_allclose(sc.alignment(a, scale * a), 1.0, rtol=1e-12)


def test_bad_input_is_named():
    x = np.zeros((3, 2))
    with pytest.raises(TypeError, match=r"`x` is of type int"):
        sc.agop(lambda w, x: x @ w, np.ones(2), x.astype(int))
    with pytest.raises(TypeError, match="one array"):
        sc.agop(lambda w, x: x @ w, np.ones(2), [[0.0, 1.0]])
    with pytest.raises(ValueError, match="`block`"):
        sc.agop(lambda w, x: x @ w, np.ones(2), x, block=0)
    with pytest.raises(ValueError, match="mixes samples"):
        sc.agop(lambda w, x: (x - x.mean(axis=0)) @ w, np.ones(2), np.random.default_rng(0).normal(size=(4, 2)))
    with pytest.raises(ValueError, match="second matrix is zero"):
        sc.alignment(np.eye(2), np.zeros((2, 2)))
    with pytest.raises(ValueError, match="first matrix has entries that are not finite"):
        sc.alignment(np.full((2, 2), np.nan), np.eye(2))
    with pytest.raises(ValueError, match="one shape"):
        sc.alignment(np.eye(2), np.eye(3))
    with pytest.raises(ValueError, match="not zero"):
        sc.measure.alignment(np.zeros((2, 2)))
    with pytest.raises(ValueError, match=r"shape \(d, d\)"):
        sc.measure.alignment(np.zeros(3))


@pytest.mark.parametrize("samples", [20, 5])
def test_alignment_is_measured_along_a_run(samples):
    """Also where the run itself takes place in the span of fewer samples than features."""
    with jax.enable_x64(True):
        x = np.random.default_rng(0).normal(size=(samples, 8))
        net = sc.nets.mlp([6], activation="tanh")
        problem = sc.Problem(net.apply, x, x[:, 0] * x[:, 1], sc.losses.mean_mse)
        target = sc.data.TARGETS["rank-2"].egop(8)
        start = net.init(jax.random.key(0), x.shape)
        probes = {"aligned": sc.measure.alignment(target, every=2)}
        run = sc.train(problem, start, lr=0.5, steps=4, probes=probes)
        expected = [float(sc.alignment(sc.agop(net.apply, p, x), target)) for p in (start, run.state)]
        np.testing.assert_allclose(run["aligned"][[0, -1]], expected, rtol=1e-9)
        with pytest.raises(ValueError, match="3 features and the inputs have 8"):
            sc.train(problem, start, lr=0.5, steps=1, probes={"a": sc.measure.alignment(np.eye(3))})
