"""A tiny network of every kind, with data, and its first and second derivative written out."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from secant import nets

VECTORS, SIGNALS, TOKENS, IMAGES = (3,), (6, 2), (3, 4), (4, 4, 1)


def _dropped():
    graph = nets.graphs.random(jax.random.key(5), 3, [3, 4], 2, in_degree=3)
    return nets.graphs.skip(nets.graphs.drop_edges(graph, jax.random.key(6), 0.3))


# Networks and shapes of a sample. Between them they have every layer, activation and parametrisation, biases or none,
# one output or several; and they are small, since what takes time is compiling them.
ZOO = {
    "dense": (
        lambda: nets.mlp([4, 3], 2, activation="tanh", output_activation="erf", parametrization="standard", bias=True),
        VECTORS,
    ),
    "two layers": (lambda: nets.two_layer(4), VECTORS),
    "linear": (lambda: nets.deep_linear([2], 3, parametrization="mean-field"), VECTORS),
    "concat": (lambda: nets.densenet([3, 2], activation="softplus", parametrization="pytorch", bias=True), VECTORS),
    "signals": (
        lambda: nets.serial(
            nets.conv(3, (3,), strides=2, padding="VALID", bias=True),
            nets.activation("leaky"),
            nets.average_pool((2,), strides=1),
            nets.activation("gelu"),
            nets.flatten(),
            nets.dense(2, last=True),
        ),
        SIGNALS,
    ),
    "images": (
        lambda: nets.serial(
            nets.conv(2, 2, bias=True, parametrization=nets.Parametrization("near-zero", spread=0.7)),
            nets.layer_norm(over="sample"),
            nets.residual(nets.serial(nets.activation("swish"), nets.conv(2)), nets.conv(2, 1)),
            nets.average_pool(2),
            nets.activation("sigmoid"),
            nets.global_average_pool(),
            nets.dense(1, last=True),
            nets.scalar(),
        ),
        IMAGES,
    ),
    "tokens": (
        lambda: nets.serial(nets.positions(), nets.attention(2), nets.layer_norm(), nets.global_average_pool()),
        TOKENS,
    ),
    "graph": (lambda: nets.dag(_dropped(), "sin"), VECTORS),
    "shared graph": (lambda: nets.dag(nets.graphs.convolutional(3, [2], window=2), "relu"), VECTORS),
}

# Larger ones, made of the same layers.
NAMED = {
    "cnn": (lambda: nets.cnn([2, 3], 2, activation="tanh"), IMAGES),
    "resnet": (lambda: nets.resnet((1, 2), 2, norm="layer", activation="tanh", bias=True), IMAGES),
    "myrtle5": (lambda: nets.myrtle5(2, width=1), IMAGES),
    "vit": (lambda: nets.vit(2, blocks=1, dim=4, heads=2, hidden=2, patch=2), IMAGES),
}


class Case(NamedTuple):
    """A network, two batches, parameters, and weights of the outputs."""

    net: nets.Network
    x: Any
    x2: Any
    params: Any
    v: Any


class Dense(NamedTuple):
    """Outputs, Jacobians and second derivatives, over flat parameters and flat outputs."""

    outputs: np.ndarray
    jacobian: np.ndarray
    second: np.ndarray
    jacobian2: np.ndarray


@functools.cache
def _network(name):
    make, shape = (ZOO | NAMED)[name]
    return make(), shape


def random_params(net, shape, generator):
    """Parameters of a network, none at its starting value: gains of 1 and shifts of 0 hide mistakes."""
    with jax.enable_x64(True):
        shapes = jax.eval_shape(lambda key: net.init(key, shape, jnp.float64), jax.random.key(0))
    return jax.tree.map(lambda leaf: generator.normal(size=leaf.shape), shapes)


def draw(name, seed=0, dtype=float, samples=3):
    """The network of this name with random data, drawn in float64 and rounded."""
    net, shape = _network(name)
    generator = np.random.default_rng(seed)
    params = random_params(net, (1, *shape), generator)
    x, x2 = (generator.normal(size=(n, *shape)) for n in (samples, 2))
    v = generator.normal(size=net.output_shape(x.shape))
    return Case(net, *jax.tree.map(lambda leaf: jax.device_put(np.asarray(leaf, dtype)), (x, x2, params, v)))


# The derivatives of a tiny network are compiled faster than they are optimised.
quick = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})


def written_out(net, params, x):
    """Flat outputs, their Jacobian and their second derivative, over flat parameters: the network is followed once."""
    flat, unravel = ravel_pytree(params)

    def outputs(at):
        found = net.apply(unravel(at), x).reshape(-1)
        return found, found

    def first(at):
        slopes, found = jax.jacrev(outputs, has_aux=True)(at)
        return slopes, (found, slopes)

    second, (found, slopes) = jax.jacfwd(first, has_aux=True)(flat)
    return found, slopes, second


@functools.cache
def _derivatives(name):
    net, _ = _network(name)

    def run(params, x, x2):
        return written_out(net, params, jnp.concatenate([x, x2]))

    return quick(run)


@pytest.fixture(params=ZOO)
def name(request):
    """Every network in turn."""
    return request.param


@pytest.fixture(params=NAMED)
def larger(request):
    """Every larger network in turn."""
    return request.param


@pytest.fixture(scope="session")
def case():
    """`name, seed, dtype -> Case`."""
    return draw


@pytest.fixture(scope="session")
def dense():
    """`name, case -> Dense`, in float64."""

    def derivatives(name, case):
        wide = jax.tree.map(lambda leaf: np.asarray(leaf, float), (case.params, case.x, case.x2))
        outputs, slopes, second = jax.tree.map(np.asarray, _derivatives(name)(*wide))
        rows = len(outputs) // (len(case.x) + len(case.x2)) * len(case.x)
        return Dense(outputs[:rows], slopes[:rows], second[:rows], slopes[rows:])

    return derivatives


@pytest.fixture(scope="session")
def compile_quickly():
    return quick


@pytest.fixture(scope="session")
def derivatives():
    """`network, parameters, batch -> outputs, Jacobian, second derivative`, flat, to be traced."""
    return written_out


@pytest.fixture(scope="session")
def drawn():
    """`network, shape, generator -> parameters` that nobody chose."""
    return random_params
