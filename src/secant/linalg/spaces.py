"""Spaces of vectors that are pytrees: their size, their flat form, their identity."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

Vector = Any
"""A pytree of arrays: one vector of a space whose coordinates have names and shapes."""


AT_ONCE = 64
"""The most basis vectors that are multiplied together."""


class Space:
    """The shapes and types of a pytree as a dictionary key: equal shapes and types give equal keys."""

    def __init__(self, tree: Any) -> None:
        leaves, self.structure = jax.tree.flatten(tree)
        self.leaves = tuple((leaf.shape, jnp.dtype(leaf.dtype).name) for leaf in leaves)

    def __hash__(self) -> int:
        return hash((self.leaves, self.structure))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Space) and (self.leaves, self.structure) == (other.leaves, other.structure)

    def tree(self) -> Any:
        """The pytree of shapes and types."""
        return jax.tree.unflatten(self.structure, [jax.ShapeDtypeStruct(s, t) for s, t in self.leaves])


def size_of(space: Any) -> int:
    """How many numbers a vector of the space has."""
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(space))


def is_flat(space: Any) -> bool:
    """Whether a vector of the space is one array with one axis."""
    return isinstance(space, jax.ShapeDtypeStruct) and len(space.shape) == 1


def wide(dtype: Any) -> Any:
    """The type to compute in: the given one, but at least 32 bits, which decompositions need."""
    return jnp.promote_types(dtype, jnp.float32)


def unravel_like(space: Any) -> Callable[[Array], Vector]:
    """A function from flat vectors to pytrees, made from shapes alone."""
    leaves, structure = jax.tree.flatten(space)
    cuts = np.cumsum([math.prod(leaf.shape) for leaf in leaves])[:-1]

    def unravel(flat: Array) -> Vector:
        parts = jnp.split(flat, cuts)
        shaped = [p.reshape(leaf.shape).astype(leaf.dtype) for p, leaf in zip(parts, leaves, strict=True)]
        return jax.tree.unflatten(structure, shaped)

    return unravel


def images(product: Callable[[Array], Array], size: int, dtype: Any) -> Array:
    """The image of every basis vector under a linear map, one row each, computed some at a time.

    The last group is filled up with zeros, so that the product is compiled for one size only.
    """
    count = max(1, -(-size // AT_ONCE))
    width = -(-size // count)
    basis = jnp.eye(count * width, size, dtype=dtype)
    if count == 1:
        return jax.vmap(product)(basis)
    rows = jax.lax.map(jax.vmap(product), basis.reshape(count, width, size))
    return rows.reshape(count * width, -1)[:size]
