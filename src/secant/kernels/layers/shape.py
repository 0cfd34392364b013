"""Layers that change the shape of a sample only: at infinite width they change no covariance."""

from __future__ import annotations

from secant.kernels.layers.rule import Rule, applied
from secant.kernels.propagation.place import Need, Place
from secant.kernels.propagation.signal import Signals
from secant.nets.layers import Flatten, Identity, Scalar


def unchanged(layer: Identity | Scalar, signals: Signals, place: Place) -> Signals:
    """Nothing happens."""
    return signals


def flattened(layer: Flatten, signals: Signals, place: Place) -> Signals:
    """Positions become features; the next matrix of weights takes the mean over them."""
    return tuple(s.with_(cov=s.cov, gap=s.gap, flat=bool(s.positions)) for s in signals)


def flat_needs(layer: Flatten, after: Need) -> Need:
    """Each position with itself, because the mean over positions is that of equal ones."""
    return Need(False, False, after.sizes)


IDENTITY = Rule(unchanged, behind_inputs=applied, homogeneous=lambda layer: True)
SCALAR = Rule(unchanged, homogeneous=lambda layer: True)
FLATTEN = Rule(flattened, behind_inputs=applied, needs=flat_needs, homogeneous=lambda layer: True)
