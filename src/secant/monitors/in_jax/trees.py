"""Trees of arrays and of anything else, taken apart so that the arrays can be handed to compiled code."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


class Shell:
    """What is left of a tree without its arrays; two are equal if their structure, shapes and other leaves are.

    Args:
        structure: of the tree.
        others: its leaves, None where there is an array.
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
"""Stands where an array was."""


def split(tree: Any) -> tuple[list[Any], Shell]:
    """The arrays of a tree, in order, and the rest of it."""
    leaves, structure = jax.tree.flatten(tree)
    arrays = [leaf for leaf in leaves if is_array(leaf)]
    others = tuple(ARRAY if is_array(leaf) else leaf for leaf in leaves)
    return arrays, Shell(structure, others, tuple((leaf.shape, str(leaf.dtype)) for leaf in arrays))


def is_array(leaf: Any) -> bool:
    """Whether a leaf is an array of jax or numpy with numbers, or keys, in it."""
    return isinstance(leaf, jax.Array) or (isinstance(leaf, np.ndarray | np.generic) and leaf.dtype.kind in "biufcV")


def is_real(leaf: Any) -> bool:
    """Whether a leaf has real numbers, so that one may ask for derivatives."""
    return jnp.issubdtype(leaf.dtype, jnp.floating)


PAIRED = frozenset({"bias", "scale", "weight", "gamma", "beta", "offset"})
"""What a norm calls its vectors, which have an entry a unit each, of the same units."""


def units(tree: Any) -> list[list[int]]:
    """For every layer with biases or scales their places among the arrays with real numbers.

    A vector is taken to have an entry a unit. A scale and a bias of one layer are of the same units.
    """
    real = [
        (path, leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(tree) if is_array(leaf) and is_real(leaf)
    ]
    found: dict[Any, list[int]] = {}
    for place, (path, leaf) in enumerate(real):
        if leaf.ndim == 1 and leaf.size:
            names = [str(getattr(key, "key", getattr(key, "name", key))) for key in path]
            # What holds a value, as variables of Flax do, may stand between the name and the array.
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
    """Some samples of a batch; what has no axis of samples stays whole."""
    size = samples_of(batch)
    return jax.tree.map(
        lambda leaf: leaf[part] if is_array(leaf) and leaf.ndim and leaf.shape[0] == size else leaf, batch
    )


def _plain(value: Any) -> bool:
    return value is ARRAY or value is None or isinstance(value, bool | int | float | complex | str | bytes)
