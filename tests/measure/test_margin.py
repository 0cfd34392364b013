"""Margins and their stationary points along a run."""

import jax.numpy as jnp
import numpy as np
import pytest

import secant as sc
from secant.theory.bias.margins import max_margin

X = np.array([[2.0, 1.0], [1.0, 2.5], [-3.0, -3.0], [2.0, 4.0]])
Y = np.array([1.0, 1.0, -1.0, 1.0])


def test_the_margin_of_a_run_goes_up_to_the_largest():
    problem = sc.Problem(lambda w, x: x @ w, X, Y, sc.losses.exponential)
    seen = {"margin": sc.measure.margin(every=500), "kkt": sc.measure.kkt(every=500)}
    run = sc.train(problem, np.array([1.0, -0.5]), lr=0.1, steps=4_000, probes=seen).dataset
    largest = max_margin(X * Y[:, None]).margin
    assert run.margin.values.max() <= largest
    assert run.margin.values[-1] > 0.97 * largest
    np.testing.assert_allclose(run.margin_degree, 1)
    assert run.kkt.values[-1] < run.kkt.values[1] / 2
    assert 0 <= run.kkt_slack.values[-1] < 0.1  # as one over the logarithm of time, and not from above alone


def test_at_the_largest_margin_nothing_is_left_of_the_conditions():
    found = max_margin(X * Y[:, None])
    problem = sc.Problem(lambda w, x: x @ w, X, Y, sc.losses.exponential)
    # Far out, and with the weights of the samples as the multipliers want them.
    w = 1e4 * found.w - np.linalg.lstsq((X * Y[:, None])[found.support], np.log(found.multipliers[found.support]))[0]
    record = sc.measure.kkt().on(problem).function(jnp.asarray(w))
    assert record["value"] < 1e-6
    assert record["slack"] < 1e-3
    assert sc.measure.margin().on(problem).function(jnp.asarray(w))["value"] == pytest.approx(found.margin, rel=1e-3)


def test_degrees_and_classes():
    x = np.random.default_rng(0).normal(size=(6, 2))
    square = sc.Problem(lambda p, x: x @ (p["u"] * p["v"]), x, np.ones(6), sc.losses.exponential)
    params = {"u": jnp.array([1.0, 2.0]), "v": jnp.array([0.5, -1.0])}
    record = sc.measure.margin().on(square).function(params)
    assert record["degree"] == pytest.approx(2)
    assert record["value"] == pytest.approx(record["smallest"] / (1 + 4 + 0.25 + 1))
    several = sc.Problem(lambda w, x: x @ w, x, np.array([0, 1, 2, 0, 1, 2]), "cross_entropy")
    w = jnp.asarray(np.random.default_rng(1).normal(size=(2, 3)))
    scores = x @ np.asarray(w)
    right = scores[np.arange(6), [0, 1, 2, 0, 1, 2]]
    scores[np.arange(6), [0, 1, 2, 0, 1, 2]] = -np.inf
    assert sc.measure.margin().on(several).function(w)["smallest"] == pytest.approx((right - scores.max(1)).min())
