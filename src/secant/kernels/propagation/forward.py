"""A walk through a network: every layer by the rule of its record."""

from __future__ import annotations

from secant.kernels import places, rules
from secant.kernels.passes import Inputs, Pass
from secant.kernels.plan import BRANCHING, Path
from secant.kernels.rules import Signals, written
from secant.kernels.signal import Signal
from secant.kernels.together import two_layers
from secant.nets.network import Network
from secant.nets.records import (
    Activation,
    AveragePool,
    Conv,
    Dense,
    Flatten,
    GlobalAveragePool,
    Identity,
    Layer,
    LayerNorm,
    Patches,
    Serial,
)

RULES = rules.RULES | places.RULES

UNTRAINED = (Activation, AveragePool, Flatten, GlobalAveragePool, Identity, Patches)
"""Layers that are simply applied to inputs which no weights have met."""


def walk(net: Network, at: Inputs | Signals, on: Pass, path: Path = ()) -> Inputs | Signals:
    """What is behind a network, given what is before it."""
    layer = net.layer
    if isinstance(layer, Serial):
        index = 0
        while index < len(net.parts):
            both = two_layers(net.parts[index : index + 2], at, on, [(*path, index), (*path, index + 1)])
            at = walk(net.parts[index], at, on, (*path, index)) if both is None else both
            index += 1 if both is None else 2
        return at
    if on.own and not on.plan.before[path].sizes:
        return ()  # nobody asks for the sizes of what follows
    if isinstance(layer, BRANCHING):
        return _joined(net, at, on, path)
    if type(layer) not in RULES:
        what = f"the layer `{net.name}`" if layer is None else f"a layer of kind {type(layer).__name__}"
        known = ", ".join(sorted(kind.__name__ for kind in RULES))
        raise ValueError(
            f"kernel: {what} at {written(path)} has no rule for networks of infinite width. There are rules for "
            f"{known}, and for sums, products, concatenations and residual blocks of them."
        )
    if isinstance(at, Inputs):
        plain = isinstance(layer, UNTRAINED) or (isinstance(layer, LayerNorm) and not (layer.gain or layer.shift))
        if plain:
            return Inputs(net.run((), at.first), net.run((), at.second), at.same)
        if isinstance(layer, Conv):
            # Windows on plain inputs are features like any others: no covariances have to be added up.
            first, second = (places.windows_of(layer, x) for x in (at.first, at.second))
            return RULES[Dense](_dense(layer), _signals(layer, Inputs(first, second, at.same), on, path), on, path)
        if isinstance(layer, LayerNorm):
            raise ValueError(
                f"kernel: the layer norm at {written(path)} reads the inputs and has a trained gain or shift. Use "
                "layer_norm(gain=False, shift=False) there."
            )
    return RULES[type(layer)](layer, _signals(layer, at, on, path), on, path)


def _dense(layer: Conv) -> Dense:
    """A convolution on features that are windows already."""
    return Dense(layer.channels, layer.parametrization, layer.bias, layer.last)


def _signals(layer: Layer | None, at: Inputs | Signals, on: Pass, path: Path) -> Signals:
    """Signals in front of a layer, with no more positions than it needs."""
    if isinstance(at, Inputs):
        return (on.started(at, path, zero=on.ntk and not isinstance(layer, Dense | Conv)),)
    return at if on.is_full(path) else tuple(signal.each_alone() for signal in at)


def _joined(net: Network, at: Inputs | Signals, on: Pass, path: Path) -> Signals:
    stale = at if isinstance(at, Inputs) else tuple(s.with_(cov=s.cov, gap=s.gap, fresh=False) for s in at)
    found = [walk(part, stale, on, (*path, index)) for index, part in enumerate(net.parts)]
    if on.own and not on.plan.after[path].sizes:
        return ()
    branches = [_signals(None, branch, on, (*path, index)) for index, branch in enumerate(found)]
    if not all(signal.full for branch in branches for signal in branch):
        branches = [tuple(signal.each_alone() for signal in branch) for branch in branches]
    joined = rules.JOINS[type(net.layer)](branches, on, path)
    fresh_before = not isinstance(at, Inputs) and all(s.fresh for s in at)
    return tuple(s.with_(cov=s.cov, gap=s.gap, fresh=s.fresh or fresh_before) for s in joined)


def outputs(net: Network, found: Inputs | Signals) -> Signal:
    """The one signal behind a whole network."""
    if isinstance(found, Inputs):
        raise ValueError(f"kernel: {net.name} has no weights, so that it has no kernel. Add a dense layer.")
    if len(found) != 1 or found[0].positions:
        raise ValueError(
            f"kernel: the outputs of {net.name} are "
            + ("a concatenation" if len(found) != 1 else f"at {found[0].positions} positions")
            + ". Put a pool or `flatten`, and a dense layer, behind them."
        )
    return found[0]


__all__ = ["outputs", "walk"]
