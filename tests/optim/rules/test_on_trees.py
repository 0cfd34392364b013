"""Rules that are no optimisers of optax train somebody else's tree of parameters, on batches."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import secant as sc
from secant.theory.bias import potentials

RULES = {
    "steepest, l1": lambda loss: sc.steepest_descent(loss, 1, 0.05),
    "steepest, spectral": lambda loss: sc.steepest_descent(loss, "spectral", 0.02),
    "mirror": lambda loss: sc.mirror_descent(loss, potentials.hypentropy(1.0), 0.01),
    "newton": lambda loss: sc.newton(loss, ridge=1.0),
    "perturbed": lambda loss: sc.perturbed(loss, 0.1, 0.01, below=1e-3, wait=10),
}


@pytest.fixture(scope="module")
def problem():
    """A Flax network on 24 samples, with its parameters as Flax keeps them."""
    net = nn.Sequential([nn.Dense(4), nn.tanh, nn.Dense(1)])
    x = np.random.default_rng(0).normal(size=(24, 3))
    y = np.tanh(x[:, :1] - x[:, 1:2])
    params = net.init(jax.random.key(0), jnp.asarray(x))
    return sc.Problem(net.apply, jnp.asarray(x), jnp.asarray(y), "mse"), params


@pytest.mark.parametrize("name", RULES)
def test_a_rule_trains_a_tree_of_flax_on_batches(name, problem):
    task, params = problem
    run = sc.train(
        task, params, steps=40, rule=RULES[name], batches=sc.Batches(12, seed=0), probes={"loss": sc.measure.loss()}
    )
    assert jax.tree.structure(run.state) == jax.tree.structure(params)
    assert float(run.dataset.loss[-1]) < 0.9 * float(run.dataset.loss[0])
