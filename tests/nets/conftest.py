"""A small network of every kind, with inputs and parameters."""

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from secant import nets

IMAGES, VECTORS, SIGNALS = (3, 8, 8, 2), (4, 5), (3, 6, 2)
BIASED = {"activation": "tanh", "parametrization": "standard", "bias": True}


class Backward:
    """A network and its backward pass, with what the sites see; compiled once for all tests."""

    def __init__(self, net):
        self.net, self.owners, self.taps = net, [], None
        # to optimise the code of such small networks would take longer than it saves
        self.compiled = jax.jit(self.pull, compiler_options={"xla_backend_optimization_level": 0})

    def pull(self, params, taps, x, cotangents):
        def run(params, taps):
            outputs, found, _ = nets.observe(lambda: self.net.apply(params, x), taps)
            leaves = jax.tree.leaves(params)
            place = [next(i for i, leaf in enumerate(leaves) if leaf is site.weight) for site in found]
            self.owners[:] = [(i, site.kind) for i, site in zip(place, found, strict=True)]
            return outputs, [(site.inputs, site.scale) for site in found]

        outputs, pull, halves = jax.vjp(run, params, taps, has_aux=True)
        return outputs, *pull(cotangents.reshape(outputs.shape)), halves

    def __call__(self, params, x, sample=0):
        """Outputs, gradient of a sample's last output in the parameters, the same in the taps, inputs and scales."""
        if self.taps is None:
            self.taps = nets.taps.zeros_like_outputs(lambda: self.net.apply(params, x))
            self.shape = self.net.output_shape(x.shape)
        cotangents = np.zeros((self.shape[0], math.prod(self.shape[1:])))
        cotangents[sample, -1] = 1.0
        return jax.device_get(self.compiled(params, self.taps, x, cotangents))


class Case(NamedTuple):
    """A network and what it should do."""

    net: nets.Network
    backward: Any
    x: Any
    params: Any
    outputs: tuple[int, ...]
    parameters: int


def _graph():
    graph = nets.graphs.random(jax.random.key(5), 5, [6, 7], 2, in_degree=4)
    return nets.graphs.skip(nets.graphs.drop_edges(graph, jax.random.key(6), 0.3))


# network, shape of the inputs, shape of one output, numbers in the parameters
ZOO = {
    "linear": (lambda: nets.mlp([]), VECTORS, (), 5),
    "mlp": (lambda: nets.mlp([6, 7]), VECTORS, (), 30 + 42 + 7),
    "biased mlp": (lambda: nets.mlp([6], 3, output_activation="sin", **BIASED), VECTORS, (3,), 36 + 21),
    "deep_linear": (lambda: nets.deep_linear([3, 4], 2), VECTORS, (2,), 15 + 12 + 8),
    "two_layer": (lambda: nets.two_layer(9), VECTORS, (), 45 + 9),
    "densenet": (lambda: nets.densenet([3, 4], 2), VECTORS, (2,), 15 + 8 * 4 + 12 * 2),
    "densenet without input": (
        lambda: nets.densenet([3, 4], concat_input=False, **BIASED),
        VECTORS,
        (),
        18 + 3 * 4 + 4 + 7 + 1,
    ),
    "dag": (lambda: nets.dag(_graph(), "sin"), VECTORS, (2,), 5 * 6 + 11 * 7 + 18 * 2),
    "shared dag": (
        lambda: nets.dag(nets.graphs.convolutional(5, [2, 3]), "sin"),
        VECTORS,
        (),
        3 * 2 + 6 * 3 + 15,
    ),
    "cnn": (lambda: nets.cnn([3, 4], 2), IMAGES, (2,), 9 * 2 * 3 + 9 * 3 * 4 + 64 * 4 * 2),
    "pooled cnn": (lambda: nets.cnn([3], pool="average", **BIASED), IMAGES, (), 9 * 2 * 3 + 3 + 3 + 1),
    "cnn of signals": (lambda: nets.cnn([3, 4], window=(3,)), SIGNALS, (), 3 * 2 * 3 + 3 * 3 * 4 + 6 * 4),
    "resnet": (
        lambda: nets.resnet((2, 3), 2, norm="layer", bias=True),
        IMAGES,
        (2,),
        # stem; two convolutions with norms; the same with a projection; norm and readout
        (36 + 2) + (2 * (4 + 36 + 2)) + (4 + 54 + 3 + 6 + 81 + 3 + 6 + 3) + 6 + 8,
    ),
    "wide_resnet": (
        lambda: nets.wide_resnet(10, 2, base=1),
        IMAGES,
        (),
        # channels 1 -> 2 -> 4 -> 8, two convolutions and a projection each
        18 + sum(9 * (a * b + b * b) + a * b for a, b in ((1, 2), (2, 4), (4, 8))) + 8,
    ),
    "myrtle5": (lambda: nets.myrtle5(3, width=2), IMAGES, (3,), 9 * (4 + 8 + 32 + 128) + 16 * 3),
    "vit": (
        lambda: nets.vit(2, blocks=1, dim=4, heads=2, patch=4, bias=True),
        IMAGES,
        (2,),
        # patches of 32 numbers, 4 tokens; in a block: two norms, four dense layers, two dense layers
        33 * 4 + 16 + (2 * 8 + 4 * 20 + 5 * 8 + 9 * 4) + 8 + 5 * 2,
    ),
}


@functools.cache
def build(name):
    """Made once, inside the first test that wants it: there numbers have 64 bits."""
    make, shape, outputs, parameters = ZOO[name]
    net = make()
    x = jnp.asarray(np.random.default_rng(0).normal(size=shape))
    return Case(net, Backward(net), x, net.init(jax.random.key(1), shape), outputs, parameters)


@pytest.fixture(scope="session")
def backward():
    return Backward


@pytest.fixture(params=ZOO)
def case(request):
    return build(request.param)
