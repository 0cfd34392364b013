"""Methods of fixed steps, as matrices."""

import math

import numpy as np
import optax
import pytest

from secant.optim import optimisers
from secant.theory.descent import step_matrices
from secant.theory.edge import stability


def played(matrix, gradient, x):
    """The points of the method on a function."""
    points, gradients = [np.asarray(x, float)], []
    for row, steps in enumerate(matrix):
        gradients.append(gradient(points[-1]))
        points.append(points[-1] - steps[: row + 1] @ np.stack(gradients))
    return np.stack(points)


@pytest.mark.parametrize("kind", ["heavy_ball", "nesterov"])
def test_a_rule_and_its_optimiser_have_one_matrix(kind):
    rule = getattr(stability, kind)(0.3, 0.7)
    optimiser = {"heavy_ball": optimisers.momentum, "nesterov": optimisers.nesterov}[kind](0.3, 0.7)
    np.testing.assert_allclose(step_matrices.of(rule, 6), step_matrices.of(optimiser, 6), atol=1e-14)


def test_a_rule_and_its_matrix_take_the_same_path():
    rule = stability.nesterov(0.2, 0.6)
    companion = np.asarray(rule.companion(1.5))
    state, path = np.array([1.0, 1.0]), [1.0]
    first = 1 - rule.gradient[0] * 1.5  # before the start there was no gradient
    state = np.array([first, 1.0])
    path.append(first)
    for _ in range(5):
        state = companion @ state
        path.append(state[0])
    matrix = step_matrices.of(rule, 6)
    np.testing.assert_allclose(played(matrix, lambda x: 1.5 * x, [1.0])[:, 0], path, atol=1e-13)


def test_gradient_descent_is_a_diagonal_with_schedules_too():
    np.testing.assert_array_equal(step_matrices.of(optimisers.gd(0.5), 3), 0.5 * np.eye(3))
    found = step_matrices.of(optimisers.gd(lambda step: 0.5**step), 3)
    np.testing.assert_allclose(found, step_matrices.gradient([1.0, 0.5, 0.25]), atol=1e-6)
    np.testing.assert_allclose(step_matrices.of(optax.sgd(0.1, 0.9), 2), [[0.1, 0], [0.09, 0.1]], atol=1e-12)


@pytest.mark.parametrize("best", [False, True])
def test_the_two_sequences_are_those_of_the_accelerated_methods(best):
    gradient = lambda x: np.array([3.0, 1.0, 0.2]) * x + np.sin(x)  # noqa: E731
    x = y = start = np.array([1.0, -2.0, 3.0])
    theta = 1.0
    for step in range(5):
        after = x - gradient(x) / 4
        following = (1 + math.sqrt(1 + (8 if best and step == 4 else 4) * theta**2)) / 2
        x = after + (theta - 1) / following * (after - y) + best * theta / following * (after - x)
        y, theta = after, following
    matrix = step_matrices.optimised(5, 4.0) if best else step_matrices.accelerated(5, 4.0)
    np.testing.assert_allclose(played(matrix, gradient, start)[-1], x if best else y, atol=1e-12)


def test_silver_steps():
    root = math.sqrt(2)
    np.testing.assert_allclose(np.diag(step_matrices.silver(7, 2.0)) * 2, [root, 2, root, 2 + root, root, 2, root])


def test_the_corner_of_a_matrix_is_the_beginning_of_the_run():
    matrix = step_matrices.optimised(5)
    np.testing.assert_array_equal(step_matrices.of(matrix, 3), matrix[:3, :3])


@pytest.mark.parametrize(
    "method",
    [optimisers.adam(0.1), optimisers.adagrad(0.1), optax.add_decayed_weights(0.1), optax.lion(0.1)],
    ids=["adam", "adagrad", "weight decay", "signs"],
)
def test_steps_that_depend_on_gradients_or_places_are_refused(method):
    with pytest.raises(ValueError, match=r"depend on the gradients or on where it is.*Use gd"):
        step_matrices.of(method, 3)


@pytest.mark.parametrize(
    ("method", "steps", "message"),
    [
        ([[1.0, 1.0], [0.0, 1.0]], None, "zero above its diagonal"),
        ([1.0, 2.0], None, "square"),
        ([[1.0]], 2, "the matrix has 1"),
        (stability.heavy_ball(0.1, 0.5), None, "number of steps of LinearRule is missing"),
        (stability.adam(0.1, 0.9, 0.1), 3, "sum to 1"),
    ],
)
def test_what_is_no_method_is_refused(method, steps, message):
    with pytest.raises(ValueError, match=message):
        step_matrices.of(method, steps)
    with pytest.raises(TypeError, match="no method of fixed steps"):
        step_matrices.of("gd", 3)
