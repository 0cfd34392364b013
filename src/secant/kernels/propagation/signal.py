r"""Signals of a network of infinite width: what is known of two inputs behind a layer.

The features of a layer are many copies of one random function of the input. For two inputs and two positions, a signal
carries the covariance $k$ of that function, or the gap $1 - k/\sqrt{q_1 q_2}$ where the gap has more digits, and the
tangent kernel. The standard deviations $\sqrt{q_1}$ and $\sqrt{q_2}$ of each input alone are found beforehand.

Axes: positions of the first input, those of the second (only where different positions are carried), then the pairs:
one axis for a list of pairs, two for all pairs between two sets.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from secant.kernels.arc_cosine import gap_of


@dataclass(frozen=True, eq=False)
class Signal:
    """One kind of features behind a layer.

    Attributes:
        sizes: standard deviations of the first and of the second input, which broadcast against the pairs; None where
            nobody needs them any more.
        positions: spatial shape; empty for vectors.
        full: whether all pairs of positions are carried, or only each position with itself.
        features: how many there are in the network as it stands.
        cov: covariances, if they are known directly.
        gap: one minus the correlations, if they are.
        ntk: tangent kernel, if it is wanted.
        multiple: two numbers, if the tangent kernel is the first of them times the covariances, plus the second.
        gains: the part of the tangent kernel that belongs to trained gains of these very features, if there are any.
            Each gain goes with its own feature, so that an activation acts differently on this part.
        flat: whether every position counts as a feature.
        gaussian: whether a feature is a centred Gaussian, as an activation needs it.
        centred: whether a feature has mean zero.
        fresh: whether weights lie between the signal and the place where the network last branched.
        behind_weights: whether weights lie between the signal and the inputs.
        error: largest estimated error of the quadratures on the way to it; None where there was none.
    """

    sizes: Any
    positions: tuple[int, ...]
    full: bool
    features: int
    cov: Any = None
    gap: Any = None
    ntk: Any = None
    multiple: Any = None
    gains: Any = None
    flat: bool = False
    gaussian: bool = False
    centred: bool = False
    fresh: bool = False
    behind_weights: bool = False
    error: Any = None

    @property
    def scale(self) -> Array:
        r"""$\sqrt{q_1 q_2}$ of every pair."""
        return self.sizes[0] * self.sizes[1]

    @property
    def covariance(self) -> Array:
        """Covariances, from the gaps if need be."""
        return self.scale * (1 - self.gap) if self.cov is None else self.cov

    @property
    def gaps(self) -> Array:
        """Gaps, from the covariances if need be."""
        return gap_of(self.cov, self.scale) if self.gap is None else self.gap

    @property
    def count(self) -> int:
        """Features as the next matrix of weights sees them, where positions count if they are flat."""
        total = self.features
        for size in self.positions if self.flat else ():
            total *= size
        return total

    def folded(self) -> Signal:
        """The part of trained gains is added to the tangent kernel, as weights and means over features do."""
        if self.gains is None:
            return self
        return replace(self, ntk=self.ntk + self.gains, gains=None)

    def mixed(self) -> Signal:
        """Folded by a layer that has no weights: behind it there is no rule for an activation."""
        return self if self.gains is None else replace(self.folded(), gaussian=False)

    def with_(self, **changes: Any) -> Signal:
        """Another signal; whichever of covariance, gap and multiple is not named is forgotten."""
        changes = {"multiple": None} | changes
        if "cov" in changes or "gap" in changes:
            changes = {"cov": None, "gap": None} | changes
        return replace(self, **changes)

    def each_alone(self) -> Signal:
        """Only pairs of equal positions."""
        if not self.full:
            return self
        axes = len(self.positions)

        def alone(pairs: Array | None) -> Array | None:
            return None if pairs is None else same_positions(pairs, axes)

        sizes = self.sizes
        if sizes is not None:  # they have their own positions, and ones where the other input has its
            first, second = (size.reshape(*self.positions, *size.shape[2 * axes :]) for size in sizes)
            sizes = first, second
        parts: dict[str, Any] = {name: alone(getattr(self, name)) for name in ("cov", "gap", "ntk", "gains")}
        return replace(self, sizes=sizes, full=False, **parts)


def same_positions(pairs: Array, axes: int) -> Array:
    """The entries of equal positions: shape `(*positions, *positions, ...)` to `(*positions, ...)`."""
    positions, rest = pairs.shape[:axes], pairs.shape[2 * axes :]
    total = 1
    for size in positions:
        total *= size
    square = pairs.reshape(total, total, *rest)
    index = jnp.arange(total)
    return square[index, index].reshape(*positions, *rest)


Signals = tuple[Signal, ...]
"""The features behind a layer, one signal a kind; there are several kinds behind a concatenation."""


def largest_error(*errors: Array | None) -> Array | None:
    """The largest of several estimated errors, where there are any."""
    return functools.reduce(jnp.maximum, found) if (found := [e for e in errors if e is not None]) else None
