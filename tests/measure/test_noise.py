"""Noise along a run, against the operator at its ends."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import secant as sc

X = np.random.default_rng(0).normal(size=(8, 3))
Y = np.random.default_rng(1).normal(size=8)


@pytest.fixture(autouse=True)
def wide():
    with jax.enable_x64(True):
        yield


def test_a_run_records_what_the_operator_says():
    net = sc.nets.mlp([4], activation="tanh")
    params = net.init(jax.random.key(0), X.shape, jnp.float64)
    probes = {"noise": sc.measure.gradient_noise(2, every=5), "batch": sc.measure.batch_sharpness(3, draws=4, every=5)}
    problem = sc.Problem(net.apply, X, Y, "half_mean")
    run = sc.train(problem, params, lr=0.1, steps=5, probes=probes)
    noise = sc.gradient_noise(net.apply, run.state, X, Y, "half_mean")
    top = noise.top(2)
    last = {name: float(np.ravel(run.dataset[name])[-1]) for name in run.dataset if name.startswith(("noise", "batch"))}
    assert last["noise"] == pytest.approx(noise.trace().value)
    assert last["noise_scale"] == pytest.approx(noise.noise_scale())
    assert last["noise_top"] == pytest.approx(float(top.values[0]) / noise.trace().value)
    H = np.asarray(sc.hessian(net.apply, run.state, X, Y, "half_mean").dense())
    V = np.asarray(jax.vmap(lambda v: jax.flatten_util.ravel_pytree(v)[0])(top.vectors))
    inside, values = V @ H @ V.T, np.asarray(top.values)
    cosine = values @ np.diag(inside) / np.linalg.norm(values) / np.linalg.norm(inside)
    assert last["noise_alignment"] == pytest.approx(cosine)
    random = np.random.default_rng(0)
    batches = np.stack([random.permutation(8)[:3] for _ in range(4)])
    found = sc.batch_sharpness(net.apply, run.state, X, Y, "half_mean", batches)
    assert last["batch"] == pytest.approx(float(found.mean()))
    assert last["batch_error"] == pytest.approx(float(found.std(ddof=1)) / 2)


def test_a_loop_of_ones_own():
    _, look = sc.measure.batch_sharpness(8).pair(lambda w, x: x @ w, "half_mean")
    record, _ = jax.jit(look)(jnp.ones(3), (X, Y), None)
    H, g = X.T @ X / 8, X.T @ (X @ np.ones(3) - Y) / 8
    assert record["value"] == pytest.approx(g @ H @ g / (g @ g))
    assert record["error"] == 0
