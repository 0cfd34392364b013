"""Inputs that no weights have met yet, and the signal that they are for the first layer of weights."""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array

from secant.kernels.arc_cosine import gap_of_products, gap_of_rows, root
from secant.kernels.propagation.place import Place
from secant.kernels.propagation.signal import Signal


@dataclass(frozen=True, eq=False)
class Inputs:
    """Two sets of inputs that no weights have met yet, of shape `(n, *positions, features)`: plain numbers.

    Attributes:
        first: one set.
        second: the other.
        same: which pairs are one and the same sample, shape `(n1, n2)`, if any are known to be.
        sizes: of vectors whose rows have been divided by their lengths, the roots of their mean squares.
        products: the products of all rows with each other, shape `(n1, n2)`, if they are known. The rows are divided by
            their lengths, or, for networks without a bend, as they are.
    """

    first: Array
    second: Array
    same: Array | None = None
    sizes: tuple[Array, Array] | None = None
    products: Array | None = None


def unit(rows: Array) -> Array:
    """Rows of length one, and rows of zeros as they are."""
    # The largest entry first: squares of very small or very large numbers would be lost.
    largest = jax.lax.stop_gradient(jnp.max(jnp.abs(rows), -1, keepdims=True))
    over = 1 / jnp.maximum(largest, jnp.finfo(rows.dtype).tiny)
    length = root(jnp.sum((rows * over) ** 2, -1, keepdims=True))
    return rows * over * (1 / jnp.where(length > 0, length, 1.0))


def signal_of(inputs: Inputs, place: Place, *, zero: bool) -> Signal:
    """Inputs as a signal in front of a layer, with or without a tangent kernel of zeros."""
    a, b = inputs.first, inputs.second
    positions, features = a.shape[1:-1], a.shape[-1]
    axes, full = len(positions), bool(a.shape[1:-1]) and place.full
    first, second = inputs.sizes or (jnp.moveaxis(root(jnp.mean(x**2, -1)), 0, -1) for x in (a, b))
    plain = Signal((a, b), positions, full, features)
    spread = place.on.spread(first, second, plain)
    if not axes and place.alone:
        signal = plain.with_(cov=first * second, sizes=spread)
    elif not axes:
        a, b = (a, b) if inputs.sizes else (unit(x) for x in (a, b))
        if place.on.pairs == "list":
            gap = jnp.sum((a - b) ** 2, -1) / 2
        else:
            none = (first == 0)[:, None] | (second == 0)
            none = none if inputs.same is None else none | inputs.same
            known = inputs.products
            if known is not None and not place.on.plan.bent:
                # Products lose digits of small gaps, but these matter to activations with a bend alone.
                scale = spread[0] * spread[1]
                cov = jnp.where(none, scale, jnp.clip(known / features, -scale, scale))
                return plain.with_(cov=cov, sizes=spread, ntk=jnp.zeros_like(cov) if zero else None)
            gap = gap_of_rows(a, b, none) if known is None else gap_of_products(known, a, b, none)
        signal = plain.with_(gap=gap, sizes=spread)
    else:
        a, b = (x.reshape(len(x), math.prod(positions), features) for x in (a, b))
        names = {
            (False, True): "npc,npc->pn",
            (False, False): "ipc,jpc->pij",
            (True, True): "npc,nqc->pqn",
            (True, False): "ipc,jqc->pqij",
        }[full, place.on.pairs != "grid"]
        cov = jnp.einsum(names, a, b, precision=jax.lax.Precision.HIGHEST) / features
        pairs = cov.shape[2 if full else 1 :]
        signal = plain.with_(cov=cov.reshape(*positions * (2 if full else 1), *pairs), sizes=spread)
    zeros = jnp.zeros_like(signal.cov if signal.gap is None else signal.gap) if zero else None
    return signal.with_(cov=signal.cov, gap=signal.gap, ntk=zeros)
