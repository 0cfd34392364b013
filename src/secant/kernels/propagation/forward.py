"""Signals go forward through a network, every layer by the rule of its record."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

from jaxtyping import Array

from secant.kernels.arc_cosine import root
from secant.kernels.layers import JOINS, NO_RULE, RULES, rule_of
from secant.kernels.propagation.inputs import Inputs, signal_of
from secant.kernels.propagation.place import Pass, Path, Place, Sizes
from secant.kernels.propagation.signal import Signal, Signals, same_positions
from secant.nets.layers import Serial
from secant.nets.network import Network


class Behind(NamedTuple):
    """What is behind a network.

    Attributes:
        signals: the signals, or inputs that still no weights have met.
        sizes: those of the signals on the way that were needed, if this pass had to find them.
    """

    signals: Inputs | Signals
    sizes: Sizes = Sizes()


def forward(net: Network, at: Inputs | Signals, on: Pass, path: Path = ()) -> Behind:
    """What is behind a network, given what is in front of it."""
    place = Place(path, on)
    if isinstance(net.layer, Serial):
        return _through_parts(net, at, on, path)
    if place.alone and not on.plan.before[path].sizes:
        return Behind(())  # nobody asks for the sizes of what follows
    if type(net.layer) in JOINS:
        return _through_branches(net, at, place)
    rule = rule_of(net.layer)
    if rule is NO_RULE:
        what = f"the layer `{net.name}`" if net.layer is None else f"a layer of kind {type(net.layer).__name__}"
        known = ", ".join(sorted(kind.__name__ for kind in RULES))
        raise ValueError(
            f"kernel: {what} at {place} has no rule for networks of infinite width. There are rules for {known}, and "
            "for sums, products, concatenations and residual blocks of them."
        )
    if isinstance(at, Inputs) and rule.behind_inputs is not None:
        found = rule.behind_inputs(net, at, place)
    else:
        found = rule.behind(net.layer, _in_front(at, place), place)
    return Behind(found) if isinstance(found, Inputs) else Behind(*_measured(found, place))


def _through_parts(net: Network, at: Inputs | Signals, on: Pass, path: Path) -> Behind:
    """Behind a chain; a layer and the one that reads it go in one step where a device can do that."""
    sizes: list[Sizes] = []
    index = 0
    while index < len(net.parts):
        both = _two_at_once(net.parts[index : index + 2], at, [Place((*path, index + i), on) for i in (0, 1)])
        found = forward(net.parts[index], at, on, (*path, index)) if both is None else Behind(both)
        at, sizes = found.signals, [*sizes, found.sizes]
        index += 1 if both is None else 2
    return Behind(at, _joined(sizes))


def _two_at_once(nets: Sequence[Network], at: Inputs | Signals, places: Sequence[Place]) -> Signals | None:
    """What is behind an activation and the layer that reads it, or None where each goes by its own rule."""
    if isinstance(at, Inputs) or len(nets) < 2 or len(at) != 1 or places[0].on.pairs != "list":
        return None
    activation, reader = (net.layer for net in nets)
    found = rule_of(reader).behind_activation(activation, reader, at[0], places)
    return None if found is None else (found,)


def _through_branches(net: Network, at: Inputs | Signals, place: Place) -> Behind:
    """Behind branches that are joined."""
    stale = at if isinstance(at, Inputs) else tuple(s.with_(cov=s.cov, gap=s.gap, fresh=False) for s in at)
    places = [Place((*place.path, index), place.on) for index in range(len(net.parts))]
    found = [forward(part, stale, place.on, own.path) for part, own in zip(net.parts, places, strict=True)]
    sizes = _joined([branch.sizes for branch in found])
    if place.alone and not place.sizes_behind:
        return Behind((), sizes)
    branches = [_in_front(branch.signals, own) for branch, own in zip(found, places, strict=True)]
    if not all(signal.full for branch in branches for signal in branch):
        branches = [tuple(signal.each_alone() for signal in branch) for branch in branches]
    signals, own = _measured(JOINS[type(net.layer)](branches, place), place)
    fresh_before = not isinstance(at, Inputs) and all(s.fresh for s in at)
    fresh = tuple(s.with_(cov=s.cov, gap=s.gap, fresh=s.fresh or fresh_before) for s in signals)
    return Behind(fresh, _joined([sizes, own]))


def _in_front(at: Inputs | Signals, place: Place) -> Signals:
    """Signals in front of a layer, with no more positions than it needs."""
    if isinstance(at, Inputs):
        return (signal_of(at, place, zero=place.on.ntk),)
    return at if place.full else tuple(signal.each_alone() for signal in at)


def _measured(signals: Signals, place: Place) -> tuple[Signals, Sizes]:
    """Signals behind a layer and their new sizes, where each input is paired with itself and sizes are needed."""
    if not place.alone or not place.sizes_behind:
        return signals, Sizes()
    sizes = {number: _size(signal) for number, signal in enumerate(signals) if signal.sizes is None}
    sized = tuple(
        signal.with_(cov=signal.cov, sizes=place.on.spread(sizes[number], sizes[number], signal))
        if number in sizes
        else signal
        for number, signal in enumerate(signals)
    )
    return sized, Sizes(tuple(sizes.values()), tuple((place.path, number) for number in sizes))


def _size(signal: Signal) -> Array:
    """The standard deviations of a signal whose inputs are paired with themselves."""
    positions = signal.full and signal.positions
    return root(same_positions(signal.cov, len(signal.positions)) if positions else signal.cov)


def _joined(sizes: Sequence[Sizes]) -> Sizes:
    return Sizes(tuple(chain(*(part.arrays for part in sizes))), tuple(chain(*(part.owners for part in sizes))))


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


__all__ = ["forward", "outputs"]
