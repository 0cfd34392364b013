"""Recommended variances for a network, and how deep it can be with its own."""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from secant.core.device import jit
from secant.kernels.criticality import CriticalPoint, critical_points, next_variance, susceptibilities
from secant.nets.activations import Function
from secant.nets.layers import Activation, Conv, Dense, Layer
from secant.nets.network import Network
from secant.nets.parametrization import Parametrization

LAYERS = 2_000
"""Layers through which variances are followed to their fixed point."""


class Recommendation(NamedTuple):
    r"""What to draw weights and biases with, and what the network does as it is.

    Attributes:
        activation: name of the network's activation.
        point: variances $C_w$ and $C_b$ with which depth does no harm; None if there are none.
        parametrization: the network's own with these variances; None if there are none, or if it has no gains.
        weights: $C_w$ of the network's hidden layers as they are.
        biases: $C_b$ of the network's hidden layers as they are.
        variance: of signals deep inside the network as it is: 0 where they fade, infinite where they explode.
        parallel: factor of a small difference in size a layer, there.
        perpendicular: factor of a small difference in direction a layer, there.
        depth: layers in which a difference in direction changes by a factor of $e$, $1/|\log\chi_\perp|$. A network
            many times as deep cannot tell inputs apart, or makes all of them equally different.
    """

    activation: str
    point: CriticalPoint | None
    parametrization: Parametrization | None
    weights: float
    biases: float
    variance: float
    parallel: float
    perpendicular: float
    depth: float


def recommend(net: Network) -> Recommendation:
    r"""Variances of weights and biases for a network, and how deep it can be with its own.

    Args:
        net: a network of dense layers or convolutions, all with one activation.

    Example:
        ```python
        import secant as sc

        rule = sc.nets.Parametrization("ntk", gain=1.5)
        deep = sc.nets.mlp([256] * 30, activation="tanh", bias=True, parametrization=rule)
        found = sc.recommend(deep)
        print(f"C_w = {found.weights:.2f}: a difference changes by e in {found.depth:.1f} layers")
        print(f"use C_w = {found.point.weights:.2f}, C_b = {found.point.biases:.2f} ({found.point.kind})")
        ```
        ```text
        C_w = 2.25: a difference changes by e in 3.5 layers
        use C_w = 1.00, C_b = 0.00 (zero)
        ```
    """
    if not isinstance(net, Network):
        raise TypeError(f"recommend: `net` must be a secant.nets.Network, got {type(net).__name__}. See `secant.lift`.")
    layers = list(_layers(net))
    used = {layer.activation: layer.function for layer in layers if isinstance(layer, Activation)}
    used.pop("identity", None)
    weighted = [layer for layer in layers if isinstance(layer, Dense | Conv)]
    if len(used) != 1 or len(weighted) < 2:
        raise ValueError(
            f"recommend: {net.name} must have at least two layers of weights and one kind of activation between them, "
            f"got {len(weighted)} and {sorted(used) or 'none'}."
        )
    ((name, function),) = used.items()
    hidden = weighted[1] if len(weighted) > 2 else weighted[0]
    rule, fan_in = hidden.parametrization, _width(weighted[0])
    if rule.name == "near-zero":
        raise ValueError(
            "recommend: `near-zero` draws do not fall with the width. Use 'ntk', 'standard', 'mean-field' or 'mup'."
        )
    weights = fan_in * rule.weight(fan_in, _width(hidden)).variance
    # Biases of `pytorch` vanish with the width.
    biases = rule.bias(fan_in, _width(hidden)).variance if hidden.bias and rule.name != "pytorch" else 0.0
    points = critical_points(function)
    point = points[0] if points else None
    better = None
    if point is not None and rule.name != "pytorch":
        better = replace(rule, gain=math.sqrt(point.weights), bias_gain=math.sqrt(point.biases))
    invariant = point is not None and point.kind == "scale-invariant"
    here = [p for p in points if np.allclose((weights, biases), (p.weights, p.biases), rtol=1e-6, atol=1e-12)]
    if here and not invariant:  # where variances come to rest slowly, or from one side only
        variance = at = here[0].variance
    else:
        variance, at = _deep(function, weights, biases, invariant)
    chi = [float(part) for part in susceptibilities(function, at, weights)]
    depth = math.inf if abs(chi[1] - 1) < 1e-9 else 1 / abs(math.log(chi[1])) if chi[1] > 0 else 0.0
    return Recommendation(name, point, better, weights, biases, variance, chi[0], chi[1], depth)


def _layers(net: Network) -> Any:
    """All layers in their order."""
    if net.parts:
        for part in net.parts:
            yield from _layers(part)
    elif isinstance(net.layer, Layer):
        yield net.layer


def _width(layer: Dense | Conv) -> int:
    return layer.features if isinstance(layer, Dense) else layer.channels * math.prod(layer.window)


def _deep(function: Function, weights: float, biases: float, invariant: bool) -> tuple[float, float]:
    """The variance of signals deep inside, and one at which differences are looked at."""
    if invariant:  # of ReLU and the like the factors are the same at every variance
        factor = float(next_variance(function, 1.0, weights=weights, biases=0.0))
        grows = math.inf if biases > 0 else 1.0
        limit = biases / (1 - factor) if factor < 1 else (grows if math.isclose(factor, 1) else math.inf)
        return limit, 1.0
    found = float(_followed(function)(np.ones((), jnp.result_type(float)), weights, biases))
    if not math.isfinite(found):
        return math.inf, 1e6
    return found, found


@functools.lru_cache(maxsize=64)
def _followed(function: Function) -> Any:
    """A variance behind many layers, of the one in front of them and of the variances of weights and biases."""

    def run(K: Array, weights: Any, biases: Any) -> Array:
        layer = functools.partial(next_variance, function, weights=weights, biases=biases)
        return jax.lax.fori_loop(0, LAYERS, lambda _, K: layer(K), K)

    return jit(run, quick=True)


__all__ = ["Recommendation", "recommend"]
