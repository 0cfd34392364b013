"""The second derivative of a neuron, by its recursion over the graph."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from secant.core.device import jit
from secant.core.types import Params
from secant.nets.activations import Function
from secant.nets.graphs.graph import Graph
from secant.nets.graphs.network import edge_weights, neuron_activations


def pre_activation_hessian(
    graph: Graph,
    params: Params,
    x: Float[Array, "inputs"],
    neuron: Hashable,
    activation: str | Function = "tanh",
    *,
    exceptions: Mapping[Hashable, str | Function] | None = None,
) -> np.ndarray:
    r"""The Hessian of a neuron's pre-activation in all weights, for one sample.

    $$D^2 \tilde f_v = \frac{1}{\sqrt{\mathrm{in}(v)}} \sum_{u \to v} \left( w_{uv} D^2 f_u + e_{uv}\, D f_u^\top +
    D f_u\, e_{uv}^\top \right), \qquad
    D^2 f_u = \sigma'_u D^2 \tilde f_u + \sigma''_u\, D \tilde f_u\, D \tilde f_u^\top,$$

    where $e_{uv}$ is the unit vector of a weight and the derivatives of inputs are 0. Each neuron before $v$ costs one
    matrix of the size of the result, so this is for small graphs. There it shows exactly where curvature comes from.
    It runs on the host, in NumPy.

    Args:
        graph: the graph.
        params: of its network, [`dag`][secant.nets.dag].
        x: one sample.
        neuron: the label of $v$, not an input.
        activation: as given to `dag`.
        exceptions: as given to `dag`.

    Returns:
        The Hessian, shape `(parameters, parameters)`, in the order of [`edge_weights`][secant.nets.edge_weights].
    """
    labels = [graph.label(v) for v in range(graph.inputs, graph.neurons)]
    if neuron not in labels:
        raise ValueError(
            f"pre_activation_hessian: {neuron!r} is not a neuron of the graph that is computed. Pass the label of a "
            "neuron that is not an input."
        )
    functions = neuron_activations(graph, activation, exceptions)
    weights, size = np.asarray(edge_weights(graph, params)), graph.parameters
    # For every neuron so far: its value, its gradient, its Hessian.
    value: list[Any] = list(np.asarray(x))
    slope: list[Any] = [np.zeros(size)] * graph.inputs
    curve: list[Any] = [np.zeros((size, size))] * graph.inputs
    incoming = graph.incoming()
    for block, sigma in zip(graph.blocks, functions, strict=True):
        z, dz, ddz = [], [], []
        for own in (next(incoming) for _ in range(block.size)):
            wanted = weights[own.weights]
            f, df, ddf = (np.stack([kind[u] for u in own.sources]) for kind in (value, slope, curve))
            z.append(own.factor * wanted @ f)
            dz.append(own.factor * wanted @ df)
            dz[-1][own.weights] += own.factor * f
            cross = np.zeros((size, size))
            cross[own.weights] = df
            ddz.append(own.factor * (np.tensordot(wanted, ddf, 1) + cross + cross.T))
            if labels[len(value) - graph.inputs + len(z) - 1] == neuron:
                return ddz[-1]
        skips = [-1] * block.size if block.skips is None else block.skips.tolist()
        fresh = []
        for i, (f, first, second) in enumerate(zip(*_derivatives(sigma, np.stack(z)), strict=True)):
            bend = first * ddz[i] + second * np.outer(dz[i], dz[i])
            added = (0, 0, 0) if skips[i] < 0 else (value[skips[i]], slope[skips[i]], curve[skips[i]])
            fresh.append((f + added[0], first * dz[i] + added[1], bend + added[2]))
        for kind, new in zip((value, slope, curve), zip(*fresh, strict=True), strict=True):
            kind.extend(new)
    raise AssertionError("unreachable")


def _derivatives(sigma: Function, z: np.ndarray) -> tuple[np.ndarray, ...]:
    """An activation with its first and second derivative."""

    def twice(at: Array) -> Any:
        ones = jnp.ones_like(at)
        return jax.jvp(lambda at: jax.jvp(sigma, (at,), (ones,)), (at,), (ones,))

    (value, slope), (_, curve) = jit(twice, quick=True)(z)
    return np.asarray(value), np.asarray(slope), np.asarray(curve)
