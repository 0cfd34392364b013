"""Branches of infinite width: added, multiplied, or laid side by side."""

from __future__ import annotations

import functools
import math

import jax.numpy as jnp

from secant.kernels.propagation.place import Place
from secant.kernels.propagation.signal import Signal, Signals, largest_error


def added(branches: list[Signals], place: Place) -> Signals:
    """Branches added up. At most one of them may share features with another, and at most one may have a mean."""
    alike = _alike(branches, "sum", place)
    for kind, wrong in (
        ("share the features they add", [not all(s.fresh for s in b) for b in branches]),
        ("have a mean", [not all(s.centred for s in b) for b in branches]),
    ):
        if sum(wrong) > 1:
            raise ValueError(
                f"kernel: several branches of the sum at {place} {kind}, so that their products do not vanish. "
                "End all branches but one with a dense layer or a convolution."
            )
    found = []
    for number, parts in enumerate(alike):
        ntk = None if parts[0].ntk is None else functools.reduce(jnp.add, [part.ntk for part in parts])
        # Weights on a plain input give features of different means.
        plain = parts[0].with_(
            cov=functools.reduce(jnp.add, [part.covariance for part in parts]),
            ntk=ntk,
            gaussian=all(part.gaussian for part in parts),
            centred=all(part.centred for part in parts),
            fresh=all(part.fresh for part in parts),
            behind_weights=any(part.behind_weights for part in parts),
            error=largest_error(*(part.error for part in parts)),
        )
        found.append(place.sized(plain, number))
    return tuple(found)


def multiplied(branches: list[Signals], place: Place) -> Signals:
    """Branches multiplied, which must not share features."""
    if sum(not all(signal.fresh for signal in branch) for branch in branches) > 1:
        raise ValueError(
            f"kernel: several branches of the product at {place} share the features they multiply. End all "
            "branches but one with a dense layer or a convolution, or with one and then an activation."
        )
    found = []
    for number, parts in enumerate(_alike(branches, "product", place)):
        covs = [part.covariance for part in parts]
        ntk = None
        if parts[0].ntk is not None:
            others = [math.prod(covs[:i] + covs[i + 1 :]) for i in range(len(covs))]
            ntk = sum(part.ntk * other for part, other in zip(parts, others, strict=True))
        plain = parts[0].with_(
            cov=functools.reduce(jnp.multiply, covs),
            ntk=ntk,
            gaussian=False,
            centred=any(part.centred for part in parts),
            fresh=all(part.fresh for part in parts),
            behind_weights=any(part.behind_weights for part in parts),
            error=largest_error(*(part.error for part in parts)),
        )
        found.append(place.sized(plain, number))
    return tuple(found)


def _alike(branches: list[Signals], what: str, place: Place) -> list[tuple[Signal, ...]]:
    """Parts of the branches that stand at the same features."""
    counts = [[signal.features for signal in branch] for branch in branches]
    if any(count != counts[0] for count in counts):
        raise ValueError(
            f"kernel: the branches of the {what} at {place} are concatenations of different features, "
            f"{counts}. Put a dense layer behind each concatenation."
        )
    return list(zip(*(tuple(signal.mixed() for signal in branch) for branch in branches), strict=True))


def side_by_side(branches: list[Signals], place: Place) -> Signals:
    """All features of all branches."""
    return tuple(signal for branch in branches for signal in branch)
