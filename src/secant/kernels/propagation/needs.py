"""What every layer needs of the signals in front of it, found from the end of a network to its beginning."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Any, NamedTuple

from secant.kernels.layers import JOINS, rule_of
from secant.kernels.propagation.place import Need, Path, Plan
from secant.nets.layers import Serial
from secant.nets.network import Network


class _Around(NamedTuple):
    """What is needed before a layer and after it."""

    before: Need
    after: Need


def planned(net: Network) -> Plan:
    """The plan of a network whose outputs have no positions."""
    around = _around(net, (), Need())
    layers = list(_layers(net, ()))
    counts = [rule_of(layer).weights for _, layer in layers]
    return Plan(
        {path: need.before for path, need in around.items()},
        {path: need.after for path, need in around.items()},
        {path: before for (path, _), before in zip(layers, accumulate(counts, initial=0), strict=False)},
        any(rule_of(layer).bent(layer) for _, layer in layers),
    )


def _around(net: Network, path: Path, after: Need) -> dict[Path, _Around]:
    """What is needed before and after a network and everything in it."""
    found: dict[Path, _Around] = {}
    if isinstance(net.layer, Serial):
        before = after
        for index in reversed(range(len(net.parts))):
            found |= _around(net.parts[index], (*path, index), before)
            before = found[*path, index].before
    elif type(net.layer) in JOINS:
        for index, part in enumerate(net.parts):
            found |= _around(part, (*path, index), after)
        branches = [found[*path, index].before for index in range(len(net.parts))]
        before = Need(*(any(parts) for parts in zip(*branches, strict=True)))
    else:
        before = rule_of(net.layer).needs(net.layer, after)
    return found | {path: _Around(before, after)}


def _layers(net: Network, path: Path) -> Iterator[tuple[Path, Any]]:
    """The layers of a network in their order."""
    if isinstance(net.layer, Serial) or type(net.layer) in JOINS:
        for index, part in enumerate(net.parts):
            yield from _layers(part, (*path, index))
    else:
        yield path, net.layer
