"""What a network's kernel needs of every layer, found from its end to its beginning before anything is computed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from secant.nets.network import Network
from secant.nets.records import (
    Activation,
    Attention,
    AveragePool,
    Concat,
    Flatten,
    GlobalAveragePool,
    LayerNorm,
    Product,
    Residual,
    Serial,
    Sum,
)

Path = tuple[int, ...]
"""Where a layer stands: the part of the network, the part of that part, and so on."""

SMOOTH = ("erf", "tanh", "sin", "cos", "gelu", "swish", "softplus", "rbf", "exp")
"""Activations for which it does not matter to how many digits two inputs nearly coincide."""

BRANCHING = (Residual, Sum, Product, Concat)


class Need(NamedTuple):
    """What is needed of a signal.

    Attributes:
        full: all pairs of positions, because positions will be mixed; otherwise each position with itself will do.
        own: the same for pairs of an input with itself, of which only the sizes are needed.
        sizes: the standard deviations of single inputs, because a later layer is not linear.
    """

    full: bool = False
    own: bool = False
    sizes: bool = False


@dataclass
class Plan:
    """Needs before and after every layer, by its place, and whether any activation has a bend or is unknown."""

    before: dict[Path, Need] = field(default_factory=dict)
    after: dict[Path, Need] = field(default_factory=dict)
    bent: bool = False


def planned(net: Network) -> Plan:
    """The plan of a network whose outputs have no positions."""
    plan = Plan()
    _back(net, (), Need(), plan)
    return plan


def _back(net: Network, path: Path, after: Need, plan: Plan) -> Need:
    plan.after[path] = before = after
    layer = net.layer
    if isinstance(layer, Serial):
        for index in reversed(range(len(net.parts))):
            before = _back(net.parts[index], (*path, index), before, plan)
    elif isinstance(layer, BRANCHING):
        branches = [_back(part, (*path, index), after, plan) for index, part in enumerate(net.parts)]
        before = Need(*(any(parts) for parts in zip(*branches, strict=True)))
    elif isinstance(layer, GlobalAveragePool | AveragePool | Attention):
        before = Need(True, after.sizes, after.sizes)
    elif isinstance(layer, Flatten):
        before = Need(False, False, after.sizes)
    elif isinstance(layer, LayerNorm) or (isinstance(layer, Activation) and layer.activation != "identity"):
        before = after._replace(sizes=True)
        plan.bent |= not (isinstance(layer, Activation) and layer.activation in SMOOTH)
    plan.before[path] = before
    return before
