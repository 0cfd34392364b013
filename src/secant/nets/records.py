"""What a layer is: a small record of its choices, so that a rule for a kind of layer is a function of its record.

A rule is looked up by the type of the record: the tangent kernel's, the frozen gates', the reduction of the inputs'.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from secant.nets.parametrization import Parametrization


@dataclass(frozen=True)
class Layer:
    """Any layer, or a network made of layers."""


@dataclass(frozen=True)
class Serial(Layer):
    """One part after the other."""


@dataclass(frozen=True)
class Residual(Layer):
    """A branch, the first part, beside a shortcut, the second."""


@dataclass(frozen=True)
class Concat(Layer):
    """Branches side by side, over features."""


@dataclass(frozen=True)
class Sum(Layer):
    """Branches added up."""


@dataclass(frozen=True)
class Product(Layer):
    """Branches multiplied, entry by entry."""


@dataclass(frozen=True)
class Identity(Layer):
    """What it is given."""


@dataclass(frozen=True)
class Flatten(Layer):
    """One vector a sample."""


@dataclass(frozen=True)
class Scalar(Layer):
    """A single output without its axis."""


@dataclass(frozen=True)
class Activation(Layer):
    """A function of every entry alone; `activation` is its name."""

    activation: str
    function: Callable[[Any], Any]


@dataclass(frozen=True)
class Dense(Layer):
    """A matrix on the last axis, drawn and scaled by its parametrisation; `last` if it gives the network's outputs."""

    features: int
    parametrization: Parametrization
    bias: bool
    last: bool


@dataclass(frozen=True)
class Conv(Layer):
    """A matrix at every place of a window."""

    channels: int
    window: tuple[int, ...]
    strides: int
    padding: str
    parametrization: Parametrization
    bias: bool
    last: bool


@dataclass(frozen=True)
class AveragePool(Layer):
    """Means over windows."""

    window: tuple[int, ...]
    strides: tuple[int, ...]
    padding: str = "VALID"


@dataclass(frozen=True)
class GlobalAveragePool(Layer):
    """The mean over all positions."""


@dataclass(frozen=True)
class Patches(Layer):
    """Square pieces of an image, each a vector."""

    size: int


@dataclass(frozen=True)
class LayerNorm(Layer):
    """Entries of mean 0 and variance 1, over the features of a position or over the whole sample."""

    over: Literal["features", "sample"]
    gain: bool
    shift: bool
    epsilon: float


@dataclass(frozen=True)
class GroupNorm(Layer):
    """The same over equal groups of features, at every position alone or over all positions of the sample."""

    groups: int
    over: Literal["features", "sample"]
    gain: bool
    shift: bool
    epsilon: float


@dataclass(frozen=True)
class BatchNorm(Layer):
    """Features of mean 0 and variance 1 over the batch: the one layer that mixes samples."""

    gain: bool
    shift: bool
    epsilon: float


@dataclass(frozen=True)
class Frozen(Layer):
    """A network, the only part, whose parameters are drawn once from a seed and not trained."""

    seed: int


@dataclass(frozen=True)
class Attention(Layer):
    """Several heads of attention; `features` of all heads together, None for as many as the input has."""

    heads: int
    features: int | None
    parametrization: Parametrization
    bias: bool
    scores: Literal["softmax", "identity"] = "softmax"
    scaling: Literal["root", "linear"] = "root"


@dataclass(frozen=True)
class Positions(Layer):
    """A trained vector added to every token."""

    parametrization: Parametrization
