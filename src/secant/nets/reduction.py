r"""Exact input reduction: fewer samples than input dimensions need fewer dimensions.

A dense first layer sees the data only through $x W$, and gradient descent moves $W$ only along the rows of the data.
With $n < d$ samples everything that training can see or change lies in an $n$-dimensional space: rotate once,
$X = L Q$ with orthonormal rows $Q$, put $L$ for $X$ and $C = Q W$ for $W$, and the run is the same, step for step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from secant.core.types import Params
from secant.nets.layers import Dense, Serial
from secant.nets.network import Network


@dataclass(frozen=True, eq=False)
class InputReduction:
    r"""A change of coordinates in which a batch has as many features as samples.

    Attributes:
        x: the batch in the new coordinates, $L$, scaled so that the first layer's own scale comes out right.
        basis: $Q$, orthonormal rows: the directions of input space that are kept.
        path: where the first layer's parameters stand in the network's.
    """

    x: Float[Array, "n n"]
    basis: Float[Array, "n d"]
    path: tuple[int, ...]

    @property
    def features(self) -> tuple[int, int]:
        """Features before and after."""
        return self.basis.shape[1], self.basis.shape[0]

    def shrink(self, params: Params) -> Params:
        r"""Parameters in the new coordinates: $C = Q W$ in place of $W$."""
        return self._replace(params, lambda weight: self.basis @ weight)

    def lift(self, small: Params, start: Params) -> Params:
        r"""Back again: $W = W_0 + Q^\top (C - Q W_0)$, where $W_0$ of `start` keeps what the data cannot see."""
        changed = self._at(small)["weight"]
        return self._replace(small, lambda _: self._moved(changed, self._at(start)["weight"]))

    def lift_direction(self, small: Params) -> Params:
        r"""A direction in parameter space: $V = Q^\top C$."""
        return self._replace(small, lambda c: self.basis.T @ c)

    def _moved(self, changed: Array, before: Array) -> Array:
        return before + self.basis.T @ (changed - self.basis @ before)

    def _at(self, params: Params) -> Any:
        for index in self.path:
            params = params[index]
        return params

    def _replace(self, params: Params, change: Any) -> Params:
        def along(node: Any, path: tuple[int, ...]) -> Any:
            if not path:
                return {**node, "weight": change(node["weight"])}
            return tuple(along(part, path[1:]) if i == path[0] else part for i, part in enumerate(node))

        return along(params, self.path)


def reduce_inputs(net: Network, x: Float[Array, "n d"]) -> InputReduction | None:
    """The exact reduction of a batch; None for other first layers, or with at least as many samples as features.

    Costs one QR decomposition of the batch.
    """
    found = first_dense(net)
    if found is None or jnp.ndim(x) != 2 or x.shape[0] >= x.shape[1]:
        return None
    layer, path = found
    q, r = jnp.linalg.qr(jnp.asarray(x).T)
    return InputReduction(r.T * scale_ratio(layer, *x.shape[::-1]), q.T, path)


def scale_ratio(layer: Dense, before: int, after: int) -> float:
    """The factor on the inputs with which a dense layer of fewer inputs acts as before."""
    now, then = (layer.parametrization.weight(m, layer.features, last=layer.last).scale for m in (before, after))
    return now / then


def first_dense(net: Network) -> tuple[Dense, tuple[int, ...]] | None:
    """The dense layer that alone reads the inputs, and where its parameters stand; None where there is none."""
    path: tuple[int, ...] = ()
    while isinstance(net.layer, Serial):
        net, path = net.parts[0], (*path, 0)
    return (net.layer, path) if isinstance(net.layer, Dense) else None


def is_reducible(net: Network, shape: tuple[int, ...]) -> bool:
    """Whether inputs of this shape have an exact reduction."""
    return first_dense(net) is not None and len(shape) == 2 and shape[0] < shape[1]


__all__ = ["InputReduction", "first_dense", "is_reducible", "reduce_inputs", "scale_ratio"]
