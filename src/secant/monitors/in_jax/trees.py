"""Takes trees of arrays and other leaves apart, because compiled code takes only arrays."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


class Shell:
    """A tree without its arrays; two shells are equal if their structures, shapes and other leaves are equal.

    Args:
        structure: the structure of the tree.
        others: the leaves, `ARRAY` in the place of an array.
        kinds: shape and type of every array.
    """

    def __init__(self, structure: Any, others: tuple[Any, ...], kinds: tuple[Any, ...]) -> None:
        self.structure, self.others, self.kinds = structure, others, kinds

    def join(self, arrays: Any) -> Any:
        """The tree with these arrays."""
        rest = iter(arrays)
        leaves = [next(rest) if other is ARRAY else other for other in self.others]
        return jax.tree.unflatten(self.structure, leaves)

    def _key(self) -> tuple[Any, ...]:
        return self.structure, self.kinds, tuple(id(one) if not _plain(one) else one for one in self.others)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shell) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


ARRAY = object()
"""Stands in the place of an array."""


def split(tree: Any) -> tuple[list[Any], Shell]:
    """The arrays of a tree, in order, and the rest of the tree."""
    leaves, structure = jax.tree.flatten(tree)
    arrays = [leaf for leaf in leaves if is_array(leaf)]
    others = tuple(ARRAY if is_array(leaf) else leaf for leaf in leaves)
    return arrays, Shell(structure, others, tuple((leaf.shape, str(leaf.dtype)) for leaf in arrays))


def is_array(leaf: Any) -> bool:
    """Whether a leaf is an array of jax or numpy with numbers, or keys, in it."""
    return isinstance(leaf, jax.Array) or (isinstance(leaf, np.ndarray | np.generic) and leaf.dtype.kind in "biufcV")


def is_real(leaf: Any) -> bool:
    """Whether a leaf has real numbers, so that it has derivatives."""
    return jnp.issubdtype(leaf.dtype, jnp.floating)


PAIRED = frozenset({"bias", "scale", "weight", "gamma", "beta", "offset"})
"""Names of vectors with one entry a unit; vectors of one norm belong to the same units."""


def units(tree: Any) -> list[list[int]]:
    """The places of biases and scales among the arrays of real numbers, one list for each layer.

    Every vector counts as one entry a unit. A scale and a bias of one layer belong to the same units.
    """
    real = [
        (path, leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(tree) if is_array(leaf) and is_real(leaf)
    ]
    found: dict[Any, list[int]] = {}
    for place, (path, leaf) in enumerate(real):
        if leaf.ndim == 1 and leaf.size:
            names = [str(getattr(key, "key", getattr(key, "name", key))) for key in path]
            # A variable of Flax, which holds a value, may stand between the name and the array.
            depth = next((at for at in (len(names) - 1, len(names) - 2) if at >= 0 and names[at] in PAIRED), None)
            layer = place if depth is None else (*names[:depth], leaf.shape)
            found.setdefault(layer, []).append(place)
    return list(found.values())


def precise(leaf: Any) -> Any:
    """Half precision as single precision; anything else as it is."""
    if is_real(leaf) and jnp.finfo(leaf.dtype).bits < 32:
        return jnp.asarray(leaf, jnp.float32)
    return leaf


def samples_of(batch: Any) -> int | None:
    """How many samples a batch has: the length of the first axis that most of its arrays share."""
    lengths = [leaf.shape[0] for leaf in jax.tree.leaves(batch) if is_array(leaf) and leaf.ndim]
    return max(set(lengths), key=lambda one: (lengths.count(one), one)) if lengths else None


def rows(batch: Any, part: Any) -> Any:
    """Some samples of a batch; arrays without an axis of samples stay whole."""
    size = samples_of(batch)
    return jax.tree.map(
        lambda leaf: leaf[part] if is_array(leaf) and leaf.ndim and leaf.shape[0] == size else leaf, batch
    )


def _plain(value: Any) -> bool:
    return value is ARRAY or value is None or isinstance(value, bool | int | float | complex | str | bytes)
