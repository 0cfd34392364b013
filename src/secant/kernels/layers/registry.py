"""Rules by the type of a layer's record: what the kernel of a network of infinite width knows of each kind of layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from secant.kernels.propagation.inputs import Inputs, signal_of
from secant.kernels.propagation.place import Need, Place
from secant.kernels.propagation.signal import Signal, Signals
from secant.nets.network import Network

Behind = Callable[[Any, Signals, Place], Signals]
"""`(record, signals in front, place) -> signals behind`: covariances and tangent kernels of pairs of inputs."""

Join = Callable[[list[Signals], Place], Signals]
"""`(signals behind every branch, place) -> signals behind the layer that joins them`."""


def as_signal(net: Network, inputs: Inputs, place: Place) -> Inputs | Signals:
    """The rule for inputs that no weights have met, of a layer that treats them as any other signal."""
    return RULES[type(net.layer)].behind(net.layer, (signal_of(inputs, place, zero=place.on.ntk),), place)


def applied(net: Network, inputs: Inputs, place: Place) -> Inputs | Signals:
    """The rule for inputs that no weights have met, of a layer without parameters: it is applied to them."""
    return Inputs(net.run((), inputs.first), net.run((), inputs.second), inputs.same)


def same_needs(layer: Any, after: Need) -> Need:
    """The needs of a layer that passes on what it is given, position by position."""
    return after


def alone(activation: Any, layer: Any, signal: Signal, places: Sequence[Place]) -> Signal | None:
    """The rule of a layer that has none for going together with the activation in front of it."""
    return None


def no(layer: Any) -> bool:
    """A property that a kind of layer does not have."""
    return False


class Rule(NamedTuple):
    """All that is known of a kind of layer.

    Attributes:
        behind: the signals behind the layer, given those in front of it; None if it has no limit.
        behind_inputs: `(network of the layer, inputs, place)`: the same for inputs that no weights have met.
        behind_activation: `(record of the activation, record, signal, places of both)`: the signal behind an activation
            and the layer that reads it in one step, or None where each has to go by its own rule.
        needs: `(record, needs behind) -> needs in front`.
        weights: how many sets of weights it has, each with variances of its own.
        bent: whether it matters to how many digits two inputs nearly coincide.
        homogeneous: whether the layer is homogeneous: inputs times a positive number give outputs times that number.
    """

    behind: Behind | None = None
    behind_inputs: Callable[[Network, Inputs, Place], Inputs | Signals] = as_signal
    behind_activation: Callable[[Any, Any, Signal, Sequence[Place]], Signal | None] = alone
    needs: Callable[[Any, Need], Need] = same_needs
    weights: int = 0
    bent: Callable[[Any], bool] = no
    homogeneous: Callable[[Any], bool] = no


RULES: dict[type, Rule] = {}
"""Rules of single layers."""

JOINS: dict[type, Join] = {}
"""Rules of layers that join branches."""


def rule(kind: type, behind: Behind, **others: Any) -> None:
    """Makes a rule known; `others` are those of its attributes that are not the usual ones."""
    RULES[kind] = Rule(behind, **others)
