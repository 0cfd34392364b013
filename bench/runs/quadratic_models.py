"""Rows of quadratic models: training one against training the network it expands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import secant as sc
from bench.row import Row, alternate, row
from secant.core.device import jit
from secant.expansion import Method, expand

WIDTH, SAMPLES, FEATURES, STEPS = 5_000, 128, 784, 20


def images() -> tuple[np.ndarray, np.ndarray]:
    """Two digits of MNIST; where it is not on this machine, random numbers of its shape, which cost the same."""
    try:
        return tuple(sc.data.load("mnist", classes=(3, 8), samples=SAMPLES, test_samples=1, scaling="channel").train)
    except sc.data.MissingDataError:
        random = np.random.default_rng(0)
        x = random.standard_normal((SAMPLES, FEATURES), dtype=np.float32)
        return x, np.sign(random.standard_normal(SAMPLES)).astype(np.float32)


def trained(outputs: Callable[[Any], Any], y: Any, lr: float) -> Callable[[Any], Any]:
    """Some steps of gradient descent on the mean squared error, as one compiled loop."""
    rule = sc.gradient_descent(lambda params: sc.losses.mean_mse(outputs(params), y), lr)
    run = jit(lambda params: jax.lax.fori_loop(0, STEPS, lambda _, state: rule.step(state), params))
    return lambda params: jax.block_until_ready(run(params))


def against_network(name: str, method: Method, target: float) -> Row:
    x, y = map(jnp.asarray, images())
    net = sc.nets.two_layer(WIDTH)
    params = net.init(jax.random.key(0), x.shape, jnp.float32)
    lr = 0.5 * sc.critical_lr(net.apply, params, x, y, sc.losses.mean_mse).ntk
    quadratic = trained(expand(net.apply, params, 2, method=method).on(x), y, lr)
    network = trained(lambda p: net.apply(p, x), y, lr)
    # Below the critical step a network this wide and its quadratic model stay close together.
    ends = [net.apply(end(params), x) for end in (quadratic, network)]
    error = float(jnp.abs(ends[0] - ends[1]).max())
    assert error < 0.1, f"the outputs after {STEPS} steps differ by {error:.1e}"
    mine, theirs = alternate(lambda: quadratic(params), lambda: network(params))
    how = "behind frozen gates" if method == "gated" else "by repeated differentiation"
    work = f"{STEPS} steps on the quadratic model {how} of a two-layer ReLU network of width 5,000, 128 MNIST images"
    return Row(name, work, "the same steps on the network itself", theirs, mine, target)


@row
def nqm_train() -> Row:
    return against_network("nqm_train", "gated", 1.5)


@row
def nqm_train_general() -> Row:
    return against_network("nqm_train_general", "general", 6)
