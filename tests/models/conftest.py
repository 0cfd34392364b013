"""Small models of every library, each beside the same function written by hand."""

import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx

X = np.random.default_rng(0).normal(size=(5, 3))
IMAGES = np.random.default_rng(1).normal(size=(5, 3, 3, 1))
Y = np.random.default_rng(2).normal(size=(5, 2))


class Case(NamedTuple):
    """What a user has and passes, inputs, and the same as a function of parameters."""

    given: tuple
    x: np.ndarray
    f: Any
    params: Any


class NNX(nnx.Module):
    """A perceptron with all that is no parameter: statistics, keys, counts, modes."""

    def __init__(self, rngs):
        self.first = nnx.Linear(3, 3, param_dtype=float, rngs=rngs)
        self.norm = nnx.BatchNorm(3, param_dtype=float, rngs=rngs)
        self.drop = nnx.Dropout(0.5, rngs=rngs)
        self.last = nnx.Linear(3, 2, param_dtype=float, rngs=rngs)

    def __call__(self, x):
        return self.last(self.drop(jnp.tanh(self.norm(self.first(x)))))


class Linen(linen.Module):
    """A convolutional network that is told whether it trains."""

    @linen.compact
    def __call__(self, x, train: bool):
        x = linen.Conv(2, (2, 2), padding="VALID", param_dtype=float)(x)
        x = jnp.tanh(linen.BatchNorm(use_running_average=not train, param_dtype=float)(x))
        x = linen.Dropout(0.5, deterministic=not train)(x)
        return linen.Dense(2, param_dtype=float)(x.reshape(len(x), -1))


def normalised(z, mean, var, scale, bias, eps=1e-5):
    return (z - mean) / jnp.sqrt(var + eps) * scale + bias


def an_nnx():
    module, draw = NNX(nnx.Rngs(0)), np.random.default_rng(3)
    mean, var = jax.device_put((draw.normal(size=3), draw.uniform(0.5, 2.0, 3)))
    module.norm.mean, module.norm.var = nnx.BatchStat(mean), nnx.BatchStat(var)
    params = {
        "w1": module.first.kernel[...],
        "b1": module.first.bias[...],
        "scale": module.norm.scale[...],
        "bias": module.norm.bias[...],
        "w2": module.last.kernel[...],
        "b2": module.last.bias[...],
    }

    def f(p, x):
        hidden = jnp.tanh(normalised(x @ p["w1"] + p["b1"], mean, var, p["scale"], p["bias"]))
        return hidden @ p["w2"] + p["b2"]

    return Case((module,), X, f, params)


def a_linen():
    module, draw = Linen(), np.random.default_rng(3)
    variables = jax.jit(lambda key, x: module.init(key, x, train=False))(jax.random.key(0), IMAGES)
    mean, var = jax.device_put((draw.normal(size=2), draw.uniform(0.5, 2.0, 2)))
    variables = {**variables, "batch_stats": {"BatchNorm_0": {"mean": mean, "var": var}}}

    def f(p, x):
        kernel, (scale, shift) = p["Conv_0"]["kernel"], (p["BatchNorm_0"]["scale"], p["BatchNorm_0"]["bias"])
        patches = jnp.stack([x[:, i : i + 2, j : j + 2, 0].reshape(-1, 4) for i in range(2) for j in range(2)], 1)
        z = patches @ kernel.reshape(4, 2) + p["Conv_0"]["bias"]
        hidden = jnp.tanh(normalised(z, mean, var, scale, shift))
        return hidden.reshape(len(x), -1) @ p["Dense_0"]["kernel"] + p["Dense_0"]["bias"]

    return Case((module, variables), IMAGES, f, variables["params"])


def an_equinox():
    module = eqx.nn.MLP(3, 2, 4, 1, activation=jnp.tanh, key=jax.random.key(0))
    params = [(layer.weight, layer.bias) for layer in module.layers]

    def f(p, x):
        (w1, b1), (w2, b2) = p
        return jnp.tanh(x @ w1.T + b1) @ w2.T + b2

    return Case((module,), X, f, params)


def with_state():
    """An Equinox model whose statistics live beside it, and which drops out units when it trains."""

    def make():
        keys = jax.random.split(jax.random.key(0))
        return eqx.nn.Sequential(
            [
                eqx.nn.Linear(3, 3, key=keys[0]),
                eqx.nn.BatchNorm(3, "batch", mode="ema"),
                eqx.nn.Lambda(jnp.tanh),
                eqx.nn.Dropout(0.5),
                eqx.nn.Linear(3, 2, key=keys[1]),
            ]
        )

    module, state = eqx.nn.make_with_state(make)()
    draw = np.random.default_rng(3)
    mean, var = jax.device_put((draw.normal(size=3), draw.uniform(0.5, 2.0, 3)))
    state = state.set(module.layers[1].ema_state_index, (mean, var))
    first, norm, _, _, last = module.layers
    params = [first.weight, first.bias, norm.weight, norm.bias, last.weight, last.bias]

    def f(p, x):
        return jnp.tanh(normalised(x @ p[0].T + p[1], mean, var, p[2], p[3])) @ p[4].T + p[5]

    return Case((module, state), X, f, params)


def a_function():
    draw = np.random.default_rng(4)
    params = {"first": draw.normal(size=(3, 4)), "last": draw.normal(size=(4, 2))}

    def f(p, x):
        return jnp.tanh(x @ p["first"]) @ p["last"]

    return Case((f, params), X, lambda p, x: jnp.tanh(x @ p["first"]) @ p["last"], params)


CASES = {
    "nnx": an_nnx,
    "linen": a_linen,
    "equinox": an_equinox,
    "equinox with a state": with_state,
    "a function": a_function,
}


@pytest.fixture(params=CASES)
def case(request):
    """Every model in turn."""
    return made(request.param)


@functools.cache
def made(name):
    """A model that no test changes."""
    return CASES[name]()


@pytest.fixture
def of_library():
    """A model of one library, by name, made anew."""
    return lambda name: CASES[name]()


@pytest.fixture
def targets():
    return Y
