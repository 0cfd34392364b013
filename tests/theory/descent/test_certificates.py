"""The exact worst case of a first-order method."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secant.optim import optimisers
from secant.theory.descent import rates, step_matrices
from secant.theory.descent.certificates import worst_case
from secant.theory.edge import stability

TUNED = rates.heavy_ball(0.1, 1.0)

# Found by PEPit 0.5.1 with Clarabel 0.11.1 as its solver, to its accuracy of about 1e-6.
GOLDEN = {
    "gradient descent": (step_matrices.gradient([1.5] * 6), 0.0, "value", "distance", 0.026315790),
    "heavy ball": (stability.heavy_ball(TUNED.lr, TUNED.beta), 0.1, "distance", "distance", 0.683155434),
    "Nesterov's momentum": (stability.nesterov(0.5, 0.6), 0.05, "value", "value", 0.507491815),
    "accelerated": (step_matrices.accelerated(6), 0.0, "value", "distance", 0.027002856),
    "optimised": (step_matrices.optimised(5), 0.0, "value", "distance", 0.018588141),
    "silver steps": (step_matrices.silver(7), 0.0, "gradient", "distance", 0.005050636),
    "four steps, not convex": (
        step_matrices.gradient([1.0, 1.5, 0.5, 1.2]),
        -1.0,
        "least_gradient",
        "value",
        0.320997307,
    ),
    "momentum, not convex": (
        step_matrices.of(stability.heavy_ball(0.5, 0.4), 5),
        -1.0,
        "seen_gradient",
        "drop",
        0.391458420,
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_numbers_of_another_program(name):
    method, convex, measure, start, value = GOLDEN[name]
    steps = 6 if isinstance(method, stability.LinearRule) else None
    found = worst_case(method, steps, convex=convex, measure=measure, start=start)
    assert found.value == pytest.approx(value, rel=1e-6)
    assert found.replay().measure == pytest.approx(found.value, rel=1e-6)


@pytest.mark.parametrize("steps", [1, 4, 10])
def test_gradient_descent_and_the_optimised_method_have_their_closed_forms(steps):
    found = worst_case(step_matrices.gradient([0.25] * steps), smooth=4.0, size=3.0)
    assert found.value == pytest.approx(rates.convex_descent(3.0, 4.0, steps), rel=1e-8)
    best = worst_case(step_matrices.optimised(steps, 4.0), smooth=4.0, size=3.0)
    assert best.value == pytest.approx(rates.optimised(3.0, 4.0, steps), rel=1e-6)


@pytest.mark.parametrize("steps", [1, 2, 9])
def test_the_least_and_the_mean_of_the_gradients_that_were_seen(steps):
    run = {"smooth": 2.0, "convex": False, "start": "drop", "size": 3.0}
    least = worst_case(optimisers.gd(0.5), steps, measure="seen_gradient", **run)
    assert least.value == pytest.approx(rates.least_gradient(3.0, 2.0, steps), rel=1e-7)
    mean = worst_case(optimisers.gd(0.5), steps, measure="mean_gradient", **run)
    assert mean.value == pytest.approx(rates.gradient_descent(3.0, 2.0, steps), rel=1e-7)
    # With the last gradient among them, and above the infimum instead of above the last value.
    all_of_them = worst_case(optimisers.gd(0.5), steps, measure="least_gradient", **{**run, "start": "value"})
    assert all_of_them.value == pytest.approx(4 * 2 * 3 / (3 * steps + 2), rel=1e-7)


@pytest.mark.parametrize("lr", [0.4, 1.0, 1.7])
def test_strongly_convex_contractions(lr):
    found = worst_case(optimisers.gd(lr), 4, convex=0.2, measure="distance")
    factor = max(abs(1 - lr * 0.2), abs(1 - lr))
    assert found.value == pytest.approx(factor**8, rel=1e-7)
    values = worst_case(optimisers.gd(lr), 4, convex=0.2, start="value")
    assert values.value == pytest.approx(factor**8, rel=1e-7)


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 10_000), st.sampled_from([-1.0, -0.3, 0.0, 0.3]))
def test_random_methods_attain_their_worst_case_on_a_function_and_are_proved(seed, convex):
    random = np.random.default_rng(seed)
    matrix = np.tril(random.uniform(-0.2, 0.8, (3, 3)))
    found = worst_case(matrix, convex=convex, measure="gradient", start="value", smooth=3.0, size=0.7)
    if np.isinf(found.value):
        return
    replay = found.replay()
    assert replay.measure == pytest.approx(found.value, rel=1e-5)
    assert replay.values[0] <= 0.7 * (1 + 1e-6)
    np.testing.assert_allclose(replay.points, found.points, atol=1e-4 * np.abs(found.points).max())
    assert found.slack > -1e-7
    assert (found.multipliers > -1e-8).all()


def test_multipliers_of_gradient_descent_are_the_known_proof():
    """One step on convex losses: the inequalities between the minimum and both points, and between these."""
    found = worst_case(optimisers.gd(1.0), 1)
    np.testing.assert_allclose(found.multipliers.sum(0) - found.multipliers.sum(1), [0, 1, -1], atol=1e-7)


def test_without_a_guarantee_the_worst_case_is_infinite_and_cannot_be_replayed():
    found = worst_case(optimisers.gd(3.0), 3, convex=False, measure="seen_gradient", start="drop")
    assert found.value == np.inf
    with pytest.raises(ValueError, match="infinite"):
        found.replay()


def test_an_optimiser_attains_it_on_the_worst_function_itself():
    optimiser = optimisers.nesterov(0.5, 0.6)
    found = worst_case(optimiser, 4)
    state, x = optimiser.transformation.init(found.points[0]), found.points[0]
    for _ in range(4):
        move, state = optimiser.transformation.update(found.function(x)[1], state, x)
        x = x + np.asarray(move)
    assert found.function(x)[0] == pytest.approx(found.value, rel=1e-4)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"measure": "loss"}, "`measure` must be one of value"),
        ({"start": "near"}, "`start` must be one of distance"),
        ({"convex": 1.0}, "`convex` must be below `smooth`"),
        ({"smooth": 0.0}, "`smooth`"),
        ({"size": -1.0}, "`size`"),
    ],
)
def test_what_has_no_meaning_is_refused_by_name(settings, message):
    with pytest.raises(ValueError, match=message):
        worst_case(np.eye(2), **settings)


def test_gradient_dependent_steps_are_refused():
    with pytest.raises(ValueError, match="adam depend on the gradients"):
        worst_case(optimisers.adam(0.1), 3)


def test_without_the_solver_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "clarabel", None)
    with pytest.raises(ImportError, match=r"pip install \"secant\[convex\]\""):
        worst_case(np.eye(2))
