r"""Per-sample gradients without writing them out: their Gram matrix, their lengths, their mean.

The gradient of a sample is $g_i = n\,\partial L/\partial f_i \cdot \partial f_i/\partial\theta$, so that their mean is
the gradient of the loss, however the loss is normalised. With the weights $c_i = n\,\partial L/\partial f_i$ held
fixed, $g_i$ is the gradient of one number for each sample, $c_i \cdot f(x_i)$. The Gram matrix $g_i \cdot g_j$ is
therefore a tangent kernel. For Secant's own networks Gram matrix and lengths are computed layer by layer, from the
inputs of each parameter and the signals that come back to it. For any other function they come from blocks of
gradients.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from secant.core.device import jit
from secant.core.memo import kept
from secant.core.types import Params
from secant.curvature.checks import Function
from secant.curvature.tangent.layerwise import across, added_up, bytes_of_block, gram
from secant.curvature.tangent.signals import Signals, gradient, network_of, signals
from secant.curvature.tangent.tangent_kernel import MEMORY, in_tiles, kernel_matrix
from secant.linalg.spaces import size_of
from secant.losses import Loss

ENTRIES = 2**22
"""Numbers in a block of gradients. A block holds as many samples as fit, and at least one."""


class Lengths(NamedTuple):
    r"""The squared lengths of per-sample gradients, and the mean gradient.

    Attributes:
        squares: $|g_i|^2$.
        mean: $\bar g$, the gradient of the loss, in the structure of the parameters.
    """

    squares: Float[Array, " n"]
    mean: Params


def weights(loss: Loss, outputs: Float[Array, "n *k"], y: Any) -> Float[Array, "n *k"]:
    r"""The weights $c_i = n\,\partial L/\partial f_i$ with which the outputs of a sample are summed."""
    return len(outputs) * jax.grad(lambda values: loss(values, y))(outputs)


def weighed(f: Function) -> Callable[[Params, Any], Array]:
    r"""The function $(\theta, (X, c)) \mapsto c_i \cdot f(x_i)$, whose gradients are the per-sample gradients."""
    return _weighed(f)


@kept
def _weighed(f: Function) -> Callable[[Params, Any], Array]:
    def sums(params: Params, data: Any) -> Array:
        x, c = data
        return jnp.sum((c * f(params, x)).reshape(len(c), -1), axis=1)

    return sums


def gram_matrix(f: Function, loss: Loss, params: Params, x: Any, y: Any, memory: int = MEMORY) -> Float[Array, "n n"]:
    r"""The Gram matrix $g_i \cdot g_j$, computed in blocks that fit into `memory`."""
    net, n = network_of(f), len(jax.tree.leaves(x)[0])
    if net is not None:
        needed = bytes_of_block(net, params, x, True)
        if needed(n) <= memory:
            return _whole_gram(f, loss)(params, x, y)
    data = x, _compiled_weights(f, loss)(params, x, y)
    if net is None:
        return kernel_matrix(weighed(f), params, data, memory=memory)
    tile = n
    while tile > 1 and needed(tile) > memory:
        tile = -(-tile // 2)
    return in_tiles(_pair_of_network(f), params, data, tile)


@kept
def _compiled_weights(f: Function, loss: Loss) -> Callable[..., Array]:
    return jit(lambda params, x, y: weights(loss, f(params, x), y))


@kept
def _whole_gram(f: Function, loss: Loss) -> Callable[..., Array]:
    return jit(lambda params, x, y: traced_gram(f, loss, params, x, y))


def traced_gram(f: Function, loss: Loss, params: Params, x: Any, y: Any) -> Float[Array, "n n"]:
    """The Gram matrix in one piece, as a traceable function that checks nothing."""
    net = network_of(f)
    if net is not None:
        return added_up(signals(net, params, x, lambda outputs: weights(loss, outputs, y)))[:, 0, :, 0]
    c = weights(loss, f(params, x), y)
    rows = jax.vmap(lambda sample: _gradient_of(f, params, sample))((x, c))
    return gram(rows)


@kept
def _pair_of_network(f: Function) -> Callable[..., Array]:
    net = network_of(f)
    assert net is not None

    def pair(params: Params, left: Any, right: Any) -> Array:
        first = signals(net, params, left[0], lambda _: left[1])
        if right is None:
            return added_up(first)[:, 0, :, 0]
        second = signals(net, params, right[0], lambda _: right[1])
        return functools.reduce(jnp.add, (across(a, b) for a, b in zip(first, second, strict=True)))[:, 0, :, 0]

    return jit(pair)


@kept
def compiled_lengths(f: Function, loss: Loss) -> Callable[..., Lengths]:
    """`(params, x, y) -> Lengths`, compiled."""
    return jit(lambda params, x, y: lengths(f, loss, params, x, y))


def lengths(f: Function, loss: Loss, params: Params, x: Any, y: Any) -> Lengths:
    """Squared lengths of all gradients, and their mean; traceable. Secant's networks get both at the mean's cost."""
    net = network_of(f)
    if net is None:
        return _lengths_in_blocks(f, params, x, weights(loss, f(params, x), y))
    shares = signals(net, params, x, lambda outputs: weights(loss, outputs, y))
    found = [_of_share(share) for share in shares]
    leaves, structure = jax.tree.flatten(params)
    mean = [total.reshape(leaf.shape) / len(x) for (_, total), leaf in zip(found, leaves, strict=True)]
    squares = functools.reduce(jnp.add, (square for square, _ in found))
    return Lengths(squares, jax.tree.unflatten(structure, mean))


def _of_share(share: Signals) -> tuple[Array, Array]:
    """Squared lengths of the gradients by one parameter, and the sum of the gradients."""
    n, positions, fan_in = share.inputs.shape
    width = share.signals.shape[-1]
    a, g = share.inputs, share.signals[:, 0]
    if share.mask is None and positions == 1:
        return jnp.sum(a**2, (1, 2)) * jnp.sum(g**2, (1, 2)), a[:, 0].T @ g[:, 0]
    if share.mask is None and positions * (fan_in + width) < fan_in * width:
        inner = jnp.einsum("ipf,iqf->ipq", a, a) * jnp.einsum("ipw,iqw->ipq", g, g)
        return jnp.sum(inner, (1, 2)), a.reshape(-1, fan_in).T @ g.reshape(-1, width)

    def block(total: Array, part: tuple[Array, Array]) -> tuple[Array, Array]:
        rows = gradient(share._replace(inputs=part[0], signals=part[1]))
        return total + rows.sum(0), jnp.sum(rows**2, 1)

    size = max(1, min(n, ENTRIES // (fan_in * width)))
    cut = _in_blocks(a, size), _in_blocks(share.signals, size)
    total, squares = lax.scan(block, jnp.zeros(fan_in * width, share.signals.dtype), cut)
    return squares.reshape(-1)[:n], total


def _in_blocks(array: Array, size: int) -> Array:
    """The rows in blocks of `size`, filled up with zeros."""
    count = -(-len(array) // size)
    filled = jnp.pad(array, ((0, count * size - len(array)), *((0, 0),) * (array.ndim - 1)))
    return filled.reshape(count, size, *array.shape[1:])


def _gradient_of(f: Function, params: Params, sample: Any) -> Float[Array, " p"]:
    """The gradient of one sample, `(input, weights)` without their leading axis, as a flat vector."""
    one = jax.tree.map(lambda a: a[None], sample)
    return ravel_pytree(jax.grad(lambda p: weighed(f)(p, one)[0])(params))[0]


def _lengths_in_blocks(f: Function, params: Params, x: Any, c: Array) -> Lengths:
    n, p = len(c), size_of(params)
    unravel = ravel_pytree(params)[1]

    def block(total: Array, part: Any) -> tuple[Array, Array]:
        rows = jax.vmap(lambda sample: _gradient_of(f, params, sample))(part)
        return total + rows.sum(0), jnp.sum(rows**2, 1)

    size = max(1, min(n, ENTRIES // p))
    # The last block is filled up with copies of the last sample, which get no weight.
    rows = jnp.minimum(jnp.arange(-(-n // size) * size), n - 1)
    inputs = jax.tree.map(lambda a: a[rows].reshape(-1, size, *a.shape[1:]), x)
    start = jnp.zeros(p, jnp.result_type(*jax.tree.leaves(params)))
    total, squares = lax.scan(block, start, (inputs, _in_blocks(c, size)))
    return Lengths(squares.reshape(-1)[:n], unravel(total / n))
