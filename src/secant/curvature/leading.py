r"""The largest Hessian eigenvalues of a loss over many samples, by two short cuts.

*Coordinates.* With fewer samples than input features and a dense first layer $z = s X W$, the Hessian acts only on
weights in the span of the data, $W = X^\top B$. There $\dot z = s K B$ with the Gram matrix $K = X X^\top$, and the
image is $B' = s \dot\delta$ with the signal $\dot\delta$ that comes back to $z$. So the inputs are multiplied once, for
$K$, and each product needs one multiplication with $K$ in place of two with $X$. The inner product is
$\mathrm{tr}\, B^\top K B'$.

*Start.* The eigenvectors of every fourth sample lie close to those of all, and cost little.

Both are exact: the first is a change of coordinates, the second only where the search begins.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, PRNGKeyArray

from secant.curvature.structured import gram, network_of
from secant.linalg.lanczos import Ritz
from secant.linalg.metric import metric_lanczos
from secant.nets.network import Network
from secant.nets.reduction import first_dense, is_reducible
from secant.nets.sites import observe

FEWEST = 128
"""With fewer samples the short cuts are longer than the way."""

STRIDES = (4, 1)
"""The search goes from every so many samples to all of them."""

SPARE = 1
"""More vectors at the beginning than are wanted, so that none of those is missed."""

ROUGH = 0.005
"""Relative error of the eigenvalues before all samples are looked at."""


def has_short_cut(f: Any, x: Any) -> bool:
    """Whether the leading eigenpairs of a loss over `f(params, x)` can be found in the span of the data."""
    net = network_of(f)
    return net is not None and isinstance(x, jax.Array) and len(x) >= FEWEST and is_reducible(net, x.shape)


def search_in_span(f: Any, loss: Callable[..., Array]) -> Callable[..., Any]:
    """The `search` of a Hessian [`Operator`][secant.linalg.Operator] with `data = (params, x, y)`."""

    def search(data: Any, k: int, tol: float, key: PRNGKeyArray) -> tuple[Ritz, Callable[[Array], Any]]:
        params, x, y = data
        net = network_of(f)
        assert net is not None
        return _compiled(f, loss, k)(params, x, y, tol, key), functools.partial(_lift, net, params, x)

    return search


def _lift(net: Network, params: Any, x: Array, row: Array) -> Any:
    r"""A vector in the span of the data as a vector of parameters: $V = X^\top B$ for the first layer."""
    weight, others, _ = split_first(net, params, x.shape[1])
    first = len(x) * weight.shape[1]
    rest = ravel_pytree(others)[1](row[first:])
    return with_first(net, rest, x.T @ row[:first].reshape(len(x), -1))


@functools.lru_cache(maxsize=16)
def _compiled(f: Any, loss: Callable[..., Array], k: int) -> Callable[..., Ritz]:
    """`(params, x, y, tol, key) -> eigenpairs`; a vector is `B`, then all parameters but the first layer's weight."""
    net = network_of(f)
    assert net is not None

    def run(params: Any, x: Array, y: Array, tol: Array, key: PRNGKeyArray) -> Ritz:
        weight, others, scale = split_first(net, params, x.shape[1])
        inner = gram(x)
        drive = scale * (x @ weight)
        width = weight.shape[1]
        size = sum(leaf.size for leaf in jax.tree.leaves(others))
        vectors = None
        for stride in STRIDES:
            take = slice(None, None, stride)
            z, kernel, targets = drive[take], inner[take, take], y[take]
            n, last = len(z), stride == STRIDES[-1]
            products, metric = _products(net, loss, others, z, kernel, targets, scale)
            if vectors is None:
                vectors = jax.random.normal(key, (k + SPARE, n * width + size), x.dtype)
            found = metric_lanczos(
                products, metric, vectors, k, tol=tol if last else ROUGH, capacity=max(12, 6 * len(vectors))
            )
            if not last:
                vectors = _finer(found.vectors, n, width, stride, STRIDES, len(x))
        return found

    return jax.jit(run)


def split_first(net: Network, params: Any, features: int) -> tuple[Array, Any, float]:
    """The first layer's weight, all other parameters (the weight replaced by an empty row), and the layer's scale."""
    found = first_dense(net)
    assert found is not None
    layer, path = found
    scale = layer.facts["parametrization"].weight(features, last=layer.facts["last"]).scale
    weight: Any = params
    for step in (*path, "weight"):
        weight = weight[step]
    return weight, with_first(net, params, jnp.zeros((1, weight.shape[1]), weight.dtype)), scale


def with_first(net: Network, params: Any, weight: Array) -> Any:
    """The parameters with another weight in the first layer."""
    found = first_dense(net)
    assert found is not None

    def replaced(node: Any, path: tuple[int, ...]) -> Any:
        if not path:
            return {**node, "weight": weight}
        return tuple(replaced(part, path[1:]) if i == path[0] else part for i, part in enumerate(node))

    return replaced(params, found[1])


def _products(
    net: Network, loss: Callable[..., Array], others: Any, drive: Array, kernel: Array, y: Array, scale: float
) -> tuple[Callable[[Array, Array], Array], Callable[[Array], Array]]:
    """The Hessian and the metric on blocks of rows, in the span of the data."""
    n, width = drive.shape
    unravel = ravel_pytree(others)[1]
    nothing = jnp.zeros((n, 1), drive.dtype)
    first = n * width

    def objective(z: Array, others: Any) -> Array:
        outputs, _, _ = observe(lambda: net.apply(others, nothing), taps={0: z})
        return loss(outputs, y)

    linear = jax.linearize(jax.grad(objective, argnums=(0, 1)), drive, others)[1]

    def product(row: Array, dual: Array) -> Array:
        signal, rest = linear(scale * dual[:first].reshape(n, width), unravel(row[first:]))
        return jnp.concatenate([scale * signal.ravel(), ravel_pytree(rest)[0]])

    def metric(rows: Array) -> Array:
        b = rows.shape[0]
        side_by_side = jnp.moveaxis(rows[:, :first].reshape(b, n, width), 0, 1).reshape(n, b * width)
        image = jnp.moveaxis((kernel @ side_by_side).reshape(n, b, width), 1, 0).reshape(b, first)
        return jnp.concatenate([image, rows[:, first:]], axis=1)

    return jax.vmap(product), metric


def _finer(vectors: Array, n: int, width: int, stride: int, strides: tuple[int, ...], total: int) -> Array:
    """Vectors over every `stride`-th sample, as vectors over the next finer choice of samples."""
    next_stride = strides[strides.index(stride) + 1]
    count = math.ceil(total / next_stride)
    b = vectors.shape[0]
    first = n * width
    spread = jnp.zeros((b, count, width), vectors.dtype)
    spread = spread.at[:, :: stride // next_stride].set(vectors[:, :first].reshape(b, n, width))
    return jnp.concatenate([spread.reshape(b, -1), vectors[:, first:]], axis=1)
