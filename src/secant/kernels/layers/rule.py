"""What the kernel of a network of infinite width knows of a kind of layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from secant.kernels.propagation.inputs import Inputs
from secant.kernels.propagation.place import Need, Place
from secant.kernels.propagation.signal import Signal, Signals
from secant.nets.network import Network

Behind = Callable[[Any, Signals, Place], Signals]
"""`(record, signals in front, place) -> signals behind`: covariances and tangent kernels of pairs of inputs."""

Join = Callable[[list[Signals], Place], Signals]
"""`(signals behind every branch, place) -> signals behind the layer that joins them`."""


def applied(net: Network, inputs: Inputs, place: Place) -> Inputs:
    """A layer without parameters is applied to inputs that no weights have met."""
    return Inputs(net.run((), inputs.first), net.run((), inputs.second), inputs.same)


def same_needs(layer: Any, after: Need) -> Need:
    """What is needed behind the layer is needed in front of it."""
    return after


def by_itself(activation: Any, layer: Any, signal: Signal, places: Sequence[Place]) -> Signal | None:
    """The layer never goes together with the activation in front of it."""
    return None


def no(layer: Any) -> bool:
    """No layer of this kind does."""
    return False


class Rule(NamedTuple):
    """All that is known of a kind of layer.

    Attributes:
        behind: the signals behind the layer, given those in front of it.
        behind_inputs: `(network of the layer, inputs, place)`: the same for inputs that no weights have met; None if
            they are a signal like any other.
        behind_activation: `(record of the activation, record, signal, places of both)`: the signal behind an activation
            and the layer that reads it in one step, or None where each has to go by its own rule.
        needs: `(record, needs behind) -> needs in front`.
        weights: how many sets of weights it has, each with variances of its own.
        bent: whether it matters to how many digits two inputs nearly coincide.
        homogeneous: whether the layer is homogeneous: inputs times a positive number give outputs times that number.
    """

    behind: Behind
    behind_inputs: Callable[[Network, Inputs, Place], Inputs | Signals] | None = None
    behind_activation: Callable[[Any, Any, Signal, Sequence[Place]], Signal | None] = by_itself
    needs: Callable[[Any, Need], Need] = same_needs
    weights: int = 0
    bent: Callable[[Any], bool] = no
    homogeneous: Callable[[Any], bool] = no


def _none(layer: Any, signals: Signals, place: Place) -> Signals:
    raise NotImplementedError(f"kernel: {layer} has no rule.")


NO_RULE = Rule(_none)
"""In place of a rule, for kinds of layers that have none."""
