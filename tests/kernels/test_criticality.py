"""Critical variances, and what becomes of signals with them and without (lectures of 9/19)."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from secant.core.device import jit
from secant.kernels import critical_points, next_covariance, susceptibilities
from secant.nets import activations


@functools.partial(jit, quick=True, static_argnums=0)
def layers(name, state, depth, weights, biases):
    def layer(_, state):
        return tuple(next_covariance(name, *state, weights=weights, biases=biases))

    return jax.lax.fori_loop(0, depth, layer, state)


def iterate(name, state, depth, *, weights, biases=0.0):
    """Variances and covariance of two inputs behind so many layers."""
    return tuple(map(float, layers(name, state, depth, weights, biases)))


@pytest.mark.parametrize(
    ("name", "weights"), [("identity", 1.0), ("relu", 2.0), (activations.leaky(0.2), 2 / 1.04), ("abs", 1.0)]
)
def test_what_has_no_scale_is_critical_at_every_variance(name, weights):
    (found,) = critical_points(name)
    assert found.kind == "scale-invariant"
    assert found.weights == pytest.approx(weights, rel=1e-12)
    assert found.biases == 0
    np.testing.assert_allclose(susceptibilities(name, np.array([0.1, 7.0]), found.weights), 1, rtol=1e-12)


@pytest.mark.parametrize(("name", "weights"), [("tanh", 1.0), ("sin", 1.0), ("erf", math.pi / 4)])
def test_odd_and_bounded_functions_are_critical_at_zero_alone(name, weights):
    (found,) = critical_points(name)
    assert found == (pytest.approx(weights), 0.0, 0.0, "zero")


@pytest.mark.parametrize(
    ("name", "weights", "biases", "variance"),
    [("gelu", 1.9830582574, 0.1729223908, (3 + math.sqrt(17)) / 2), ("swish", 1.9880046783, 0.5551431707, 14.3201736)],
)
def test_smooth_gates_are_critical_at_one_variance(name, weights, biases, variance):
    (found,) = critical_points(name)
    np.testing.assert_allclose(found[:3], (weights, biases, variance), rtol=1e-8)
    assert found.kind == "half-stable"
    np.testing.assert_allclose(susceptibilities(name, found.variance, found.weights), 1, rtol=1e-10)


@pytest.mark.parametrize(("name", "weights", "variance"), [("tanh", 1.5, 0.4), ("gelu", 2.0, 1.3), ("relu", 1.7, 2.0)])
def test_susceptibilities_are_derivatives_of_the_map(name, weights, variance):
    def size(q):
        return next_covariance(name, q, q, q, weights=weights, biases=0.1)[0]

    def both(k):
        return next_covariance(name, variance, variance, k, weights=weights, biases=0.1)[2]

    parallel, perpendicular = susceptibilities(name, variance, weights)
    near = variance * (1 - 1e-6)  # at the variance itself a kink has no slope
    slopes = jit(lambda: (jax.grad(size)(variance), jax.grad(both)(near)), quick=True)()
    np.testing.assert_allclose(slopes[0], parallel, rtol=1e-8)
    np.testing.assert_allclose(slopes[1], perpendicular, rtol=2e-3 if name == "relu" else 1e-5)


def test_variances_of_tanh_fall_as_one_over_twice_the_depth():
    state = iterate("tanh", (1.0, 1.0, 0.5), 100, weights=1.0)
    assert 200 * state[0] == pytest.approx(1.01380, abs=2e-4)


def test_angles_of_relu_close_as_the_square_of_the_depth():
    correlations = [iterate("relu", (1.0, 1.0, 0.0), depth, weights=2.0)[2] for depth in (1, 2, 3)]
    np.testing.assert_allclose(correlations, [1 / math.pi, 0.4937, 0.6048], atol=5e-5)
    late = iterate("relu", (1.0, 1.0, 0.0), 100, weights=2.0)[2]
    assert (1 - late) * 100**2 / (9 * math.pi**2 / 2) == pytest.approx(0.805, abs=1e-3)


def test_off_the_critical_point_differences_change_exponentially():
    fixed = iterate("tanh", (1.0, 1.0, 1.0), 200, weights=1.5, biases=0.1)[0]
    assert fixed == pytest.approx(0.5202161, abs=1e-7)
    parallel = susceptibilities("tanh", fixed, 1.5).parallel
    near = [iterate("tanh", (fixed + 1e-4,) * 3, depth, weights=1.5, biases=0.1)[0] - fixed for depth in (4, 5)]
    assert near[1] / near[0] == pytest.approx(float(parallel), rel=1e-3)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match=r"`between` must be two rising numbers above 0, got \(1.0, 0.5\)"):
        critical_points("tanh", between=(1.0, 0.5))


def test_a_function_of_ones_own_will_do():
    (found,) = critical_points(lambda z: 2 * jnp.tanh(z / 2))
    assert found.weights == pytest.approx(1.0)


@pytest.mark.parametrize(("bent", "falls"), [(0.5, True), (0.9, False)])
def test_variances_fall_to_zero_only_if_the_function_bends_little(bent, falls):
    # s = tanh + b tanh^2: -s'''/s' - 3/4 (s''/s')^2 = 2 - 3 b^2 at zero
    def function(z):
        return jnp.tanh(z) + bent * jnp.tanh(z) ** 2

    assert any(point.kind == "zero" for point in critical_points(function)) == falls
