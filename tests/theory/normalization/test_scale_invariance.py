"""Degrees of homogeneity, the largest curvature on the sphere, and step sizes in place of weight decay."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secant.theory.normalization import scale_invariance as si

A = np.diag([1.0, 0.5, 0.2, 0.1, 0.0])


def rayleigh_gradient(w):
    w = np.asarray(w, float)
    return 2 * (A @ w - (w @ A @ w) / (w @ w) * w) / (w @ w)


def test_the_degree_of_a_part_and_of_the_whole():
    params = {"a": np.array([1.0, 2.0]), "b": np.array([3.0])}

    def f(p):
        return p["a"] ** 3 * p["b"] ** -1

    for part, expected in ((None, 2), (lambda path: "'a'" in path, 3), (lambda path: path == "['b']", -1)):
        found = si.degree(f, params, part)
        assert float(found.degree) == pytest.approx(expected, abs=1e-12)
        assert float(found.residual) < 1e-12
    assert float(si.degree(lambda p: f(p) + 1, params).residual) > 0.1
    assert si.is_scale_invariant(lambda p: p["a"] / p["b"], params)
    assert not si.is_scale_invariant(lambda p: p["a"] / (p["b"] + 1e-6), params)
    assert si.is_scale_invariant(lambda p: p["a"] / (p["b"] + 1e-6), params, within=1e-5)
    assert not si.is_scale_invariant(lambda p: p["a"] / p["b"], params, lambda path: "a" in path)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: si.degree(lambda p: p, np.zeros(3)), "degree: the weights to scale are all zero"),
        (lambda: si.is_scale_invariant(lambda p: p, np.zeros(3)), "are all zero"),
        (lambda: si.degree(lambda p: p["a"], {"a": np.ones(2)}, lambda path: "b" in path), r"none .*\['a'\]"),
        (lambda: si.degree(lambda p: 0 * p, np.ones(3)), "zero or not finite"),
        (lambda: si.degree(lambda p: p, np.ones(3), factors=(1.0,)), "`factors` must be"),
        (lambda: si.sphere_smoothness(lambda w: w @ w, np.ones(2), starts=0), "`starts`"),
        (lambda: si.schedule_without_decay(0.5, 2.0, 3), "`lr` times `decay` must be below 1.* 0.5 \\* 2"),
        (lambda: si.schedule_without_decay(0.5, -0.1, 3), "`decay`"),
        (lambda: si.schedule_without_decay(0.5, 0.1), "`steps` is missing"),
        (lambda: si.schedule_without_decay([0.5, 0.1], 0.1, 3), "2 step sizes, but `steps` is 3"),
        (lambda: si.schedule_without_decay([0.5, -0.1], 0.1), "`lr` must be finite"),
        (lambda: si.schedule_without_decay(0.5, 0.2, 10**4), "Take at most 3372 steps"),
        (lambda: si.decay_of_schedule(0.1, 0.9), "`growth`"),
    ],
)
def test_what_has_no_meaning_is_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_the_largest_schedule_that_fits_is_made():
    found = si.schedule_without_decay(0.5, 0.2, 3372)
    assert np.isfinite(found.lr).all()
    assert found.lr[-1] > 1e306


@given(
    eta=st.lists(st.floats(0.01, 0.3), min_size=1, max_size=40),
    decay=st.floats(0, 0.5),
    seed=st.integers(0, 99),
)
@settings(max_examples=30, deadline=None)
def test_growing_steps_do_what_decay_does(eta, decay, seed):
    found = si.schedule_without_decay(eta, decay)
    w = twin = np.random.default_rng(seed).normal(size=5) + 0.1
    for t, lr in enumerate(eta):
        w = (1 - lr * decay) * w - lr * rayleigh_gradient(w)
        twin = twin - found.lr[t] * rayleigh_gradient(twin)
    np.testing.assert_allclose(found.scale[-1] * twin, w, rtol=1e-9, atol=1e-12)


@given(lr=st.floats(1e-3, 1), share=st.floats(0, 0.9))
@settings(max_examples=20, deadline=None)
def test_a_growing_schedule_names_its_decay(lr, share):
    found = si.schedule_without_decay(lr, share / lr, 3).lr
    assert found[0] == pytest.approx(lr / (1 - share), rel=1e-12)
    assert found[1] / found[0] == pytest.approx((1 - share) ** -2, rel=1e-12)
    back = si.decay_of_schedule(found[0], found[2] / found[1])
    assert back == (pytest.approx(lr, rel=1e-12), pytest.approx(share / lr, rel=1e-9, abs=1e-9))


def test_the_smoothness_of_a_rayleigh_quotient_is_twice_its_range():
    spectrum = jnp.array([7.967289, 3.0, 1.0, 0.5, 0.0])
    found = si.sphere_smoothness(lambda p: jnp.sum(spectrum * p["w"] ** 2) / (p["w"] @ p["w"]), {"w": jnp.ones(5)})
    assert found == pytest.approx(15.934578, abs=1e-5)
    assert math.isfinite(found)


def test_the_smoothness_counts_curvature_of_both_signs():
    def loss(w):
        return jnp.exp(2 * w[0] / jnp.linalg.norm(w))

    # Its curvature lies between -2 exp(2) and 8.174.
    for sign in (1, -1):
        found = si.sphere_smoothness(lambda w, sign=sign: sign * loss(w), jnp.ones(3), starts=3)
        assert found == pytest.approx(2 * math.exp(2), rel=1e-6)
