"""How far the tangent kernel moves during training, for networks with a part of their edges removed."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant import data as datasets
from secant import losses
from secant.core.device import to_device
from secant.core.types import Params
from secant.curvature import kernel_drift
from secant.curvature.tangent.tangent_kernel import pair_kernel
from secant.dynamics import Probe, Stop, simulate
from secant.lab import unfold
from secant.nets import Network, graphs
from secant.nets.graphs.network import graph_of
from secant.optim import gradient_descent
from secant.studies.shared import width as wide
from secant.studies.shared.parts import edge_factors, part

Scaling = Literal["new", "original"]
"""Whether a neuron that lost edges is normalised by its present number of edges, or by its former number."""


class Training(NamedTuple):
    """The number of networks, and the settings of their training.

    Attributes:
        runs: random networks of each scaling.
        rate: share of the edges that is removed.
        steps: the most steps of gradient descent.
        every: steps between two looks at the kernel.
        target: loss at which a run ends.
        seed: seed of edges and weights.
    """

    runs: int
    rate: float
    steps: int
    every: int
    target: float
    seed: int


def two_classes(caller: str, name: str, samples: int, dim: int, seed: int) -> tuple[jax.Array, jax.Array, str]:
    """Inputs with unit mean square, signs as targets, and a description of the data.

    Args:
        caller: the name in the warning that a data set is missing.
        name: `gaussian`, `digits` or `cifar10`; digits replace a data set that is not there.
        samples: how many samples.
        dim: entries of a Gaussian point.
        seed: seed of the draw.
    """
    if name == "gaussian":
        random = np.random.default_rng(seed)
        x, y = random.normal(size=(samples, dim)), random.choice([-1.0, 1.0], samples)
        return to_device(x.astype(np.float32)), to_device(y.astype(np.float32)), "Gaussian points"
    titles = {"cifar10": "CIFAR-10", "digits": "digits"}
    choice: dict[str, Any] = {"classes": (0, 2), "samples": samples, "scaling": "global", "seed": seed}
    try:
        task, title = datasets.load(name, **choice), titles[name]
    except datasets.MissingDataError as error:
        warnings.warn(f"{caller}: {error} Digits stand in for it.", stacklevel=2)
        task, title = datasets.load("digits", **choice), titles["digits"]
    return to_device(task.train.x), to_device(task.train.y), f"{title}, classes 0 and 2"


def sparse_drift(
    net: Network, x: jax.Array, y: jax.Array, width: int, scalings: Sequence[Scaling], training: Training
) -> xr.Dataset:
    r"""Gradient descent with $\eta = 1/\lambda_{\max}(K_0)$ on half the sum of squares, from networks of one width.

    Both scalings have the same edges and weights.

    Returns:
        Over `scaling` and `network`: `drift`, the largest drift of the kernel; `excess`, how far the drift of an
        eigenvalue exceeds it; `loss` at the end; and `degree`, the smallest in-degree from the second layer on.
    """
    full = graph_of(net)
    keys = jax.random.split(jax.random.key(training.seed + width), training.runs)
    dropped = [graphs.drop_edges(full, key, training.rate, normalize=way) for way in scalings for key in keys]
    runs = {
        "params": wide.stacked(wide.drawn(net, x, (training.seed, width), training.runs) * len(scalings)),
        "factor": wide.stacked([edge_factors(graph, full) for graph in dropped]),
    }

    def outputs(params: Params, factor: Params, x: jax.Array) -> jax.Array:
        return net.apply(part(params, factor), x)

    # A run uses both functions several times: compiled on their own, they are traced only once.
    @jax.jit
    def kernel(params: Params, factor: Params) -> jax.Array:
        return pair_kernel(lambda p, x: outputs(p, factor, x))(params, x, None)

    first = jax.jit(lambda runs: jax.lax.map(lambda run: kernel(run["params"], run["factor"]), runs))(runs)
    runs |= {"kernel": first, "lr": 1 / jnp.linalg.eigvalsh(first)[:, -1]}

    @jax.jit
    def loss(params: Params, network: Params) -> jax.Array:
        return losses.half_sum(outputs(params, network["factor"], x), y)

    def look(params: Params, network: Params) -> dict[str, jax.Array]:
        start, now = network["kernel"], kernel(params, network["factor"])
        moves = jnp.abs(jnp.linalg.eigvalsh(now) - jnp.linalg.eigvalsh(start)) * network["lr"]
        return {"value": kernel_drift(start, now), "eigenvalue": jnp.max(moves)}

    every = training.every
    data = simulate(
        lambda network: gradient_descent(lambda p: loss(p, network), network["lr"]),
        lambda network: network["params"],
        training.steps,
        over={"network": runs},
        probes={"drift": Probe(look, every=every), "loss": Probe(loss, every=every)},
        stop=Stop(converged=lambda params, network: loss(params, network) < training.target, every=every),
        label=f"width {width}",
    ).dataset
    found = {
        "drift": data.drift.max("step"),
        "excess": (data.drift_eigenvalue - data.drift).max("step"),
        "loss": data.loss.isel(step=-1, drop=True),
        "degree": ("network", [graph.width for graph in dropped]),
    }
    return unfold(xr.Dataset(found), "network", scaling=scalings, network=range(training.runs))
