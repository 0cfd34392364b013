"""Activations of infinite width: means over Gaussians."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp

from secant.kernels.arc_cosine import arc
from secant.kernels.dual import CLOSED, quadrature
from secant.kernels.layers.gpu import Bend, can_take
from secant.kernels.layers.rule import Rule, applied
from secant.kernels.propagation.place import Need, Place
from secant.kernels.propagation.signal import Signal, Signals, largest_error
from secant.nets.activations import Function, Nonlinearity
from secant.nets.layers import Activation

ODD = ("identity", "tanh", "erf", "sin", "sign")
"""Activations that give Gaussians of mean zero a mean of zero; odd powers do so too."""

SMOOTH = ("identity", "erf", "tanh", "sin", "cos", "gelu", "swish", "softplus", "rbf", "exp")
"""Activations for which it does not matter to how many digits two inputs nearly coincide."""


def behind(layer: Activation, signals: Signals, place: Place) -> Signals:
    """A function of every feature."""
    if layer.activation == "identity":
        return signals
    return tuple(_activated(layer, signal, place, number) for number, signal in enumerate(signals))


def _activated(layer: Activation, signal: Signal, place: Place, number: int) -> Signal:
    if not signal.gaussian:
        raise ValueError(
            f"kernel: the activation `{layer.activation}` at {place} is given signals that are not Gaussian, "
            "for which there is no kernel. Put a dense layer or a convolution in front of it."
        )
    function = layer.function
    name = function.name if isinstance(function, Nonlinearity) else ""
    parameters = function.parameters if isinstance(function, Nonlinearity) else ()
    odd = name in ODD or (name == "monomial" and parameters[0] % 2 == 1)
    plain = signal.with_(cov=signal.cov, gap=signal.gap, gaussian=False, centred=odd)
    bend = bend_of(function)
    if bend is not None:
        return _bent(plain, bend, place, number)
    q1, q2 = (size**2 for size in signal.sizes)
    cov, errors = signal.covariance, [signal.error]
    if name in CLOSED:
        value, slope = CLOSED[name](q1, q2, cov, *parameters)
    else:
        value, slope, error = quadrature(function, q1, q2, cov, place.on.nodes)
        errors.append(jnp.max(error))
    ntk: Any = None if signal.ntk is None else signal.ntk * slope
    if signal.gains is not None:
        stretched, _, error = quadrature(_stretched(function), q1, q2, cov, place.on.nodes)
        errors.append(jnp.max(error))
        ntk = ntk + stretched
    found = plain.with_(cov=value, ntk=ntk, gains=None, error=largest_error(*errors))
    return place.sized(place.kept(found), number)


def bend_of(function: Function) -> float | None:
    """The slope of an activation below zero, if it is a straight line there and the identity above."""
    if not isinstance(function, Nonlinearity) or function.name not in ("relu", "leaky", "abs"):
        return None
    return {"relu": 0.0, "abs": -1.0}[function.name] if function.name != "leaky" else float(function.parameters[0])


@functools.lru_cache(maxsize=64)
def _stretched(function: Function) -> Function:
    r"""$z\,\sigma'(z)$: how a neuron moves with a gain in front of it."""
    return lambda z: jax.jvp(function, (z,), (z,))[1]


def _bent(signal: Signal, slope: float, place: Place, number: int) -> Signal:
    r"""Behind $z \mapsto \max(z, 0) + a \min(z, 0)$: an odd part, and an even one, the absolute value."""
    odd, even = ((1 + slope) / 2) ** 2, ((1 - slope) / 2) ** 2
    if place.alone and not (signal.full and signal.positions):  # each signal with itself: no angle
        return place.sized(place.kept(signal.with_(cov=(odd + even) * signal.covariance, gains=None)), number)
    on_both: Any
    keep = list if place.on.never is None else place.on.held
    gap, on_both = arc(signal.gaps, slope=signal.ntk is not None, keep=keep)
    if odd != even:  # for ReLU the gap is the polynomial's
        gap = (odd * signal.gaps + even * (2 * gap - signal.gaps)) / (odd + even)
    ntk: Any = None if signal.ntk is None else signal.ntk * (odd - even + 2 * even * on_both)
    if signal.gains is not None:  # a gain stretches the neuron itself
        ntk = ntk + (odd + even) * signal.scale * (1 - gap)
    signal = signal.with_(cov=signal.cov, gap=signal.gap, gains=None)
    if place.alone or not place.sizes_behind or signal.positions:
        return place.sized(place.kept(signal.with_(cov=(odd + even) * signal.scale * (1 - gap), ntk=ntk)), number)
    return place.kept(signal.with_(gap=gap, ntk=ntk, sizes=place.sizes(signal, number)))


def bend_on_a_gpu(layer: Any, signal: Signal) -> Bend | None:
    """An activation with a bend, for a signal that a GPU can take through it and through the layer that reads it."""
    slope = bend_of(layer.function) if isinstance(layer, Activation) else None
    if slope is None or not signal.gaussian or signal.gains is not None or signal.cov is None or not signal.full:
        return None
    return Bend(((1 + slope) / 2) ** 2, ((1 - slope) / 2) ** 2) if can_take(signal.cov) else None


def is_homogeneous(layer: Activation) -> bool:
    """Whether the activation is a straight line on either side of zero."""
    return layer.activation == "identity" or bend_of(layer.function) is not None


def needs(layer: Activation, after: Need) -> Need:
    """Sizes, unless the activation does nothing."""
    return after if layer.activation == "identity" else after._replace(sizes=True)


RULE = Rule(
    behind,
    behind_inputs=applied,
    needs=needs,
    bent=lambda layer: layer.activation not in SMOOTH,
    homogeneous=is_homogeneous,
)
