r"""Tangent kernels of Secant's own networks, without the Jacobian.

A parameter that enters through $z_p = a_p^\top W$ at positions $p$ has the gradient $\sum_p a_p \otimes g_p$ for each
sample, with $g_p$ the backpropagated signal of an output at $z_p$. Its share of the kernel is therefore

$$K_{i\alpha, j\beta} = \sum_{p, q} (a_{ip} \cdot a_{jq})\,(g_{i\alpha p} \cdot g_{j\beta q}),$$

a product of two Gram matrices. The cheapest way to the product depends on the number of positions:

- One position (a dense layer): the product is nearly free.
- A few positions (a convolution on a small image): the sum over $q$ comes first.
- Many positions: multiplying out the gradient of this one parameter can be cheaper. The code counts the operations of
  both ways and takes the cheaper one.

Right below a head that averages over positions, one gradient for each sample serves all outputs.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from secant.curvature.tangent.signals import Signals, gradient, signals
from secant.linalg.spaces import Space
from secant.nets.network import Network

Column = Callable[[int, int], Array]
"""`(start, stop) -> (n - start, k, stop - start, k)`: samples from `start` on against those from `start` to `stop`."""

PARTS = 4
"""A set of samples is cut into this many parts. The product of two parts is computed once and mirrored."""

FEW = 64
"""Fewer rows than this are not cut into parts: so small products take longer than twice as many operations at once."""

COLUMNS = 32
"""Columns of this many are cut even then: registers hold as many, and a few more cost as much again."""


def mirrored(n: int, step: int, column: Column) -> Float[Array, "n k n k"]:
    """A symmetric kernel from its lower half.

    Args:
        n: samples.
        step: samples in a column of blocks.
        column: gives the entries on and below the diagonal in a column of blocks.
    """
    result: Any = None
    for start in range(0, n, step):
        stop = min(start + step, n)
        block = column(start, stop)
        if result is None:
            result = jnp.zeros((n, block.shape[1], n, block.shape[1]), block.dtype)
        result = result.at[start:, :, start:stop].set(block)
        result = result.at[start:stop, :, start:].set(jnp.transpose(block, (2, 3, 0, 1)))
    return result


def gram(rows: Float[Array, "n p"], block: int = 208) -> Float[Array, "n n"]:
    r"""The product $R R^\top$. Only the blocks on and below the diagonal are multiplied; the others are mirrored.

    A block has enough rows for a matrix product to run at full speed.
    """
    n = rows.shape[0]
    if n < 2 * block:
        return rows @ rows.T
    whole = mirrored(n, block, lambda start, stop: (rows[start:] @ rows[start:stop].T)[:, None, :, None])
    return whole[:, 0, :, 0]


def structured_kernel(net: Network, params: Any, x: Array, x2: Array | None = None) -> list[Array]:
    """The share of every parameter, `(n, k, n2, k)` each, in the order of the leaves of `params`."""
    left = signals(net, params, x)
    if x2 is None:
        return [mirrored(len(x), _step(share), _column(share)) for share in left]
    return [across(a, b) for a, b in zip(left, signals(net, params, x2), strict=True)]


def summed_kernel(net: Network, params: Any, x: Array, x2: Array | None = None) -> Float[Array, "n k n2 k"]:
    """The kernel: the sum of all shares."""
    if x2 is not None:
        return functools.reduce(jnp.add, structured_kernel(net, params, x, x2))
    return added_up(signals(net, params, x))


def added_up(shares: list[Signals]) -> Float[Array, "n k n k"]:
    """The kernel from the inputs and signals of all parameters: the sum of all shares."""
    columns = [_column(share) for share in shares]
    n = len(shares[0].inputs)
    return mirrored(
        n, _step(shares[0]), lambda *samples: functools.reduce(jnp.add, (column(*samples) for column in columns))
    )


def _step(share: Signals) -> int:
    """Samples in a column of blocks, the same for all parameters."""
    n, k = share.signals.shape[:2]
    if jax.default_backend() != "cpu":
        return n  # a GPU computes a whole product faster than its parts, unless the product is tiny
    return max(1, COLUMNS // k) if n * k < FEW else -(-n // PARTS)


def _column(share: Signals) -> Column:
    """One parameter's share of the kernel of a set of samples with itself."""
    n, positions, fan_in = share.inputs.shape
    _, k, _, width = share.signals.shape
    factors = share.factors
    if factors is not None:
        rows = gradient(share)
        return lambda start, stop: _by_channels(rows[start:], rows[start:stop], factors)
    if not _is_dense(share) and not (share.mask is None and _positions_are_cheaper(n, n, k, positions, fan_in, width)):
        step = _step(share)
        parts = [gradient(_samples(share, start, start + step)) for start in range(0, n, step)]

        def by_gradients(start: int, stop: int) -> Array:
            first = parts[start // step]
            below = [part @ first.T for part in parts[start // step :]]
            return jnp.concatenate(below).reshape(-1, k, stop - start, k)

        return by_gradients
    return lambda start, stop: across(_samples(share, start, n), _samples(share, start, stop), (n, n))


def across(left: Signals, right: Signals, whole: tuple[int, int] | None = None) -> Float[Array, "n k n2 k"]:
    """One parameter's share of the kernel between two sets of samples, which may be parts of sets of `whole` sizes."""
    n, positions, fan_in = left.inputs.shape
    n2, k, _, width = right.signals.shape
    if left.factors is not None:
        return _by_channels(gradient(left), gradient(right), left.factors)
    if _is_dense(left):
        inner = left.inputs[:, 0] @ right.inputs[:, 0].T
        outer = left.signals.reshape(-1, width) @ right.signals.reshape(-1, width).T
        return inner[:, None, :, None] * outer.reshape(n, k, n2, k)
    if left.mask is None and _positions_are_cheaper(*(whole or (n, n2)), k, positions, fan_in, width):
        return _by_positions(left, right)
    return (gradient(left) @ gradient(right).T).reshape(n, k, n2, k)


def _is_dense(share: Signals) -> bool:
    return share.mask is None and share.inputs.shape[1] == 1


def _samples(share: Signals, start: int, stop: int) -> Signals:
    return share._replace(inputs=share.inputs[start:stop], signals=share.signals[start:stop])


def _by_channels(left: Array, right: Array, factors: Float[Array, "k width"]) -> Array:
    r"""$\sum_o v_{\alpha o} v_{\beta o}\, G_{io} \cdot G_{jo}$ with the gradients $G$ that all outputs share."""
    n, n2, (k, width) = len(left), len(right), factors.shape
    inner = jnp.einsum("ifo,jfo->oij", left.reshape(n, -1, width), right.reshape(n2, -1, width))
    outer = (factors[:, None] * factors[None, :]).reshape(-1, width)
    return jnp.swapaxes((inner.reshape(width, -1).T @ outer.T).reshape(n, n2, k, k), 1, 2)


def _by_positions(left: Signals, right: Signals) -> Array:
    r"""$\sum_p g_{i\alpha p} \cdot \sum_q (a_{ip} \cdot a_{jq})\, g_{j\beta q}$, sample by sample on the right."""
    n, positions, fan_in = left.inputs.shape
    n2, k, _, width = right.signals.shape
    inner = left.inputs.reshape(-1, fan_in) @ right.inputs.reshape(-1, fan_in).T
    inner = jnp.moveaxis(inner.reshape(n * positions, n2, positions), 1, 0)
    from_right = jnp.transpose(right.signals, (0, 2, 3, 1)).reshape(n2, positions, width * k)
    from_left = left.signals.reshape(n, k, positions * width)

    def with_sample(sample: tuple[Array, Array]) -> Array:
        inner, signal = sample
        carried = (inner @ signal).reshape(n, positions * width, k)
        return from_left @ carried

    return jnp.moveaxis(lax.map(with_sample, (inner, from_right)), 0, 2)


def _positions_are_cheaper(n: int, n2: int, k: int, positions: int, fan_in: int, width: int) -> bool:
    """Compares counted multiplications. The many small products over positions run at about a third of the speed."""
    pairs, tall = n * n2, (n + n2) * k
    by_positions = pairs * positions * (positions * fan_in + 3 * k * width * (positions + k))
    by_gradients = fan_in * width * (tall * positions + pairs * k**2)
    return by_positions < by_gradients


def bytes_of_block(net: Network, params: Any, x: Array, weighed: bool = False) -> Callable[[int], int]:
    """A function `samples on a side -> bytes` that a block of the kernel takes, counted rather than measured.

    With `weighed` the outputs of a sample are summed to one output.
    """
    one = jax.ShapeDtypeStruct((1, *jnp.shape(x)[1:]), jnp.result_type(x))
    return _bytes_of_shapes(net, Space(params), Space(one), weighed)


@functools.lru_cache(maxsize=64)
def _bytes_of_shapes(net: Network, params: Space, one: Space, weighed: bool) -> Callable[[int], int]:
    weigh = jnp.ones_like if weighed else None
    shapes: list[Signals] = jax.eval_shape(lambda p, x: signals(net, p, x, weigh), params.tree(), one.tree())
    kept = sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(shapes))

    def held(n: int, share: Signals) -> tuple[int, int]:
        """Entries kept until all shares are added up, and entries freed before the next share."""
        _, positions, fan_in = share.inputs.shape
        _, k, _, width = share.signals.shape
        if share.factors is not None:
            return 2 * n * fan_in * width, n * n * (2 * width + 2 * len(share.factors) ** 2)
        if _is_dense(share):
            return 0, 2 * n * n * k**2
        if share.mask is None and _positions_are_cheaper(n, n, k, positions, fan_in, width):
            return 0, 2 * n * n * (positions**2 + k**2) + n * k * positions * width
        return 2 * n * k * fan_in * width, 2 * n * n * k**2  # of both sides, as they are multiplied out

    itemsize = max(share.signals.dtype.itemsize for share in shapes)

    def count(n: int) -> int:
        entries = [held(n, share) for share in shapes]
        return 2 * n * kept + itemsize * (sum(stay for stay, _ in entries) + max(go for _, go in entries))

    return count
