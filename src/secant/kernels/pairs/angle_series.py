r"""Kernels that are functions of an angle alone.

A network without biases whose activations are homogeneous, $\sigma(az) = a\,\sigma(z)$ for $a > 0$, is homogeneous
itself, and so are its kernels: $k(x, y) = |x||y|/d \cdot \kappa(\theta)$ with the angle $\theta$ between two inputs of
$d$ features. Behind any number of layers of ReLU $\kappa$ is smooth on $0 \le \theta \le \pi$, where the gap $1 -
\cos\theta$ behaves like a square: a Chebyshev series of a dozen terms stands for five layers, and one of thirty for
thirty.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.polynomial import chebyshev

from secant.kernels.arc_cosine import angle_of
from secant.kernels.layers import rule_of
from secant.kernels.pairs.blocks import How, compiled
from secant.nets.layers import Activation, Concat, Residual, Serial, Sum
from secant.nets.network import Network

NODES = 96
"""Angles at which kernels are computed; a series that needs more than half as many terms is not trusted."""

LINEAR = (Concat, Residual, Serial, Sum)
"""Combinators that are homogeneous if their parts are."""

FEWEST = 2
"""Activations from which on a series is used."""


class Curve(NamedTuple):
    r"""Chebyshev coefficients over $2\theta/\pi - 1$ of the covariance and of the tangent kernel, if that is wanted."""

    nngp: tuple[float, ...]
    ntk: tuple[float, ...] | None


def is_homogeneous(net: Network) -> bool:
    """Whether a network is known to be homogeneous in its inputs, which are vectors."""
    if isinstance(net.layer, LINEAR):
        return all(is_homogeneous(part) for part in net.parts)
    return rule_of(net.layer).homogeneous(net.layer)


def bends(net: Network) -> int:
    """How many activations there are."""
    own = isinstance(net.layer, Activation) and net.layer.activation != "identity"
    return int(own) + sum(bends(part) for part in net.parts)


@functools.lru_cache(maxsize=64)
def curve(net: Network, features: int, ntk: bool, size: int) -> Curve | None:
    """The kernels of a homogeneous network as series, right to 3e-8 in numbers of 4 bytes and to 2e-14 in those of 8.

    None where those are too long, or where there are so few layers that going through them is as quick.
    """
    if features < 2 or not is_homogeneous(net) or bends(net) < FEWEST:
        return None
    tolerance = 3e-8 if size == 4 else 2e-14
    places = chebyshev.chebpts1(NODES)
    angles = math.pi * (places + 1) / 2
    others = np.zeros((NODES, features))
    others[:, 0], others[:, 1] = np.cos(angles), np.sin(angles)
    with jax.enable_x64(True):
        first = np.eye(1, features)
        values = compiled(How(net, False, False, ntk, NODES), few=True)(first, others, None)
    modes = np.cos(np.arange(NODES)[:, None] * np.arccos(places)) * 2 / NODES  # orthogonal at these places
    modes[0] /= 2
    found = []
    for value in values[: 2 if ntk else 1]:
        series = modes @ (features * np.asarray(value)[0])
        large = np.flatnonzero(np.abs(series) > tolerance * np.abs(series).max(initial=0.0))
        terms = int(large.max(initial=0)) + 1
        if terms > NODES // 2:
            return None
        found.append(tuple(map(float, series[:terms])))
    return Curve(found[0], found[1] if ntk else None)


def along(curve: Curve, gap: Array, sizes: tuple[Array, Array], keep: Any) -> tuple[Array, Array | None]:
    """Both kernels of pairs, given the gaps of the inputs and the roots of their mean squares."""
    (place,) = keep([2 * angle_of(gap) - 1])
    scale = sizes[0][:, None] * sizes[1]
    nngp, ntk = (None if part is None else scale * _summed(part, place) for part in curve)
    return nngp, ntk  # type: ignore[return-value]


def _summed(series: tuple[float, ...], place: Array) -> Array:
    """A Chebyshev series, by Clenshaw's recurrence."""
    last, before = jnp.zeros_like(place), jnp.zeros_like(place)
    for coefficient in series[:0:-1]:
        last, before = coefficient + 2 * place * last - before, last
    return series[0] + place * last - before
