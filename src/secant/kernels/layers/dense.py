"""Dense layers of infinite width."""

from __future__ import annotations

from secant.kernels.layers.rule import Rule
from secant.kernels.layers.weights import constants, merged, mixed_by_weights
from secant.kernels.propagation.inputs import Inputs, signal_of
from secant.kernels.propagation.place import Place
from secant.kernels.propagation.signal import Signals
from secant.nets.layers import Dense
from secant.nets.network import Network


def behind(layer: Dense, signals: Signals, place: Place) -> Signals:
    r"""$\Sigma = C_b + C_w \Sigma_{\text{in}}$, and the tangent kernel gains what the layer itself learns."""
    signal = merged(signals)
    fans, inputs = (signal.features, layer.features), not signal.behind_weights
    made = constants(layer.parametrization, layer.bias, fans, place, last=layer.last, inputs=inputs)
    return (mixed_by_weights(signal, made, layer.features, place),)


def behind_inputs(net: Network, inputs: Inputs, place: Place) -> Signals:
    """The same for inputs, which have no tangent kernel yet."""
    assert isinstance(net.layer, Dense)
    return behind(net.layer, (signal_of(inputs, place, zero=False),), place)


RULE = Rule(behind, behind_inputs=behind_inputs, weights=1, homogeneous=lambda layer: not layer.bias)
