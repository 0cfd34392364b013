"""Named batch axes: one run over a grid of starting points, hyper-parameters and seeds."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from secant.core.device import jit, to_device

RESERVED = ("step", "time", "outcome", "stopped_at")


@dataclass(frozen=True)
class Axes:
    """The product grid of some named axes.

    Each axis maps a name to a pytree whose leaves share their leading length. An axis of plain numbers becomes a
    coordinate of the result. The positions of any other axis are numbered.
    """

    values: dict[str, Any]
    sizes: dict[str, int]

    @classmethod
    def of(cls, over: Mapping[str, Any] | None) -> Axes:
        """Reads and checks the `over` argument of a run."""
        values, sizes = {}, {}
        for name, value in (over or {}).items():
            if not name.isidentifier() or name in RESERVED:
                raise ValueError(
                    f"over: {name!r} cannot name an axis. Use a Python identifier other than {', '.join(RESERVED)}."
                )
            value = jax.tree.map(_as_array, value)
            lengths = {np.shape(leaf)[0] if np.ndim(leaf) else -1 for leaf in jax.tree.leaves(value)}
            if len(lengths) != 1 or -1 in lengths:
                raise ValueError(
                    f"over: axis {name!r} needs arrays of one common leading length, "
                    f"got shapes {[np.shape(leaf) for leaf in jax.tree.leaves(value)]}."
                )
            (length,) = lengths
            if length == 0:
                raise ValueError(f"over: axis {name!r} is empty. Give it at least one value.")
            values[name], sizes[name] = value, int(length)
        return cls(values, sizes)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the axes, in order."""
        return tuple(self.values)

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each axis."""
        return tuple(self.sizes.values())

    def grid(self) -> dict[str, Any]:
        """The axes' values at every point of the product grid, flattened to one leading dimension."""
        if len(self.values) <= 1:  # no product to form
            return {name: jax.tree.map(to_device, value) for name, value in self.values.items()}
        indices = np.unravel_index(np.arange(int(np.prod(self.shape))), self.shape)
        return {
            name: jax.tree.map(lambda leaf, index=index: _taken(leaf, index), value)
            for (name, value), index in zip(self.values.items(), indices, strict=True)
        }

    def unflatten(self, tree: Any) -> Any:
        """Gives every leaf of a result over the flattened grid one dimension for each axis."""
        return tree if len(self.values) <= 1 else _reshaped(tree, self.shape)

    def coordinates(self) -> dict[str, np.ndarray]:
        """A label for every position along every axis."""
        return {
            name: np.asarray(value) if _is_numeric_vector(value) else np.arange(self.sizes[name])
            for name, value in self.values.items()
        }


def call_with(function: Callable[..., Any], available: Mapping[str, Any], *positional: Any, role: str) -> Any:
    """Calls `function(*positional, **named)` with the `available` axis values that the function takes by name.

    An error names the function by its `role`, e.g. "probe 'loss'".
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # builtins without a signature
        return function(*positional)
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return function(*positional, **available)
    free = [p for p in parameters[len(positional) :] if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    missing = [p.name for p in free if p.default is p.empty and p.name not in available]
    if missing and not any(p.kind is p.VAR_POSITIONAL for p in parameters):
        raise TypeError(
            f"{role} takes {', '.join(map(repr, missing))}, which no axis provides. "
            f"Axes in `over`: {', '.join(map(repr, available)) or 'none'}."
        )
    return function(*positional, **{p.name: available[p.name] for p in free if p.name in available})


def is_function(value: Any) -> bool:
    """Whether `value` is a plain function, as opposed to a pytree that happens to be callable."""
    return inspect.isroutine(value) or isinstance(value, functools.partial)


def _as_array(leaf: Any) -> Any:
    return leaf if hasattr(leaf, "shape") else np.asarray(leaf)


def _reshaped(tree: Any, shape: tuple[int, ...]) -> Any:
    """Splits the first dimension of every leaf into several; on a CPU nothing is compiled."""
    if jax.default_backend() != "cpu":
        return _reshaped_there(tree, shape)

    def one(leaf: Any) -> Any:
        wanted = shape + leaf.shape[1:]
        return leaf.reshape(wanted) if _is_keys(leaf) else to_device(np.asarray(leaf).reshape(wanted))

    return jax.tree.map(one, tree)


@functools.partial(jit, quick=True, static_argnums=1)
def _reshaped_there(tree: Any, shape: tuple[int, ...]) -> Any:
    """Splits the first dimension of leaves on another device, in one program for all."""
    return jax.tree.map(lambda leaf: leaf.reshape(shape + leaf.shape[1:]), tree)


def _taken(leaf: Any, index: np.ndarray) -> jax.Array:
    """Rows of an array, taken on the host where possible, so that nothing is compiled."""
    return leaf[index] if _is_keys(leaf) else to_device(np.asarray(leaf)[index])


def _is_keys(leaf: Any) -> bool:
    """Whether an array holds random keys, which the host cannot handle."""
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _is_numeric_vector(value: Any) -> bool:
    return hasattr(value, "dtype") and np.ndim(value) == 1 and not _is_keys(value)
