"""Backpropagation on graphs: derivatives by other ways, work by counting, tied weights, time."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secant import nets
from secant.theory.descent import backprop


def random_graph(seed, widths=(3, 3), in_degree=3, skips=False):
    graph = nets.graphs.random(jax.random.key(seed), 3, widths, in_degree=in_degree)
    return nets.graphs.skip(graph, jax.random.key(seed + 1)) if skips else graph


def drawn(graph, seed):
    rng = np.random.default_rng(seed)
    return rng.normal(size=graph.parameters), rng.normal(size=graph.inputs)


def differences(function, at, step=1e-6):
    unit = np.eye(len(at))
    return np.array([(function(at + step * e) - function(at - step * e)) / (2 * step) for e in unit])


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**16), st.integers(1, 5), st.booleans(), st.sampled_from(["tanh", "sin", "identity"]))
def test_messages_are_derivatives_by_differences_and_the_naive_way(seed, in_degree, skips, activation):
    graph = random_graph(seed, in_degree=in_degree, skips=skips)
    w, x = drawn(graph, seed)
    found = backprop.gradient(graph, w, x, activation)
    slow = backprop.naive(graph, w, x, activation)
    np.testing.assert_allclose(found.nodes, slow.nodes, atol=1e-12 * np.abs(slow.nodes).max())
    value = lambda w, x: backprop.gradient(graph, w, x, activation).value  # noqa: E731
    np.testing.assert_allclose(found.weights, differences(lambda w: value(w, x), w), atol=1e-6)
    np.testing.assert_allclose(found.nodes[: graph.inputs], differences(lambda x: value(w, x), x), atol=1e-6)
    v = np.random.default_rng(seed + 1).normal(size=len(w))
    along = lambda t: backprop.gradient(graph, w + t * v, x, activation).weights  # noqa: E731
    product = backprop.hessian_product(graph, w, x, v, activation)
    np.testing.assert_allclose(product.product, (along(1e-6) - along(-1e-6)) / 2e-6, atol=1e-6)
    added = sum(int((block.skips >= 0).sum()) for block in graph.blocks if block.skips is not None)
    assert found.operations == 3 * graph.edges + added
    assert product.operations == 8 * graph.edges + added


@pytest.mark.parametrize("activation", ["tanh", "relu", "gelu"])
def test_networks_have_the_same_gradient_and_hessian(activation):
    graph = random_graph(0, skips=True)
    net = nets.dag(graph, activation)
    w, x = drawn(graph, 1)

    def f(w):
        return net.apply(nets.with_edge_weights(graph, w), jnp.asarray(x)[None])[0]

    both = jax.jit(lambda w: (f(w), jax.grad(f)(w), jax.hessian(f)(w)))
    value, gradient, hessian = both(jnp.asarray(w))
    found = backprop.gradient(graph, w, x, activation)
    assert found.value == pytest.approx(float(value), abs=1e-12)
    np.testing.assert_allclose(found.weights, gradient, atol=1e-12)
    v = np.random.default_rng(2).normal(size=len(w))
    product = backprop.hessian_product(graph, w, x, v, activation).product
    np.testing.assert_allclose(product, hessian @ v, atol=1e-11)


def test_the_derivative_in_a_shared_weight_is_the_sum_over_its_edges():
    graph = nets.graphs.convolutional(5, [2, 3], window=3)
    w, x = drawn(graph, 0)
    found = backprop.gradient(graph, w, x)
    assert len(found.edges) > len(found.weights) == graph.parameters
    value = lambda w: backprop.gradient(graph, w, x).value  # noqa: E731
    np.testing.assert_allclose(found.weights, differences(value, w), atol=1e-8)
    assert found.edges.sum() == pytest.approx(found.weights.sum(), abs=1e-12)


@pytest.mark.parametrize("inputs", [0, 2])
def test_backpropagation_through_time_is_that_of_the_loop(inputs):
    n, steps, rng = 3, 6, np.random.default_rng(0)
    graph, tie = backprop.unroll(n, inputs, steps)
    matrix, x = rng.normal(size=(n, inputs + n)), rng.normal(size=steps * inputs + n)
    out = rng.normal(size=n)

    def f(matrix):
        h = x[steps * inputs :]
        for step in range(steps):
            z = matrix @ np.concatenate([x[step * inputs : (step + 1) * inputs], h]) / np.sqrt(inputs + n)
            h = np.tanh(z) if step < steps - 1 else z
        return out @ h

    found = backprop.gradient(graph, matrix.ravel(), x, tie=tie, output=out)
    assert found.value == pytest.approx(f(matrix), abs=1e-13)
    exact = differences(lambda w: f(w.reshape(matrix.shape)), matrix.ravel())
    np.testing.assert_allclose(found.weights, exact, atol=1e-8)
    assert found.operations == 3 * steps * n * (n + inputs)


def test_work_is_linear_in_the_neurons_and_that_of_the_naive_way_quadratic():
    sizes, counts = np.array([200, 400, 800]), []
    for size in sizes:
        graph = nets.graphs.random(jax.random.key(0), 4, [4] * (size // 4), in_degree=3)
        w, x = drawn(graph, 0)
        counts.append((backprop.gradient(graph, w, x).operations, backprop.naive(graph, w, x).operations))
    linear, quadratic = np.polyfit(np.log(sizes), np.log(counts), 1)[0]
    assert linear == pytest.approx(1, abs=0.01)
    assert quadratic == pytest.approx(2, abs=0.05)


def test_what_does_not_fit_is_refused_by_name():
    graph = random_graph(0)
    w, x = drawn(graph, 0)
    several = nets.graphs.fully_connected(2, [2], 2)
    for call, name in (
        (lambda: backprop.gradient(graph, w[1:], x), "weights"),
        (lambda: backprop.naive(graph, w, x[1:]), "x"),
        (lambda: backprop.hessian_product(graph, w, x, w[1:]), "v"),
        (lambda: backprop.gradient(several, np.ones(8), np.ones(2)), "output"),
        (lambda: backprop.gradient(graph, w, x, output=np.ones(2)), "output"),
        (lambda: backprop.gradient(graph, w, x, tie=np.zeros(3, int)), "tie"),
        (lambda: backprop.gradient(graph, w, x, tie=np.full(graph.edges, -1)), "tie"),
        (lambda: backprop.unroll(0, 1, 1), "neurons"),
    ):
        with pytest.raises(ValueError, match=f"`{name}`"):
            call()
