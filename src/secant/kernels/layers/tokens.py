"""Tokens at infinite width: patches of an image, and tables of positions."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp

from secant.kernels.layers.rule import Rule, applied
from secant.kernels.layers.weights import merged
from secant.kernels.layers.windows import window_sums
from secant.kernels.propagation.place import Place
from secant.kernels.propagation.signal import Signals
from secant.nets.layers import Patches, Positions


def cut(layer: Patches, signals: Signals, place: Place) -> Signals:
    """Pieces of an image, each a token whose features are those of all its positions."""
    signal = merged(signals)
    axes, size = len(signal.positions), (layer.size,) * 2

    def means(pairs: Any) -> Any:
        if pairs is None:
            return None
        sums = window_sums(pairs, axes, signal.full, size, size, "VALID") / layer.size**2
        tokens = math.prod(sums.shape[:axes])
        return sums.reshape(*(tokens,) * (2 if signal.full else 1), *sums.shape[axes * (2 if signal.full else 1) :])

    cov = means(signal.covariance)
    pieces = signal.with_(
        cov=cov,
        ntk=means(signal.ntk),
        sizes=None,
        positions=cov.shape[:1],
        features=signal.features * layer.size**2,
        gaussian=False,
    )
    return (place.sized(pieces),)


def shifted(layer: Positions, signals: Signals, place: Place) -> Signals:
    """A trained vector added to every token: independent for different tokens, the same for all inputs."""
    found = []
    for number, signal in enumerate(signal.mixed() for signal in signals):
        draw = layer.parametrization.bias(signal.features, signal.features)
        same = jnp.ones((), signal.covariance.dtype)
        if signal.full:
            total = math.prod(signal.positions)
            same = jnp.eye(total, dtype=signal.covariance.dtype).reshape(*signal.positions * 2)
            same = same.reshape(*same.shape, *(1,) * (signal.covariance.ndim - same.ndim))
        ntk = None if signal.ntk is None else signal.ntk + draw.scale**2 * same
        cov = signal.covariance + draw.variance * same
        # Inputs have no mean of zero, and keep theirs.
        found.append(place.sized(signal.with_(cov=cov, ntk=ntk, behind_weights=True), number))
    return tuple(found)


PATCHES = Rule(cut, behind_inputs=applied)
POSITIONS = Rule(shifted)
