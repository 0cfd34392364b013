"""Models of other libraries are measured as they are: Flax linen, Flax nnx, Equinox, and plain functions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import secant as sc

X = np.random.default_rng(0).normal(size=(4, 3))
Y = np.random.default_rng(1).normal(size=(4, 2))


def linen():
    from flax import linen as nn

    class Model(nn.Module):
        @nn.compact
        def __call__(self, x):
            return nn.Dense(2, param_dtype=float)(
                jnp.tanh(nn.LayerNorm(param_dtype=float)(nn.Dense(3, param_dtype=float)(x)))
            )

    model = Model()
    return model.apply, jax.jit(model.init)(jax.random.key(0), X)


def nnx():
    from flax import nnx

    class Model(nnx.Module):
        def __init__(self, rngs):
            self.first = nnx.Linear(3, 3, param_dtype=float, rngs=rngs)
            self.last = nnx.Linear(3, 2, param_dtype=float, rngs=rngs)

        def __call__(self, x):
            return self.last(jnp.tanh(self.first(x)))

    graph, params = nnx.split(Model(nnx.Rngs(0)), nnx.Param)
    return lambda p, x: nnx.merge(graph, p)(x), params


def equinox():
    import equinox as eqx

    model = eqx.nn.MLP(3, 2, 3, 1, activation=jnp.tanh, key=jax.random.key(0))
    params, static = eqx.partition(model, eqx.is_inexact_array)
    return lambda p, x: jax.vmap(eqx.combine(p, static))(x), params


def plain():
    generator = np.random.default_rng(2)
    params = {"hidden": [generator.normal(size=(3, 3)), np.zeros(3)], "last": generator.normal(size=(3, 2))}
    return lambda p, x: jnp.tanh(x @ p["hidden"][0] + p["hidden"][1]) @ p["last"], params


@pytest.mark.parametrize("library", [linen, nnx, equinox, plain])
def test_models_of_any_library_are_measured(library, compile_quickly):
    f, params = library()
    flat, unravel = ravel_pytree(params)

    def outputs(at):
        return f(unravel(at), X).reshape(-1)

    def loss(at):
        return sc.losses.mean_mse(f(unravel(at), X), Y)

    J, H = map(np.asarray, compile_quickly(lambda at: (jax.jacrev(outputs)(at), jax.hessian(loss)(at)))(flat))
    kernel = J @ J.T
    np.testing.assert_allclose(sc.ntk(f, params, X).dense(), kernel, atol=1e-10)
    shares = sc.curvature.ntk_per_parameter(f, params, X)
    assert jax.tree.structure(shares) == jax.tree.structure(params)
    np.testing.assert_allclose(sum(map(np.asarray, jax.tree.leaves(shares))), kernel, atol=1e-10)
    # Vectors have the structure of the model's own parameters.
    operator = sc.hessian(f, params, X, Y, "mean_mse")
    top = operator.top(2)
    np.testing.assert_allclose(top.values, np.linalg.eigvalsh(H)[:-3:-1], atol=1e-8)
    assert jax.tree.structure(top.vectors) == jax.tree.structure(params)
    first, largest = jax.tree.map(lambda leaf: np.asarray(leaf)[0], top.vectors), np.asarray(top.values)[0]
    jax.tree.map(lambda got, v: np.testing.assert_allclose(got, largest * v, atol=1e-8), operator.mv(first), first)


def test_their_critical_steps_are_found():
    f, params = plain()
    step = sc.critical_lr(f, params, X, Y, "mean_mse")
    sharpness = np.linalg.eigvalsh(sc.hessian(f, params, X, Y, "mean_mse").dense())[-1]
    assert step.exact == pytest.approx(2 / sharpness, rel=1e-6)
    assert step.ntk == pytest.approx(4 / np.linalg.eigvalsh(sc.ntk(f, params, X).dense())[-1], rel=1e-6)
