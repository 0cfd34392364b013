"""Pools of infinite width: means over pairs of positions."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from secant.kernels.layers import gpu
from secant.kernels.layers.activation import bend_on_a_gpu
from secant.kernels.layers.rule import Rule, applied
from secant.kernels.layers.windows import cell_means, padded, slices
from secant.kernels.propagation.place import Need, Place
from secant.kernels.propagation.signal import Signal, Signals
from secant.nets.layers import AveragePool, GlobalAveragePool


def over_windows(layer: AveragePool, signals: Signals, place: Place) -> Signals:
    """Means over windows, of each input by itself."""
    found = []
    for number, signal in enumerate(signal.mixed() for signal in signals):
        axes = len(signal.positions)

        def means(pairs: Any, axes: int = axes) -> Any:
            if pairs is None:
                return None
            if _side_by_side(layer):
                return cell_means(pairs, layer.window * 2)
            for axis, side in itertools.product(range(axes), range(2)):
                at, window, step = axis + side * axes, layer.window[axis], layer.strides[axis]
                pairs = padded(pairs, (at,), window, step, layer.padding)
                places = (pairs.shape[at] - window) // step + 1
                cut = [
                    pairs[slices(pairs.ndim, (at,), slice(start, start + (places - 1) * step + 1, step))]
                    for start in range(window)
                ]
                pairs = functools.reduce(jnp.add, cut) / window
            return pairs

        cov = means(signal.covariance)
        pooled = signal.with_(cov=cov, ntk=means(signal.ntk), sizes=None, positions=cov.shape[:axes])
        found.append(place.sized(pooled, number))
    return tuple(found)


def over_all(layer: GlobalAveragePool, signals: Signals, place: Place) -> Signals:
    """The mean over all positions."""
    return tuple(_pooled(signal, place, number) for number, signal in enumerate(signals))


def _pooled(signal: Signal, place: Place, number: int) -> Signal:
    if not signal.positions:
        return signal
    signal = signal.mixed()
    axes = tuple(range(2 * len(signal.positions)))
    ntk = None if signal.ntk is None else jnp.mean(signal.ntk, axes)
    cov = jnp.mean(signal.covariance, axes)
    return place.sized(signal.with_(cov=cov, ntk=ntk, sizes=None, positions=(), full=False), number)


def _side_by_side(layer: AveragePool) -> bool:
    """Whether the windows lie side by side, each position in one of them or in none."""
    return layer.padding == "VALID" and layer.window == layer.strides


def behind_activation(activation: Any, layer: AveragePool, signal: Signal, places: Sequence[Place]) -> Signal | None:
    """Behind an activation with a bend and a pool, in one pass over the memory of a GPU."""
    bend = bend_on_a_gpu(activation, signal)
    if bend is None or not _side_by_side(layer):
        return None
    down, across = layer.window
    cov, ntk = gpu.bent_cells(bend, (down, across), signal.cov, signal.ntk, gpu.sizes_of(signal))
    behind = signal.with_(cov=cov, ntk=ntk, sizes=None, positions=cov.shape[:2], gaussian=False, centred=False)
    return places[1].sized(behind)


def needs(layer: AveragePool | GlobalAveragePool, after: Need) -> Need:
    """All pairs of positions, which are mixed here."""
    return Need(True, after.sizes, after.sizes)


AVERAGE_POOL = Rule(over_windows, behind_inputs=applied, behind_activation=behind_activation, needs=needs)
GLOBAL_AVERAGE_POOL = Rule(over_all, behind_inputs=applied, needs=needs)
