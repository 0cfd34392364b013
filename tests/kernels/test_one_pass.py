"""Two layers in one pass: the same kernels as by the rule of each, on a GPU's program that is interpreted."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from secant import nets
from secant.kernels import blocks, kernel, network, one_pass

RULE = nets.Parametrization("ntk", gain=1.3)


@pytest.fixture
def in_one_pass(monkeypatch):
    """Programs for a GPU, interpreted here, with lists of pairs that fill its groups of threads."""

    calls, called = [], one_pass._called
    monkeypatch.setattr(one_pass, "_called", lambda *given: (calls.append(given[0]), called(*given))[1])

    def both(function):
        found = []
        for gpu in (False, True):
            assert not calls
            monkeypatch.setattr(one_pass, "on_gpu", lambda gpu=gpu: gpu)
            monkeypatch.setattr(network, "block_size", lambda *_: 32)
            blocks.compiled.cache_clear()
            found.append(function())
        blocks.compiled.cache_clear()
        assert len(calls) >= 2  # an activation and a convolution, an activation and a pool
        return found

    return both


def images(count, side, seed=0):
    with jax.enable_x64(False):
        return jnp.asarray(np.random.default_rng(seed).normal(size=(count, *side, 2)), jnp.float32)


def network_of(activation, bias=True):
    conv = lambda: nets.conv(4, 3, parametrization=RULE, bias=bias)  # noqa: E731
    act = lambda: nets.activation(activation)  # noqa: E731
    return nets.serial(
        conv(), act(), conv(), act(), nets.average_pool(2), conv(), act(), nets.global_average_pool(),
        nets.dense(1, parametrization=RULE),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("activation", "side"), [("relu", (4, 6)), (nets.activations.leaky(0.3), (5, 4)), ("abs", (4, 3))]
)
def test_one_pass_gives_the_kernels_of_two_rules(in_one_pass, activation, side):
    x, net = images(8, side), network_of(activation)
    plain, fused = in_one_pass(lambda: kernel(net, x))
    np.testing.assert_allclose(fused.nngp, plain.nngp, rtol=2e-6)
    np.testing.assert_allclose(fused.ntk, plain.ntk, rtol=1e-5)


def test_only_covariances_are_computed_where_no_tangent_kernel_is_wanted(in_one_pass):
    x, net = images(8, (4, 4)), network_of("relu", bias=False)
    plain, fused = in_one_pass(lambda: kernel(net, x, only="nngp"))
    np.testing.assert_allclose(fused.nngp, plain.nngp, rtol=2e-6)


def test_images_that_coincide_have_no_angle_and_black_ones_no_signal(in_one_pass):
    x = images(8, (4, 4)).at[1].set(0.0).at[2].set(1.0).at[3].set(1.0).at[4].set(-1.0)
    net = network_of("relu", bias=False)
    plain, fused = in_one_pass(lambda: kernel(net, x))
    np.testing.assert_allclose(fused.ntk, plain.ntk, rtol=1e-5, atol=1e-7)
    assert fused.ntk[2, 3] == fused.ntk[2, 2]
    assert not np.any(np.asarray(fused.ntk[1]))


def test_slopes_are_those_of_the_rules(in_one_pass):
    x, net = images(8, (4, 4)), network_of("relu")
    plain, fused = in_one_pass(lambda: jax.grad(lambda x: kernel(net, x).ntk.sum())(x))
    np.testing.assert_allclose(fused, plain, rtol=1e-4, atol=1e-5 * float(jnp.abs(plain).max()))
