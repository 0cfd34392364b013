r"""Tangent kernels of Secant's own networks, without the Jacobian.

A parameter that enters through $z_p = a_p^\top W$ at positions $p$ has the gradient $\sum_p a_p \otimes g_p$ for each
sample, with $g_p$ the backpropagated signal of an output at $z_p$. So its share of the kernel is

$$K_{i\alpha, j\beta} = \sum_{p, q} (a_{ip} \cdot a_{jq})\,(g_{i\alpha p} \cdot g_{j\beta q}),$$

a product of two Gram matrices. For one position (a dense layer) that is nearly free. For many (a convolution) it
competes with multiplying out the gradient of this one parameter; the cheaper is chosen by counting operations.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from secant.linalg.spaces import Space
from secant.nets.network import Network
from secant.nets.sites import observe, zeros_like_outputs


class Signals(NamedTuple):
    """What one parameter saw and what came back to it.

    Attributes:
        inputs: `(samples, positions, features)`; scaled.
        signals: `(samples, outputs, positions, width)`.
        mask: scale of every entry of the weight where it is not one number, else None.
    """

    inputs: Array
    signals: Array
    mask: Array | None


def network_of(f: Any) -> Network | None:
    """The network whose `apply` this is, or None for any other function."""
    owner = getattr(f, "__self__", None)
    return owner if isinstance(owner, Network) and getattr(f, "__name__", "") == "apply" else None


def signals(net: Network, params: Any, x: Array) -> list[Signals]:
    """Inputs and backpropagated signals of every parameter, in the order of the leaves of `params`.

    One forward pass, and one backward pass an output; no gradient in a parameter is formed.
    """
    leaves = jax.tree.leaves(params)

    def run(taps: list[Array]) -> tuple[Array, Any]:
        outputs, sites, _ = observe(lambda: net.apply(params, x), taps)
        owners = [next((i for i, leaf in enumerate(leaves) if leaf is site.weight), -1) for site in sites]
        if set(owners) != set(range(len(leaves))):
            raise TypeError(f"{net.name}: every parameter must enter through a site, unchanged, and none is left out.")
        facts.extend(zip(owners, (site.kind for site in sites), strict=True))
        return outputs, [(site.inputs, site.scale) for site in sites]

    facts: list[tuple[int, str]] = []
    taps = zeros_like_outputs(lambda: net.apply(params, x))
    outputs, pull, seen = jax.vjp(run, taps, has_aux=True)
    owners_and_kinds = facts[: len(seen)]
    basis = jnp.eye(math.prod(outputs.shape[1:]), dtype=outputs.dtype).reshape(-1, 1, *outputs.shape[1:])
    pulled = jax.vmap(lambda e: pull(jnp.broadcast_to(e, outputs.shape))[0])(basis)

    shares: dict[int, Signals] = {}
    for (owner, kind), (inputs, scale), signal in zip(owners_and_kinds, seen, pulled, strict=True):
        signal = jnp.moveaxis(signal, 0, 1)
        share = (
            _linear(inputs, signal, scale) if kind == "linear" else _elementwise(inputs, signal, scale, leaves[owner])
        )
        shares[owner] = _together(shares[owner], share) if owner in shares else share
    return [shares[index] for index in range(len(leaves))]


def _linear(inputs: Array, signal: Array, scale: Any) -> Signals:
    whole = jnp.ndim(scale) == 2
    n, k = signal.shape[:2]
    a, g = inputs.reshape(n, -1, inputs.shape[-1]), signal.reshape(n, k, -1, signal.shape[-1])
    return Signals(a, g, scale) if whole else Signals(scale * a, g, None)


def _elementwise(inputs: Array, signal: Array, scale: Any, weight: Array) -> Signals:
    """A bias or gain has few entries: its gradient itself, laid out as one position of as many channels."""
    gradient = scale * inputs[:, None] * signal  # (n, k, *positions, *shape of the weight)
    spare = gradient.ndim - 2 - weight.ndim
    gradient = gradient.sum(axis=tuple(range(2, 2 + spare)))
    widened = tuple(2 + i for i, size in enumerate(weight.shape) if size == 1)
    gradient = gradient.sum(axis=widened, keepdims=True)
    n, k = gradient.shape[:2]
    return Signals(jnp.ones((n, 1, 1), gradient.dtype), gradient.reshape(n, k, 1, -1), None)


def _together(first: Signals, second: Signals) -> Signals:
    """Two uses of one parameter: more positions where both are alike, otherwise the sum of their gradients."""
    same_form = first.inputs.shape[2] == second.inputs.shape[2] and first.mask is None and second.mask is None
    if same_form:
        return first._replace(
            inputs=jnp.concatenate([first.inputs, second.inputs], axis=1),
            signals=jnp.concatenate([first.signals, second.signals], axis=2),
        )
    n, k = first.signals.shape[:2]
    gradient = (_gradient(first) + _gradient(second)).reshape(n, k, 1, -1)
    return Signals(jnp.ones((n, 1, 1), gradient.dtype), gradient, None)


def share_of_kernel(left: Signals, right: Signals | None) -> Float[Array, "n k n2 k"]:
    """One parameter's part of the kernel between two sets of samples, or of one set with itself (None)."""
    other = left if right is None else right
    n, positions, fan_in = left.inputs.shape
    n2, k, width = other.inputs.shape[0], left.signals.shape[1], left.signals.shape[-1]

    def products(take: Callable[[Signals], Array]) -> Array:
        return gram(take(left)) if right is None else take(left) @ take(right).T

    if left.mask is None and positions == 1:
        inner = products(lambda s: s.inputs[:, 0])
        outer = products(lambda s: s.signals.reshape(-1, width))
        return inner[:, None, :, None] * outer.reshape(n, k, n2, k)
    if left.mask is None and _grams_are_cheaper(n, n2, k, positions, fan_in, width):
        inner = products(lambda s: s.inputs.reshape(-1, fan_in)).reshape(n, positions, n2, positions)
        outer = products(lambda s: s.signals.reshape(-1, width)).reshape(n, k, positions, n2, k, positions)
        return jnp.einsum("ipjq,iapjbq->iajb", inner, outer)
    return products(_gradient).reshape(n, k, n2, k)


