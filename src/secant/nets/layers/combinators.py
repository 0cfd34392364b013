"""Combinators: networks made of networks."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from secant.core.types import Params
from secant.nets.layers.shape import identity
from secant.nets.network import Layer, Network, Shape, keys_of


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


def _check(name: str, parts: tuple[Network, ...]) -> None:
    if not parts:
        raise ValueError(f"{name}: takes at least one network, got none.")
    for index, part in enumerate(parts):
        if not isinstance(part, Network):
            raise TypeError(f"{name}: every part must be a Network, part {index} is {part!r}.")


def serial(*parts: Network, name: str = "serial") -> Network:
    r"""One network after the other, $x \mapsto f_k(\cdots f_2(f_1(x)))$. `params` is a tuple with one entry a part.

    Example:
        ```python
        from secant import nets

        net = nets.serial(nets.flatten(), nets.dense(32), nets.activation("erf"), nets.dense(10, last=True))
        print(net.output_shape((8, 4, 4, 3)))
        ```
        ```text
        (8, 10)
        ```
    """
    _check(name, parts)

    def new(key: PRNGKeyArray, shape: Shape, dtype: Any) -> tuple[Params, Shape]:
        params = []
        for part, one in zip(parts, keys_of(key, len(parts)), strict=True):
            drawn, shape = part.new(one, shape, dtype)
            params.append(drawn)
        return tuple(params), shape

    def run(params: Params, x: Array) -> Array:
        if len(params) != len(parts):
            raise ValueError(
                f"{name}: `params` has {len(params)} entries but the network has {len(parts)} parts. Draw them "
                "with the network's own init."
            )
        for part, own in zip(parts, params, strict=True):
            x = part.run(own, x)
        return x

    return Network(new, run, name, parts, Serial(), parts[0].axes)


def residual(branch: Network, projection: Network | None = None, name: str = "residual") -> Network:
    r"""A branch beside a shortcut, $x \mapsto P(x) + f(x)$, where $P$ is the identity unless given.

    `params` is `(params of the branch, params of the projection)`.
    """
    parts = (branch, identity() if projection is None else projection)
    _check(name, parts)

    def new(key: PRNGKeyArray, shape: Shape, dtype: Any) -> tuple[Params, Shape]:
        keys = keys_of(key, 2)
        first, out = branch.new(keys[0], shape, dtype)
        second, skipped = parts[1].new(keys[1], shape, dtype)
        if out != skipped:
            raise ValueError(
                f"{name}: the branch gives shape {out} but the shortcut gives {skipped}. "
                "Pass a `projection` that gives the branch's shape."
            )
        return (first, second), out

    def run(params: Params, x: Array) -> Array:
        return parts[1].run(params[1], x) + branch.run(params[0], x)

    return Network(new, run, name, parts, Residual(), branch.axes)


def add(*branches: Network, name: str = "add") -> Network:
    r"""Branches added up, $x \mapsto f_1(x) + \dots + f_k(x)$. `params` has one entry a branch.

    Example:
        ```python
        from secant import nets

        net = nets.serial(nets.add(nets.conv(8), nets.conv(8, 1), nets.conv(8, 5)), nets.global_average_pool())
        print(net.output_shape((4, 6, 6, 3)))
        ```
        ```text
        (4, 8)
        ```
    """
    return _entry_by_entry(name, branches, Sum(), jnp.add)


def multiply(*branches: Network, name: str = "multiply") -> Network:
    r"""Branches multiplied entry by entry, $x \mapsto f_1(x) \circ \dots \circ f_k(x)$, as in gated units."""
    return _entry_by_entry(name, branches, Product(), jnp.multiply)


def _entry_by_entry(
    name: str, branches: tuple[Network, ...], layer: Layer, join: Callable[[Array, Array], Array]
) -> Network:
    """Branches that give one shape, joined entry by entry."""
    _check(name, branches)

    def new(key: PRNGKeyArray, shape: Shape, dtype: Any) -> tuple[Params, Shape]:
        drawn = [b.new(one, shape, dtype) for b, one in zip(branches, keys_of(key, len(branches)), strict=True)]
        shapes = [out for _, out in drawn]
        if len(set(shapes)) > 1:
            raise ValueError(f"{name}: the branches give shapes {shapes}; they must give the same one.")
        return tuple(params for params, _ in drawn), shapes[0]

    def run(params: Params, x: Array) -> Array:
        if len(params) != len(branches):
            raise ValueError(
                f"{name}: `params` has {len(params)} entries but there are {len(branches)} branches. Draw them "
                "with the network's own init."
            )
        return functools.reduce(join, [b.run(own, x) for b, own in zip(branches, params, strict=True)])

    return Network(new, run, name, branches, layer, branches[0].axes)


def concat(*branches: Network, name: str = "concat") -> Network:
    r"""Branches side by side, $x \mapsto [f_1(x), \dots, f_k(x)]$ over features. `params` has one entry a branch."""
    _check(name, branches)

    def new(key: PRNGKeyArray, shape: Shape, dtype: Any) -> tuple[Params, Shape]:
        drawn = [b.new(one, shape, dtype) for b, one in zip(branches, keys_of(key, len(branches)), strict=True)]
        shapes = [out for _, out in drawn]
        if len({out[:-1] for out in shapes}) > 1:
            raise ValueError(f"{name}: the branches give shapes {shapes}, which differ in more than their features.")
        return tuple(params for params, _ in drawn), (*shapes[0][:-1], sum(out[-1] for out in shapes))

    def run(params: Params, x: Array) -> Array:
        return jnp.concatenate([b.run(own, x) for b, own in zip(branches, params, strict=True)], axis=-1)

    return Network(new, run, name, branches, Concat(), branches[0].axes)
