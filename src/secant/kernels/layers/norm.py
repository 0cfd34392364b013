"""Layer norms of infinite width. Norms over a batch or over groups of features have no rule."""

from __future__ import annotations

import jax.numpy as jnp

from secant.kernels.layers.rule import Rule, applied
from secant.kernels.propagation.inputs import Inputs
from secant.kernels.propagation.place import Need, Place
from secant.kernels.propagation.signal import Signals
from secant.nets.layers import LayerNorm
from secant.nets.network import Network


def behind(layer: LayerNorm, signals: Signals, place: Place) -> Signals:
    """Features of mean 0 and variance 1, with a gain and a shift that start at 1 and 0."""
    if not all(signal.gaussian for signal in signals):
        raise ValueError(
            f"kernel: the layer norm at {place} is given signals that are not Gaussian, whose mean is not "
            "known to be zero. Put a dense layer or a convolution in front of it."
        )
    total = sum(signal.features for signal in signals)
    lengths = []
    for side in (0, 1):
        variance = sum(signal.features / total * signal.sizes[side] ** 2 for signal in signals)
        if layer.over == "sample" or signals[0].flat:
            axes = tuple(range(variance.ndim - (2 if place.on.pairs == "grid" else 1)))
            variance = jnp.mean(variance, axes, keepdims=True)
        lengths.append(jnp.sqrt(variance + layer.epsilon))
    found = []
    for number, signal in enumerate(signals):
        cov = signal.covariance / (lengths[0] * lengths[1])
        ntk = None
        if signal.ntk is not None:
            ntk = signal.folded().ntk / (lengths[0] * lengths[1]) + (1.0 if layer.shift else 0.0)
        changes = {"ntk": ntk, "gains": cov if layer.gain and ntk is not None else None}
        if signal.gap is None or place.alone or not place.sizes_behind:
            found.append(place.sized(signal.with_(cov=cov, **changes), number))
        else:
            found.append(signal.with_(gap=signal.gap, sizes=place.sizes(signal, number), **changes))
    return tuple(found)


def behind_inputs(net: Network, inputs: Inputs, place: Place) -> Inputs | Signals:
    """A norm with nothing to train is applied to inputs; one with a gain or a shift has no rule for them."""
    assert isinstance(net.layer, LayerNorm)
    if net.layer.gain or net.layer.shift:
        raise ValueError(
            f"kernel: the layer norm at {place} reads the inputs and has a trained gain or shift. Use "
            "layer_norm(gain=False, shift=False) there."
        )
    return applied(net, inputs, place)


def needs(layer: LayerNorm, after: Need) -> Need:
    """Sizes."""
    return after._replace(sizes=True)


RULE = Rule(behind, behind_inputs=behind_inputs, needs=needs, bent=lambda layer: True)
