"""Dual activations are means over correlated Gaussians."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate

from secant.core.device import jit
from secant.kernels import dual
from secant.kernels.dual import CLOSED, _quadrature
from secant.nets import ACTIVATIONS, activations

SMOOTH = {
    "identity": ACTIVATIONS["identity"],
    "erf": ACTIVATIONS["erf"],
    "sigmoid_like": activations.sigmoid_like(1.3, 0.7, -0.4),
    "sin": ACTIVATIONS["sin"],
    "cos": ACTIVATIONS["cos"],
    "rbf": activations.rbf(0.4),
    "exp": activations.exp(0.8, 0.5),
    "gelu": ACTIVATIONS["gelu"],
    "monomial": activations.monomial(3),
    "hermite": activations.hermite([0.2, -0.5, 0.7, 0.1]),
}
# Functions of the angle: what they are of a cosine, and their slopes; each is homogeneous of degree 1 or 0.
KINKED = {
    "relu": (ACTIVATIONS["relu"], 1, lambda c: max(c, 0.0), lambda c: float(c > 0)),
    "leaky": (activations.leaky(0.3), 1, lambda c: c if c > 0 else 0.3 * c, lambda c: 1.0 if c > 0 else 0.3),
    "abs": (ACTIVATIONS["abs"], 1, abs, lambda c: math.copysign(1.0, c)),
    "sign": (ACTIVATIONS["sign"], 0, lambda c: math.copysign(1.0, c), lambda c: 0.0),
    "step": (ACTIVATIONS["step"], 0, lambda c: float(c > 0), lambda c: 0.0),
}
VARIANCES = st.floats(0.05, 2.0)
CORRELATIONS = st.floats(-1.0, 1.0)


def test_every_closed_form_is_tested():
    assert set(CLOSED) == set(SMOOTH) | set(KINKED)


@pytest.fixture(scope="module")
def integral():
    """The quadrature of a smooth activation with many nodes, compiled once."""
    return {name: jit(lambda a, b, c, f=f: _quadrature(f, a, b, c, 120), quick=True) for name, f in SMOOTH.items()}


@pytest.mark.parametrize("name", SMOOTH)
@settings(max_examples=15, deadline=None)
@given(q1=VARIANCES, q2=VARIANCES, rho=CORRELATIONS)
def test_a_closed_form_is_its_integral(integral, name, q1, q2, rho):
    k = rho * math.sqrt(q1 * q2)
    found = dual(SMOOTH[name], q1, q2, k)
    value, slope = integral[name](q1, q2, k)
    size = 1 + abs(float(value)) + abs(float(slope))
    np.testing.assert_allclose(found.value, value, rtol=0, atol=1e-10 * size)
    np.testing.assert_allclose(found.slope, slope, rtol=0, atol=1e-10 * size)


@pytest.mark.parametrize("name", KINKED)
@pytest.mark.parametrize("rho", [-1.0, -0.6, 0.0, 0.3, 0.999, 1.0])
def test_a_kinked_form_is_its_integral_over_the_angle(name, rho):
    sigma, degree, of_cosine, slope = KINKED[name]
    q1, q2, angle = 0.7, 1.9, math.acos(rho)
    kinks = sorted({a % (2 * math.pi) for b in (math.pi / 2, 3 * math.pi / 2) for a in (b, b + angle)})

    def mean(f):
        product = lambda a: f(math.cos(a)) * f(math.cos(a - angle))  # noqa: E731
        ends = [0.0, *kinks, 2 * math.pi]
        parts = [integrate.quad(product, low, high, epsabs=1e-13)[0] for low, high in itertools.pairwise(ends)]
        return sum(parts) / (2 * math.pi)

    found = dual(sigma, q1, q2, rho * math.sqrt(q1 * q2))
    # The square of the length of two standard normals is 2 on average.
    expected = mean(of_cosine) * (2 * math.sqrt(q1 * q2) if degree else 1)
    np.testing.assert_allclose(found.value, expected, rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(found.slope, mean(slope), rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("name", ["tanh", "swish", "softplus", "sigmoid"])
def test_a_quadrature_is_as_good_as_it_says(name):
    q1, q2, k = np.array([0.3, 1.0, 2.0, 8.0]), np.array([0.5, 1.0, 2.0, 8.0]), np.array([0.1, -0.9, 2.0, 4.0])
    found = jax.tree.map(np.asarray, dual(name, q1, q2, k))
    value, slope = jit(lambda *given: _quadrature(ACTIVATIONS[name], *given, 240), quick=True)(q1, q2, k)
    assert np.all(found.error[:3] < 1e-6)
    assert np.all(found.error[:2] < 1e-10)
    assert np.all(np.abs(found.value - value) <= found.error + 1e-14)
    assert np.all(np.abs(found.slope - slope) <= found.error + 1e-14)


def test_gauss_hermite_nodes_of_another_library_agree():
    nodes, weights = np.polynomial.hermite_e.hermegauss(90)
    u, v = np.sqrt(0.3) * nodes[:, None], np.sqrt(0.3) * (nodes[:, None] / 3 + np.sqrt(8 / 9) * nodes)
    expected = np.einsum("a,b,ab->", weights, weights, np.tanh(u) * np.tanh(v)) / weights.sum() ** 2
    np.testing.assert_allclose(dual("tanh", 0.3, 0.3, 0.1).value, expected, rtol=1e-11)


def test_any_function_has_a_dual_and_a_kink_is_seen_in_its_error():
    same = dual(lambda z: jnp.tanh(z), 1.0, 1.0, 0.5)
    assert same.value == pytest.approx(float(dual("tanh", 1.0, 1.0, 0.5).value), rel=1e-12)
    kinked = dual(lambda z: jnp.maximum(z, 0), 1.0, 1.0, 0.5)
    exact = dual("relu", 1.0, 1.0, 0.5)
    assert kinked.error > 1e-4
    assert abs(kinked.value - exact.value) <= kinked.error


@pytest.mark.parametrize("name", [*SMOOTH, *KINKED, "tanh"])
def test_limits_are_limits_and_have_slopes(name):
    sigma = SMOOTH.get(name) or (KINKED[name][0] if name in KINKED else name)
    q1 = np.array([1.0, 1.0, 1.0, 0.0, 0.0, 2.0])
    q2 = np.array([1.0, 1.0, 1.0, 0.0, 1.0, 0.5])
    k = np.array([1.0, -1.0, 1.0 + 1e-15, 0.0, 0.0, 1.0])  # coincident, opposite, rounded past it, zero, scaled

    def total(*args):
        found = dual(sigma, *args)
        return found.value.sum(), found

    slopes, found = jax.jit(jax.grad(total, argnums=(0, 1, 2), has_aux=True))(q1, q2, k)
    assert np.isfinite(found.value).all()
    assert np.isfinite(found.slope).all()
    assert np.isfinite(slopes).all()


@pytest.mark.parametrize("name", ["relu", "erf", "gelu", "sin", "monomial"])
def test_the_slope_is_the_derivative_in_the_covariance(name):
    # d/dk E s(u) s(v) = E s'(u) s'(v)
    sigma = SMOOTH.get(name) or KINKED[name][0]
    slope = jit(jax.grad(lambda k: dual(sigma, 0.8, 1.3, k).value), quick=True)(0.4)
    np.testing.assert_allclose(slope, dual(sigma, 0.8, 1.3, 0.4).slope, rtol=1e-12)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="dual: `nodes` must be a whole number of at least 10, got 2"):
        dual("tanh", 1.0, 1.0, 0.0, nodes=2)
    with pytest.raises(ValueError, match="unknown activation 'tanhh'"):
        dual("tanhh", 1.0, 1.0, 0.0)
    with pytest.raises(ValueError, match="dual: `q1` must hold finite numbers, got nan"):
        dual("relu", np.array([1.0, np.nan]), 1.0, 0.0)
    with pytest.raises(ValueError, match=r"dual: `q2` holds variances, which are at least 0, got -1\.0"):
        dual("relu", 1.0, -1.0, 0.0)


@pytest.mark.parametrize("name", ["relu", "sign", "gelu", "tanh"])
def test_nan_stays_nan_where_it_cannot_be_seen(name):
    assert np.isnan(jax.jit(lambda q: dual(name, q, 1.0, 0.5).value)(np.nan))
