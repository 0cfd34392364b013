"""Layers that compute nothing: they change the shape of a sample, or leave it as it is."""

from __future__ import annotations

import math
from dataclasses import dataclass

from secant.nets.network import Layer, Network, Shape, fixed


@dataclass(frozen=True)
class Identity(Layer):
    """Gives its input unchanged."""


@dataclass(frozen=True)
class Flatten(Layer):
    """One vector a sample."""


@dataclass(frozen=True)
class Scalar(Layer):
    """A single output without its axis."""


def identity() -> Network:
    r"""$x \mapsto x$."""
    return fixed("identity", lambda x: x, lambda shape: shape, Identity())


def flatten() -> Network:
    """One vector a sample."""
    return fixed("flatten", lambda x: x.reshape(len(x), -1), lambda shape: (math.prod(shape),), Flatten())


def scalar() -> Network:
    """Drops the feature axis of a network with a single output, so that a batch gives shape `(samples,)`."""

    def out(shape: Shape) -> Shape:
        if shape != (1,):
            given = ", ".join(map(str, ("samples", *shape)))
            raise ValueError(
                f"scalar: takes one output a sample, shape (samples, 1), got ({given}). Put dense(1) in front of it."
            )
        return ()

    return fixed("scalar", lambda x: x[..., 0], out, Scalar())
