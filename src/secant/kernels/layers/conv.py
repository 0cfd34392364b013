"""Convolutions of infinite width."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from secant.kernels.layers import gpu
from secant.kernels.layers.activation import bend_on_a_gpu
from secant.kernels.layers.rule import Rule
from secant.kernels.layers.weights import constants, merged, mixed_by_weights
from secant.kernels.layers.windows import window_sums
from secant.kernels.propagation.inputs import Inputs, signal_of
from secant.kernels.propagation.place import Place
from secant.kernels.propagation.signal import Signal, Signals
from secant.nets import taps
from secant.nets.layers import Conv
from secant.nets.network import Network


def behind(layer: Conv, signals: Signals, place: Place) -> Signals:
    r"""$\Sigma_{pq} = C_b + C_w \operatorname{mean}_\delta \Sigma_{\text{in}, p + \delta, q + \delta}$.

    The window moves over both inputs at once.
    """
    signal = merged(signals)
    size = math.prod(layer.window)
    fans, inputs = (size * signal.features, layer.channels), not signal.behind_weights
    made = constants(layer.parametrization, layer.bias, fans, place, last=layer.last, inputs=inputs)
    if size == 1 and layer.strides == 1:
        return (mixed_by_weights(signal, made, layer.channels, place),)
    axes, steps = len(signal.positions), (layer.strides,) * len(layer.window)

    def means(pairs: Array) -> Array:
        return window_sums(pairs, axes, signal.full, layer.window, steps, layer.padding) / size

    cov = signal.covariance
    mean = means(cov)
    ntk = None
    if place.on.ntk:  # in front of all weights there is none yet, and the two means are one
        mixed = made.trained * mean if signal.ntk is None else means(made.passed * signal.ntk + made.trained * cov)
        ntk = mixed + made.shifts
    cov = made.weights * mean + made.biases
    moved = signal.with_(
        cov=cov,
        ntk=ntk,
        sizes=None,
        positions=cov.shape[:axes],
        features=layer.channels,
        gaussian=True,
        centred=True,
        fresh=True,
        behind_weights=True,
    )
    return (place.sized(moved),)


def behind_inputs(net: Network, inputs: Inputs, place: Place) -> Signals:
    """The same for inputs: windows on them are features like any others, and no covariances have to be added up."""
    layer = net.layer
    assert isinstance(layer, Conv)
    seen = Inputs(_windows_of(layer, inputs.first), _windows_of(layer, inputs.second), inputs.same)
    signal = signal_of(seen, place, zero=False)
    fans = (signal.features, layer.channels)
    made = constants(layer.parametrization, layer.bias, fans, place, last=layer.last, inputs=True)
    return (mixed_by_weights(signal, made, layer.channels, place),)


def _windows_of(layer: Conv, x: Array) -> Array:
    """What a convolution sees of inputs at every position, as features."""
    steps = (layer.strides,) * len(layer.window)
    x, padding = taps.padded(x, layer.window, steps, layer.padding)
    return taps.windows(x, layer.window, steps, padding)


def behind_activation(activation: Any, layer: Conv, signal: Signal, places: Sequence[Place]) -> Signal | None:
    """Behind an activation with a bend and a convolution of 3 x 3, in one pass over the memory of a GPU."""
    bend, place = bend_on_a_gpu(activation, signal), places[1]
    if bend is None or (layer.window, layer.strides, layer.padding) != (gpu.WINDOW, 1, "SAME"):
        return None
    size = math.prod(layer.window)
    fans = (size * signal.features, layer.channels)
    made = constants(layer.parametrization, layer.bias, fans, place, last=layer.last, inputs=False)
    ntk = None if signal.multiple is not None else signal.ntk
    ours = [made.weights / size, made.biases, made.passed / size, made.trained / size, made.shifts]
    numbers = jnp.stack([jnp.asarray(n, signal.cov.dtype) for n in (*ours, *(signal.multiple or (0.0, 0.0)))])
    sizes = gpu.sizes_of(signal)
    cov, ntk = gpu.bent_windows(bend, signal.cov, ntk, sizes, numbers, only_cov=not place.on.ntk)
    moved = signal.with_(cov=cov, ntk=ntk, sizes=None, features=layer.channels, gaussian=True, centred=True, fresh=True)
    return place.sized(moved)


RULE = Rule(behind, behind_inputs=behind_inputs, behind_activation=behind_activation, weights=1)