def gram(rows: Float[Array, "n p"], block: int = 208) -> Float[Array, "n n"]:
    r"""$R R^\top$ with only the blocks on and above the diagonal multiplied, and mirrored.

    A block is high enough for a matrix product to run at its full speed.
    """
    n = rows.shape[0]
    if n < 2 * block:
        return rows @ rows.T
    result = jnp.zeros((n, n), rows.dtype)
    for start in range(0, n, block):
        product = rows[start : start + block] @ rows[start:].T
        result = result.at[start : start + block, start:].set(product)
        result = result.at[start:, start : start + block].set(product.T)
    return result


def _gradient(share: Signals) -> Array:
    """The gradient of every output in this one parameter, `(samples * outputs, entries)`."""
    n, k, positions, width = share.signals.shape
    # All outputs of a sample go into one matrix product, (features x positions) by (positions x outputs * width).
    signals = jnp.swapaxes(share.signals, 1, 2).reshape(n, positions, k * width)
    gradient = jnp.einsum("ipc,ipe->ice", share.inputs, signals).reshape(n, -1, k, width)
    if share.mask is not None:
        gradient = gradient * share.mask[:, None, :]
    return jnp.swapaxes(gradient, 1, 2).reshape(n * k, -1)


def _grams_are_cheaper(n: int, n2: int, k: int, positions: int, fan_in: int, width: int) -> bool:
    """Counts multiplications, and allows the Gram matrices no more memory than the gradients."""
    pairs, tall = n * n2, (n + n2) * k
    grams = pairs * positions**2 * (fan_in + k**2 * (width + 1))
    gradients = tall * positions * fan_in * width + pairs * k**2 * fan_in * width
    return grams < gradients and pairs * positions**2 * (k**2 + 1) <= tall * fan_in * width


def structured_kernel(net: Network, params: Any, x: Array, x2: Array | None = None) -> list[Array]:
    """The share of every parameter, `(n, k, n2, k)` each, in the order of the leaves of `params`."""
    left = signals(net, params, x)
    right = [None] * len(left) if x2 is None else signals(net, params, x2)
    return [share_of_kernel(a, b) for a, b in zip(left, right, strict=True)]


def bytes_of_block(net: Network, params: Any, x: Array) -> Callable[[int], int]:
    """`samples a side -> memory` that a block of the kernel takes, counted and not measured."""
    one = jax.ShapeDtypeStruct((1, *jnp.shape(x)[1:]), jnp.result_type(x))
    return _bytes_of_shapes(net, Space(params), Space(one))


@functools.lru_cache(maxsize=64)
def _bytes_of_shapes(net: Network, params: Space, one: Space) -> Callable[[int], int]:
    shapes: list[Signals] = jax.eval_shape(lambda p, x: signals(net, p, x), params.tree(), one.tree())
    kept = sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(shapes))

    def largest_share(n: int, share: Signals) -> int:
        _, positions, fan_in = share.inputs.shape
        _, k, _, width = share.signals.shape
        if share.mask is None and positions == 1:
            entries = 0
        elif share.mask is None and _grams_are_cheaper(n, n, k, positions, fan_in, width):
            entries = n * n * positions**2 * (k**2 + 1)
        else:
            entries = 2 * n * k * fan_in * width  # of both sides, as they are multiplied out
        return (entries + 2 * n * n * k**2) * share.signals.dtype.itemsize

    return lambda n: 2 * n * kept + max(largest_share(n, share) for share in shapes)
