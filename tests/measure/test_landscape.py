"""Ratios along a run, against those of a quadratic."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import secant as sc


def problem():
    X = jnp.diag(jnp.sqrt(jnp.array([10.0, 3.0, 1.0])))
    return sc.Problem(lambda w, x: x @ w, X, X @ jnp.ones(3), sc.losses.half_sum)


def test_the_ratios_are_those_of_a_quadratic():
    start = jnp.array([2.0, -1.0, 3.0])
    run = sc.train(
        problem(), start, lr=0.1, steps=12, probes={"pl": sc.measure.landscape(jnp.ones(3), every=4), "w": lambda w: w}
    ).dataset
    assert run.pl.shape == (4,)
    curvature, away = np.array([10.0, 3, 1]), run.w.values[::4] - 1
    excess, slope = (curvature * away**2).sum(1) / 2, curvature * away
    np.testing.assert_allclose(run.pl, (slope**2).sum(1) / excess, rtol=1e-4)
    np.testing.assert_allclose(run.pl_quasi_convexity, 2, rtol=1e-4)
    np.testing.assert_allclose(run.pl_secant, 2 * excess / (away**2).sum(1), rtol=1e-4)


def test_at_the_reference_there_is_no_ratio():
    run = sc.train(problem(), jnp.ones(3), lr=0.1, steps=1, probes={"pl": sc.measure.landscape(jnp.ones(3))}).dataset
    assert np.isnan(run.pl).all()
    assert np.isnan(run.pl_secant).all()


def test_a_run_in_the_span_of_the_data_is_compared_with_whole_parameters():
    net = sc.nets.mlp([4], activation="tanh")
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(3, 20)).astype(np.float32), rng.normal(size=3).astype(np.float32)
    params, goal = (net.init(jax.random.key(k), x.shape) for k in (0, 1))
    task = sc.Problem(net.apply, x, y, sc.losses.half_sum)
    runs = [
        sc.train(task, params, lr=0.01, steps=2, probes={"pl": sc.measure.landscape(goal)}, reduce=reduce).dataset
        for reduce in (None, False)
    ]
    assert runs[0].attrs["input_reduction"] == "20 -> 3 features"
    np.testing.assert_allclose(runs[0].pl_secant, runs[1].pl_secant, rtol=1e-3)


def test_what_does_not_fit_is_refused_by_name():
    with pytest.raises(ValueError, match="`reference` must hold finite"):
        sc.measure.landscape(jnp.array([jnp.nan]))
    with pytest.raises(ValueError, match="`reference` holds no array"):
        sc.measure.landscape({})
    with pytest.raises(ValueError, match="`every`"):
        sc.measure.landscape(jnp.ones(3), every=0)
    with pytest.raises(ValueError, match="They must agree"):
        sc.train(problem(), jnp.ones(3), lr=0.1, steps=1, probes={"pl": sc.measure.landscape(jnp.ones(2))})
