"""The tangent kernel of a Taylor polynomial from its layers, against that from its Jacobian."""

import jax
import numpy as np
import pytest

from secant import nets
from secant.curvature.tangent.tangent_kernel import pair_kernel
from secant.expansion import expand
from secant.measure.polynomial_kernel import has_structure, polynomial_kernel


def a_model(order, outputs=1, widths=(6, 4), **options):
    """A polynomial of a small network, parameters away from where it is expanded, and inputs."""
    random = np.random.default_rng(0)
    x = random.normal(size=(7, 5))
    net = nets.mlp(widths, outputs=outputs, **options)
    shapes = jax.eval_shape(lambda key: net.init(key, x.shape), jax.random.key(0))
    origin, params = (jax.tree.map(lambda leaf: random.normal(size=leaf.shape), shapes) for _ in range(2))
    return expand(net.apply, origin, order), params, x


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("bias", [False, True])
def test_layers_and_jacobian_give_one_kernel(order, bias):
    # Biases are what a layer adds: without them fewer layers show the same.
    model, params, x = a_model(order, activation="erf", bias=bias, widths=(6, 4) if bias else (6,))
    assert has_structure(model, params, x)
    by_jacobian = np.asarray(jax.jit(pair_kernel(model))(params, x, None))
    rtol = 1e3 * np.finfo(by_jacobian.dtype).eps
    by_layers = jax.jit(lambda p: polynomial_kernel(model, p, x))(params)
    np.testing.assert_allclose(by_layers, by_jacobian, rtol=rtol, atol=rtol * np.abs(by_jacobian).max())


def test_several_outputs_and_frozen_gates_are_left_to_the_jacobian():
    assert not has_structure(*a_model(2, outputs=2, activation="erf"))
    assert not has_structure(*a_model(3, activation="relu"))
    assert not has_structure(*a_model(0, activation="erf"))
