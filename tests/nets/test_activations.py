"""Activations are what they are called."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.polynomial import hermite_e
from scipy import special

from secant import nets
from secant.nets import activations
from secant.nets.activations import activate, listening, named

Z = np.linspace(-3, 3, 13)
FORMULAS = {
    "identity": Z,
    "relu": np.maximum(Z, 0),
    "leaky": np.where(Z > 0, Z, 0.01 * Z),
    "tanh": np.tanh(Z),
    "erf": special.erf(Z),
    "sigmoid": special.expit(Z),
    "swish": Z * special.expit(Z),
    "gelu": Z * special.ndtr(Z),
    "softplus": np.log1p(np.exp(Z)),
    "sin": np.sin(Z),
    "cos": np.cos(Z),
    "abs": np.abs(Z),
    "step": np.where(Z > 0, 1.0, 0.0),
    "sign": np.sign(Z),
    "exp": np.exp(Z),
    "rbf": np.sin(np.sqrt(2) * Z) + np.cos(np.sqrt(2) * Z),
    "sigmoid_like": 0.5 * special.erf(1 / 2.4020563531719796 * Z) + 0.5,
}


def test_each_activation_is_its_formula():
    assert set(FORMULAS) == set(nets.ACTIVATIONS)
    found = jax.jit(lambda z: {name: nets.ACTIVATIONS[name](z) for name in FORMULAS})(Z)
    for name, values in FORMULAS.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-13, atol=1e-15, err_msg=name)


@pytest.fixture(scope="module")
def derivatives():
    """First and second derivatives of every activation, at large and at small inputs."""

    def both(name, z):
        first = jax.grad(nets.ACTIVATIONS[name])
        return jax.vmap(first)(z), jax.vmap(jax.grad(first))(z)

    places = np.array([-800.0, -1.0, 0.0, 1.0, 800.0])
    with jax.enable_x64(True):
        return jax.device_get(jax.jit(lambda z: {name: both(name, z) for name in FORMULAS})(places))


@pytest.mark.parametrize("name", sorted(set(FORMULAS) - {"exp"}))
def test_derivatives_are_finite_even_at_large_inputs(derivatives, name):
    assert np.isfinite(derivatives[name]).all()


def test_the_gate_of_relu_is_closed_at_zero_and_its_second_derivative_vanishes(derivatives):
    first, second = derivatives["relu"]
    assert first[1:4].tolist() == [0, 0, 1]
    assert second[1:4].tolist() == [0, 0, 0]


def test_activations_have_parameters():
    several = (
        activations.leaky(0.2),
        activations.exp(2.0, -0.5),
        activations.rbf(0.5),
        activations.monomial(3),
        activations.sigmoid_like(1.0, 2.0, 3.0),
        activations.sigmoid_like(),
    )
    leaky, exp, rbf, cube, other, usual = jax.device_get(jax.jit(lambda z: [one(z) for one in several])(Z))
    np.testing.assert_allclose(leaky, np.where(Z > 0, Z, 0.2 * Z))
    np.testing.assert_allclose(exp, 2 * np.exp(-Z / 2), rtol=1e-14)
    np.testing.assert_allclose(rbf, np.sin(Z) + np.cos(Z), rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(cube, Z**3, rtol=1e-14)
    np.testing.assert_allclose(other, special.erf(2 * Z) + 3, rtol=1e-14)
    assert np.abs(usual - special.expit(Z)).max() < 0.02


def test_hermite_polynomials_are_those_of_numpy_and_orthonormal():
    coefficients = [0.3, -1.0, 0.0, 2.0, 0.5]
    scaled = [c / math.sqrt(math.factorial(k)) for k, c in enumerate(coefficients)]
    nodes, weights = hermite_e.hermegauss(20)
    values = np.asarray(jax.jit(activations.hermite(coefficients))(np.concatenate([Z, nodes])))
    np.testing.assert_allclose(values[: len(Z)], hermite_e.hermeval(Z, scaled), rtol=1e-12)
    mean_square = np.sum(weights * values[len(Z) :] ** 2) / weights.sum()
    np.testing.assert_allclose(mean_square, np.sum(np.square(coefficients)), rtol=1e-12)


def test_activations_of_the_same_parameters_are_one_and_say_so():
    assert activations.leaky(0.2) == activations.leaky(0.2) != activations.leaky(0.1)
    assert len({activations.monomial(2), activations.monomial(2), nets.ACTIVATIONS["relu"]}) == 2
    layer = nets.activation(activations.leaky(0.2)).layer
    assert layer.activation == "leaky(0.2)"
    assert layer.function.parameters == (0.2,)
    assert nets.activation("leaky").layer.activation == "leaky"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: activations.leaky(math.nan), "leaky: `slope` must be a finite number, got nan"),
        (lambda: activations.rbf(0), "rbf: `gamma` must be above 0, got 0.0"),
        (lambda: activations.monomial(1.5), "monomial: `degree` must be a whole number of at least 0, got 1.5"),
        (lambda: activations.hermite([]), "hermite: `coefficients` must hold at least one number"),
    ],
)
def test_bad_parameters_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_any_function_will_do():
    def cube(z):
        return z**3

    layer = nets.activation(cube)
    np.testing.assert_allclose(layer.apply((), jnp.array([[2.0]])), 8)
    assert layer.layer.activation == "cube"
    assert named(cube) == ("cube", cube)


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="Did you mean 'softplus'"):
        nets.activation("sotfplus")
    with pytest.raises(ValueError, match="Known activations: identity"):
        nets.activation("zzz")
    with pytest.raises(TypeError, match="must be a name or a function"):
        nets.activation(3)


def test_listening_ends_with_its_block():
    with listening() as heard:
        activate(jnp.tanh, jnp.ones(2))
    activate(jnp.tanh, jnp.ones(2))
    assert len(heard) == 1
