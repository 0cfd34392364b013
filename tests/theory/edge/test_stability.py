"""Linear stability: closed forms against the spectral radius, and against the optimisers themselves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import secant as sc
from secant.theory.edge import stability

BETA = st.floats(0.0, 0.99)
LR = st.floats(1e-3, 10.0)
RULES = {
    "heavy_ball": stability.heavy_ball,
    "nesterov": stability.nesterov,
    "adam": stability.adam,
    "adamw": lambda lr, beta: stability.adam(lr, beta, weight_decay=0.5 / lr),
}
CLOSED = {
    "heavy_ball": lambda lr, b: (2 + 2 * b) / lr,
    "nesterov": lambda lr, b: (2 + 2 * b) / (lr * (1 + 2 * b)),
    "adam": lambda lr, b: (2 + 2 * b) / ((1 - b) * lr),
    "adamw": lambda lr, b: (2 - 0.5) * (1 + b) / ((1 - b) * lr),
}


def radius(rule, curvature):
    """Of the companion matrix, by NumPy."""
    (p1, p2), (q1, q2) = rule.position, rule.gradient
    return np.abs(np.linalg.eigvals([[p1 - curvature * q1, p2 - curvature * q2], [1.0, 0.0]])).max()


def bisected(rule, low, high):
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if radius(rule, middle) < 1 else (low, middle)
    return low


@pytest.mark.parametrize("name", RULES)
@given(lr=LR, beta=BETA)
@settings(max_examples=25, deadline=None)
def test_the_closed_form_is_where_the_spectral_radius_passes_one(name, lr, beta):
    rule = RULES[name](lr, beta)
    exact = CLOSED[name](lr, beta)
    assert rule.threshold == pytest.approx(exact, rel=1e-12)
    assert bisected(rule, exact / 2, 2 * exact) == pytest.approx(exact, rel=1e-12)
    # There a root is -1: the iterate flips its sign.
    (p1, p2), (q1, q2) = rule.position, rule.gradient
    roots = np.roots([1, -(p1 - exact * q1), -(p2 - exact * q2)])
    assert np.abs(roots + 1).min() < 1e-10


@given(
    position=st.tuples(st.floats(-2, 2), st.floats(-1, 1)),
    gradient=st.tuples(st.floats(-1, 1), st.floats(-1, 1)),
    curvature=st.floats(-20, 20),
)
@settings(max_examples=300, deadline=None)
def test_any_two_term_rule_is_stable_exactly_inside_its_interval(position, gradient, curvature):
    rule = stability.LinearRule(position, gradient)
    found = radius(rule, curvature)
    if abs(found - 1) < 1e-6:  # on the border rounding decides
        return
    assert (rule.stable.low < curvature < rule.stable.high) == (found < 1)


def test_a_rule_that_is_never_stable_has_an_empty_interval():
    never = stability.LinearRule((2.5, 0.0), (0.0, 0.0))
    assert never.stable.low > never.stable.high


def test_a_pair_of_complex_roots_may_be_the_first_to_leave():
    late = stability.LinearRule((1.0, 0.0), (0.0, 0.5))  # descent along the gradient of the step before
    assert late.threshold == pytest.approx(2.0)
    assert np.abs(np.roots([1, -1, 1.0])) == pytest.approx(1.0)


def test_the_spectral_radius_is_that_of_the_companion_matrix():
    rule = stability.nesterov(0.3, 0.8)
    curvatures = jnp.linspace(-3.0, 12.0, 31)
    expected = np.abs(np.linalg.eigvals(np.asarray(rule.companion(curvatures)))).max(axis=-1)
    np.testing.assert_allclose(rule.spectral_radius(curvatures), expected, rtol=1e-7)
    assert rule.spectral_radius(0.5).shape == ()


LIBRARY = {
    "gd": (lambda beta: sc.optimisers.gd(0.1), lambda beta: stability.gradient_descent(0.1)),
    "momentum": (lambda beta: sc.optimisers.momentum(0.1, beta), lambda beta: stability.heavy_ball(0.1, beta)),
    "nesterov": (lambda beta: sc.optimisers.nesterov(0.1, beta), lambda beta: stability.nesterov(0.1, beta)),
    "rmsprop": (lambda beta: sc.optimisers.rmsprop(0.1), lambda beta: stability.adam(0.1, 0.0)),
    "adam": (lambda beta: sc.optimisers.adam(0.1, beta), lambda beta: stability.adam(0.1, beta)),
    "adamw": (
        lambda beta: sc.optimisers.adamw(0.1, beta, weight_decay=0.3),
        lambda beta: stability.adam(0.1, beta, weight_decay=0.3),
    ),
}


@pytest.mark.parametrize("name", LIBRARY)
@pytest.mark.parametrize("beta", [0.0, 0.3, 0.9])
def test_the_optimisers_know_their_thresholds(name, beta):
    make, theory = LIBRARY[name]
    assert make(beta).threshold == pytest.approx(theory(beta).threshold, rel=1e-12)


@pytest.mark.parametrize("name", ["gd", "momentum", "nesterov"])
def test_the_optimisers_turn_unstable_at_the_threshold(name):
    optimiser = LIBRARY[name][0](0.9)
    curvature = optimiser.threshold * jnp.array([0.99, 1.01])
    run = sc.simulate(
        optimiser(lambda x: jnp.sum(curvature * x**2) / 2), jnp.ones(2), steps=2_000, probes={"x": sc.Probe(jnp.abs, 1)}
    )
    below, above = run.dataset.x.values[-1]
    assert below < 1e-3
    assert above > 1e3


@pytest.mark.parametrize("name", ["rmsprop", "adam"])
def test_the_adaptive_ones_turn_unstable_at_the_threshold_of_a_frozen_preconditioner(name):
    r"""With $\nu$ held by a decay next to one, $P^{-1/2}HP^{-1/2}$ is fixed while gradients are small."""
    still = 1 - 1e-12
    optimiser = sc.optimisers.rmsprop(0.1, still) if name == "rmsprop" else sc.optimisers.adam(0.1, 0.9, still)
    scale = jnp.array([1.0, 4.0])  # P, different in the two directions
    curvature = optimiser.threshold * scale * jnp.array([0.99, 1.01])
    system = optimiser(lambda x: jnp.sum(curvature * x**2) / 2)
    state = system.init(1e-9 * jnp.ones(2))
    # A late state, so that the corrections of Adam's averages have died out.
    average = state.inner[0]._replace(nu=scale**2)
    if name == "adam":
        average = average._replace(count=jnp.asarray(2**30), nu=scale**2 * (1 - still**2.0**30))
    state = state._replace(inner=(average, *state.inner[1:]))
    np.testing.assert_allclose(optimiser.preconditioner(state), scale, rtol=1e-6)
    steps = 400 if name == "rmsprop" else 150  # momentum leaves faster, and a large gradient would move P
    end = jax.lax.fori_loop(0, steps, lambda _, s: system.step(s), state)
    below, above = np.abs(end.params) / 1e-9
    assert below < 1e-2
    assert above > 1e2
