"""Kernels from signals: sums over positions, gradients of one parameter, and parameters used twice."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from secant import nets
from secant.curvature.tangent import layerwise as structured
from secant.curvature.tangent.layerwise import bytes_of_block, gram, structured_kernel, summed_kernel
from secant.curvature.tangent.signals import network_of, signals
from secant.nets import taps


@pytest.fixture(autouse=True)
def cut_however_few(monkeypatch):
    """Sets of samples are cut here as large ones are; whole ones are those of the tests of the tangent kernel."""
    monkeypatch.setattr(structured, "FEW", 0)


@pytest.fixture(autouse=True)
def signals_once(monkeypatch):
    """What parameters saw of a set of samples is found once in a program, and not for every way to the kernel."""
    found = {}

    def once(net, params, x, weigh=None):
        if id(x) not in found:
            found[id(x)] = (x, signals(net, params, x, weigh))
        return found[id(x)][1]

    monkeypatch.setattr(structured, "signals", once)


def kernels_and_jacobian(net, params, x, x2, others):
    """Kernels of `x` with itself or with `x2`, by shares and summed, and the Jacobian of both sets of samples."""

    def kernels(other):
        summed = summed_kernel(net, params, x, other)
        rows = summed.shape[0] * summed.shape[1]
        found = sum(share.reshape(rows, -1) for share in structured_kernel(net, params, x, other))
        return jnp.stack([found, summed.reshape(rows, -1)])

    flat, unravel = ravel_pytree(params)
    both = jnp.concatenate([x, x2])
    rows = jax.jacrev(lambda at: net.apply(unravel(at), both).reshape(-1))(flat)
    return [kernels(x2 if other else None) for other in others], rows


def check(compile_quickly, net, params, x, x2, others, slack=1e-11):
    """Against products of the rows of the Jacobian; `others` says which of them are between the two sets."""
    found, rows = compile_quickly(lambda *given: kernels_and_jacobian(net, *given, others))(params, x, x2)
    cut = len(rows) // (len(x) + len(x2)) * len(x)
    left, right = np.split(np.asarray(rows), [cut])
    for other, kernels in zip(others, found, strict=True):
        wanted = left @ (right if other else left).T
        np.testing.assert_allclose(kernels, np.stack([wanted, wanted]), atol=slack * np.abs(wanted).max(), rtol=0)


def test_larger_networks_have_the_kernel_of_their_jacobian(larger, case, compile_quickly):
    c = case(larger, 0)
    check(compile_quickly, c.net, c.params, c.x, c.x2, (True,))


@pytest.mark.parametrize(("samples", "outputs"), [(33, 1), (50, 1), (21, 3)])
def test_few_samples_are_cut_into_columns(samples, outputs, compile_quickly, drawn, monkeypatch):
    monkeypatch.setattr(structured, "FEW", 64)
    net = nets.mlp([2], outputs, activation="tanh")
    generator = np.random.default_rng(4)
    x, x2 = generator.normal(size=(samples, 3)), generator.normal(size=(2, 3))
    check(compile_quickly, net, drawn(net, x.shape, generator), x, x2, (False,))


def test_an_accelerator_multiplies_out_the_whole(case, monkeypatch):
    c = case("dense", 0)
    share = jax.eval_shape(lambda p, x: signals(c.net, p, x), c.params, c.x)[0]
    assert structured._step(share) < len(c.x)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert structured._step(share) == len(c.x)


HEADS = {
    "a residual block": lambda: nets.resnet((3,), 3, stem=2, activation="tanh", bias=True),
    "a convolution": lambda: nets.cnn([3, 2], 2, pool="average", activation="tanh", bias=True),
    "a norm": lambda: nets.resnet((2,), 3, norm="layer", activation="tanh"),
}


@pytest.mark.parametrize("below", HEADS)
def test_a_head_that_averages_makes_signals_alike(below, compile_quickly, drawn):
    net = HEADS[below]()
    generator = np.random.default_rng(3)
    x, x2 = generator.normal(size=(5, 4, 4, 2)), generator.normal(size=(2, 4, 4, 2))
    params = drawn(net, x.shape, generator)
    shared = [share.factors is not None for share in jax.eval_shape(lambda p, x: signals(net, p, x), params, x)]
    assert sum(shared) == {"a residual block": 2, "a convolution": 1, "a norm": 0}[below]
    others = {"a residual block": (False, True), "a convolution": (False,), "a norm": (True,)}[below]
    check(compile_quickly, net, params, x, x2, others, 1e-12)


@pytest.mark.parametrize("positions", [True, False])
def test_sums_over_positions_and_gradients_agree(case, compile_quickly, monkeypatch, positions):
    monkeypatch.setattr(structured, "_positions_are_cheaper", lambda *sizes: positions)
    c = case("signals", 1)
    check(compile_quickly, c.net, c.params, c.x, c.x2, (False, True))


W, ONES = np.random.default_rng(0).normal(size=(3, 3)), np.ones((3, 3))
MASKS = np.random.default_rng(1).integers(0, 2, (2, 3, 3)).astype(float)
USES = {
    "twice": lambda w, x: taps.linear(w, jnp.tanh(taps.linear(w, x, 0.5)), 2.0),
    "at several positions and at one": lambda w, x: taps.linear(w, jnp.tanh(taps.linear(w, x[:, None] * W)).sum(1)),
    "with two masks": lambda w, x: taps.linear(w, jnp.tanh(taps.linear(w, x, MASKS[0])), MASKS[1]),
    "with a mask and without": lambda w, x: taps.linear(w, jnp.tanh(taps.linear(w, x, MASKS[0]))),
    "as a matrix and as a shift": lambda w, x: taps.shift(w, jnp.tanh(taps.linear(w, x))[:, None] * ONES).sum(1),
    "as a shift twice": lambda w, x: taps.shift(w, jnp.tanh(taps.shift(w, x[:, None] * ONES))).sum(1),
    "as a gain twice": lambda w, x: taps.stretch(w, jnp.tanh(taps.stretch(w, x[:, None] * ONES, 0.3))).sum(1),
}


@pytest.mark.parametrize("use", USES)
def test_a_parameter_may_be_used_more_than_once(use, compile_quickly):
    net = nets.Network(lambda key, shape, dtype: (W, (3,)), USES[use])
    x, x2 = np.random.default_rng(2).normal(size=(2, 4, 3))
    check(compile_quickly, net, W, x, x2, (False, True))


def test_a_parameter_that_is_no_site_is_refused():
    net = nets.Network(lambda key, shape, dtype: (W, (3,)), lambda w, x: x @ w, name="careless")
    with pytest.raises(TypeError, match="careless: every parameter must enter through a site"):
        structured_kernel(net, jnp.asarray(W), np.ones((2, 3)))


@pytest.mark.parametrize("rows", [3, 319, 321, 700])
def test_only_half_of_a_gram_matrix_is_multiplied_and_all_of_it_returned(rows, compile_quickly):
    a = np.random.default_rng(0).normal(size=(rows, 5))
    np.testing.assert_allclose(compile_quickly(gram)(a), a @ a.T, atol=1e-12)


def test_only_the_apply_of_a_network_is_known_from_inside():
    net = nets.mlp([2])
    assert network_of(net.apply) is net
    for f in (net.init, net.run, lambda p, x: net.apply(p, x), jax.jit(net.apply), len):
        assert network_of(f) is None


def test_the_memory_of_a_block_is_counted(case):
    for name, k in product(("dense", "signals", "graph"), (1, 2)):
        c = case(name)
        needed = bytes_of_block(c.net, c.params, c.x)
        assert 0 < k * needed(1) <= needed(k) < needed(k + 1)
    # Many channels at many positions: what signals are multiplied out to is far larger than they are.
    net = nets.cnn([256], 10)
    params = jax.eval_shape(lambda key: net.init(key, (1, 4, 4, 256)), jax.random.key(0))
    needed = bytes_of_block(net, params, jax.ShapeDtypeStruct((8, 4, 4, 256), float))
    gradients = 8 * 10 * (9 * 256 * 256) * 8
    assert min(gradients, 8 * 8 * 16**2 * 100 * 8) < needed(8) < 3 * gradients
