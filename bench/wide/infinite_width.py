"""Rows of networks of infinite width: ours against neural-tangents, both kernels at once, float32."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bench import environments
from bench.row import Row, row, seconds
from secant import nets
from secant.kernels import kernel
from secant.nets import Network

HE = nets.Parametrization("ntk", gain=2**0.5)


def compare(
    name: str, work: str, net: Network, architecture: str, shape: tuple[int, ...], target: float, two: bool = False
) -> Row:
    """Checks that both give the same kernels, then times them one after the other."""
    random = np.random.default_rng(0)
    inputs = {"x": random.normal(size=shape).astype(np.float32)}
    inputs |= {"y": random.normal(size=shape).astype(np.float32)} if two else {}
    report = environments.run("neural-tangents", "neural_tangents_limit", inputs, architecture=architecture)
    best, method = report.best()
    x, y = jnp.asarray(inputs["x"]), jnp.asarray(inputs["y"]) if two else None

    def ours() -> Any:
        return jax.block_until_ready(kernel(net, x, y))

    found = ours()
    for which in ("nngp", "ntk"):
        mine, theirs = np.asarray(getattr(found, which)), report.arrays[which]
        error = np.abs(mine - theirs).max() / np.abs(theirs).max()
        assert error < 5e-3, f"the {which} differ by {error:.1e}"  # float32 of theirs is 1e-3 off near coincidence
    versions = report.versions
    peer = f"neural-tangents {versions['neural-tangents']} on JAX {versions['jax']}, {best}"
    return Row(name, work, peer, method.median, seconds(ours), target, "at least")


def _dense(activation: str) -> Network:
    return nets.mlp([64] * 5, activation=activation, parametrization=HE)


@row
def kernel_fcn_relu() -> Row:
    work = "kernels of 5 hidden layers of ReLU, 1,000 samples of 784 features"
    return compare("kernel_fcn_relu", work, _dense("relu"), "relu", (1000, 784), target=4)


@row
def kernel_fcn_relu_two() -> Row:
    work = "kernels of 5 hidden layers of ReLU, 1,000 samples with 1,000 others"
    return compare("kernel_fcn_relu_two", work, _dense("relu"), "relu", (1000, 784), target=2.5, two=True)


@row
def kernel_fcn_erf() -> Row:
    work = "kernels of 5 hidden layers of erf, 1,000 samples of 784 features"
    return compare("kernel_fcn_erf", work, _dense("erf"), "erf", (1000, 784), target=3)


@row
def kernel_cnn_gap() -> Row:
    net = nets.cnn([64] * 3, pool="average", parametrization=HE)
    work = "kernels of 3 convolutions with a global pool, 8 images of 16 x 16 x 3"
    return compare("kernel_cnn_gap", work, net, "gap", (8, 16, 16, 3), target=40)


@row
def kernel_cnn_flatten() -> Row:
    net = nets.cnn([64] * 3, parametrization=HE)
    work = "kernels of 3 convolutions, flattened, 64 images of 16 x 16 x 3"
    return compare("kernel_cnn_flatten", work, net, "flatten", (64, 16, 16, 3), target=4)
