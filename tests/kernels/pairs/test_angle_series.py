"""Kernels that are functions of the angle alone, against going through all layers."""

import jax
import numpy as np
import pytest

from secant import nets
from secant.kernels import kernel
from secant.kernels.pairs import angle_series, cpu

RULE = nets.Parametrization("standard", gain=2**0.5)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Of 32 samples in single precision, and of 22 in double."""
    monkeypatch.setattr("secant.kernels.pairs.blocks.VECTORS", 2**12)


def samples(dtype, count=75, seed=0):
    """So many that they are taken in blocks; among them coincident, opposite, nearly parallel and black ones."""
    x = np.random.default_rng(seed).normal(size=(count, 7))
    x[1], x[2], x[3], x[4], x[5] = x[0], -x[0], 0.0, 3 * x[0], x[0] + 1e-4 * x[6]
    return x.astype(dtype)


def with_shortcut():
    return nets.serial(
        nets.dense(8, parametrization=RULE), nets.residual(nets.serial(nets.activation("relu"), nets.dense(8))),
        nets.activation(nets.activations.leaky(0.2)), nets.dense(5, parametrization=RULE), nets.activation("relu"),
        nets.dense(1, parametrization=RULE),
    )  # fmt: skip


@pytest.mark.parametrize(("dtype", "rtol"), [(np.float32, 2e-6), (np.float64, 1e-12)])
@pytest.mark.parametrize(
    "net", [nets.mlp([6] * 5, activation="relu", parametrization=RULE), with_shortcut()], ids=["mlp", "residual"]
)
def test_a_series_is_what_the_layers_give(net, dtype, rtol, monkeypatch):
    x, size = samples(dtype), np.dtype(dtype).itemsize
    assert angle_series.curve(net, 7, True, size) is not None
    with jax.enable_x64(dtype == np.float64):
        short = kernel(net, x), kernel(net, x[:40], x)
    monkeypatch.setattr(cpu, "curve", lambda *_: None)
    with jax.enable_x64(True):
        long = kernel(net, x.astype(float))
    for which in ("nngp", "ntk"):
        exact = np.asarray(getattr(long, which))
        np.testing.assert_allclose(getattr(short[0], which), exact, rtol=rtol, atol=rtol * exact.max() / 10)
        np.testing.assert_allclose(getattr(short[1], which), exact[:40], rtol=rtol, atol=rtol * exact.max() / 10)
        assert not np.any(np.asarray(getattr(short[0], which))[3])


def test_covariances_alone(monkeypatch):
    net, x = nets.mlp([6] * 3, activation="relu", parametrization=RULE), samples(np.float64)
    found = kernel(net, x, only="nngp")
    assert found.ntk is None
    np.testing.assert_allclose(found.nngp, kernel(net, x).nngp, rtol=1e-13)


@pytest.mark.parametrize(
    "net",
    [
        nets.mlp([6] * 3, activation="relu", bias=True),
        nets.mlp([6] * 3, activation="tanh"),
        nets.serial(nets.dense(6), nets.layer_norm(), nets.activation("relu"), nets.dense(6), nets.activation("relu")),
    ],
    ids=["bias", "tanh", "norm"],
)
def test_what_is_not_homogeneous_goes_through_its_layers(net):
    assert not angle_series.is_homogeneous(net)
    assert angle_series.curve(net, 7, True, 4) is None


def test_few_layers_and_long_series_go_through_their_layers():
    assert angle_series.curve(nets.mlp([6], activation="relu"), 7, True, 4) is None
    assert angle_series.curve(nets.mlp([6] * 9, activation="abs"), 7, True, 8) is None
    assert angle_series.curve(nets.mlp([6] * 3, activation="relu"), 1, True, 4) is None
