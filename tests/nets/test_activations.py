"""Activations are what they are called."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from secant import nets
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
}


def test_each_activation_is_its_formula():
    assert set(FORMULAS) == set(nets.ACTIVATIONS)
    for name, values in FORMULAS.items():
        np.testing.assert_allclose(nets.ACTIVATIONS[name](jnp.asarray(Z)), values, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("name", FORMULAS)
def test_derivatives_are_finite_even_at_large_inputs(name):
    first = jax.grad(nets.ACTIVATIONS[name])
    for z in (-800.0, 0.0, 800.0):
        assert np.isfinite(first(z))
        assert np.isfinite(jax.grad(first)(z))


def test_the_gate_of_relu_is_closed_at_zero_and_its_second_derivative_vanishes():
    slope = jax.grad(nets.ACTIVATIONS["relu"])
    assert [slope(z) for z in (-1.0, 0.0, 1.0)] == [0, 0, 1]
    assert [jax.grad(slope)(z) for z in (-1.0, 0.0, 1.0)] == [0, 0, 0]


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
