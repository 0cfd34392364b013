import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from secant.theory.bias import deep_linear


def product(layers):
    whole = layers[0]
    for layer in layers[1:]:
        whole = layer @ whole
    return whole


@given(st.integers(1, 5), st.integers(0, 100))
def test_balanced_layers_have_their_product_and_no_imbalance(depth, seed):
    W = np.random.default_rng(seed).normal(size=(3, 4))
    layers = deep_linear.balanced(W, depth)
    np.testing.assert_allclose(product(layers), W, atol=1e-12)
    for left in deep_linear.imbalance(layers):
        np.testing.assert_allclose(left, 0, atol=1e-12)


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
@pytest.mark.parametrize("shape", [(3, 4), (4, 3), (3, 3)])
def test_the_product_moves_as_its_layers_move_it(depth, shape):
    rng = np.random.default_rng(depth)
    W, gradient = rng.normal(size=(2, *shape))
    layers = deep_linear.balanced(W, depth)
    h, moved = 1e-7, []
    for k, layer in enumerate(layers):
        before = product(layers[:k]) if k else np.eye(shape[1])
        after = product(layers[k + 1 :]) if k + 1 < depth else np.eye(shape[0])
        moved.append(layer - h * after.T @ gradient @ before.T)
    rate = (product(moved) - product(layers)) / h
    np.testing.assert_allclose(deep_linear.product_rate(W, gradient, depth), rate, atol=1e-4)


@pytest.mark.parametrize("depth", [1, 2, 3, 5])
def test_times_are_integrals_of_one_over_the_rate(depth):
    s = np.array([0.01, 0.5, 1.2])
    by_quadrature = [quad(lambda x: 1 / deep_linear.mode_rate(x, 1.3, depth), 1e-3, end, limit=400)[0] for end in s]
    np.testing.assert_allclose(deep_linear.time_to(s, 1.3, 1e-3, depth), by_quadrature, rtol=1e-7)


def test_bad_numbers_are_named():
    with pytest.raises(ValueError, match="`s` must lie between"):
        deep_linear.time_to(2.0, 1.0, 0.1, 2)
    with pytest.raises(ValueError, match="`start`"):
        deep_linear.time_to(0.5, 1.0, 0.0, 2)
    with pytest.raises(ValueError, match="layer 2 reads 2 numbers, layer 1 gives 3"):
        deep_linear.imbalance([np.ones((3, 3)), np.ones((3, 2))])
