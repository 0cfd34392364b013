r"""The largest Hessian eigenvalues of a loss over many samples, by two short cuts.

*Coordinates.* With fewer samples than input features and a dense first layer $z = s X W$, the Hessian acts only on
weights in the span of the data, $W = X^\top B$. There $\dot z = s K B$ with the Gram matrix $K = X X^\top$, and the
image is $B' = s \dot\delta$ with the signal $\dot\delta$ that comes back to $z$. The inputs are multiplied once, to
form $K$. Each product then needs one multiplication with $K$ instead of two with $X$. The inner product is
$\mathrm{tr}\, B^\top K B'$.

*Start.* The search starts at the leading eigenvectors of the Gauss-Newton matrix $J^\top \ell'' J$ of every fourth
sample, which lie close to those of the full Hessian. They cost little: they are $J^\top \ell'' a$ for the leading
eigenvectors $a$ of $J J^\top \ell''$, and the search for $a$ takes place among the outputs.

Both short cuts are exact: the first changes coordinates, and the second only chooses where the search begins.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PRNGKeyArray

from secant.core.device import jit
from secant.curvature.tangent.layerwise import gram
from secant.curvature.tangent.signals import network_of
from secant.linalg.metric import metric_lanczos
from secant.linalg.ritz import Ritz
from secant.nets.network import Network
from secant.nets.reduction import first_dense, is_reducible
from secant.nets.taps import observe

FEWEST = 128
"""With fewer samples the short cuts take longer than the direct search."""

STRIDE = 4
"""The search begins with one sample in this many."""

ROUGH = 0.002
"""Relative error of the eigenvalues on these few samples, before the search goes on with all."""


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
        return _compiled(f, loss, k)(params, x, y, tol, key), functools.partial(_compiled_lift, net, params, x)

    return search


def _lift(net: Network, params: Any, x: Array, row: Array) -> Any:
    r"""Turns a vector in the span of the data into a vector of parameters: $V = X^\top B$ for the first layer."""
    weight, others, _ = split_first(net, params, x.shape[1])
    first = len(x) * weight.shape[1]
    rest = ravel_pytree(others)[1](row[first:])
    return with_first(net, rest, x.T @ row[:first].reshape(len(x), -1))


_compiled_lift = jit(jax.vmap(_lift, (None, None, None, 0)), static_argnums=0)


@functools.lru_cache(maxsize=16)
def _compiled(f: Any, loss: Callable[..., Array], k: int) -> Callable[..., Ritz]:
    """`(params, x, y, tol, key) -> eigenpairs`; a vector is `B`, then all parameters but the first layer's weight."""
    net = network_of(f)
    assert net is not None

    def run(params: Any, x: Array, y: Array, tol: Array, key: PRNGKeyArray) -> Ritz:
        weight, others, scale = split_first(net, params, x.shape[1])
        inner, drive = gram(x), scale * (x @ weight)
        few = _Span(net, loss, others, drive[::STRIDE], inner[::STRIDE, ::STRIDE], y[::STRIDE], scale)
        every = _Span(net, loss, others, drive, inner, y, scale)
        start = _of_every_sample(few.leading_gauss_newton(k, key), few, every)
        return metric_lanczos(jax.vmap(every.hessian()), every.metric, start, k, tol=tol, rounds=3)

    return jit(run)


def split_first(net: Network, params: Any, features: int) -> tuple[Array, Any, float]:
    """The first layer's weight, all other parameters, and the layer's scale."""
    found = first_dense(net)
    assert found is not None
    layer, path = found
    scale = layer.parametrization.weight(features, layer.features, last=layer.last).scale
    node: Any = params
    for step in path:
        node = node[step]
    others = _replaced(params, path, {name: leaf for name, leaf in node.items() if name != "weight"})
    return node["weight"], others, scale


def with_first(net: Network, others: Any, weight: Array) -> Any:
    """All parameters, put together from the first layer's weight and the others."""
    found = first_dense(net)
    assert found is not None
    node: Any = others
    for step in found[1]:
        node = node[step]
    return _replaced(others, found[1], {**node, "weight": weight})


def _replaced(params: Any, path: tuple[int, ...], node: Any) -> Any:
    if not path:
        return node
    return tuple(_replaced(part, path[1:], node) if i == path[0] else part for i, part in enumerate(params))


class _Span:
    """Curvature in the span of some samples; a vector is `B`, then all parameters but the first layer's weight."""

    def __init__(
        self, net: Network, loss: Callable[..., Array], others: Any, drive: Array, kernel: Array, y: Array, scale: float
    ) -> None:
        self.kernel, self.scale = kernel, scale
        self.samples, self.width = drive.shape
        self.first = drive.size
        self.unravel = ravel_pytree(others)[1]
        self.at = (drive, others)
        self.loss = lambda outputs: loss(outputs, y)
        # The first layer itself sees nothing: its output is given, and perturbed, from outside.
        nothing, unused = jnp.zeros((self.samples, 1), drive.dtype), jnp.zeros((1, self.width), drive.dtype)

        def outputs(z: Array, others: Any) -> Array:
            return observe(lambda: net.apply(with_first(net, others, unused), nothing), taps={0: z})[0]

        self.outputs = outputs

    def hessian(self) -> Callable[[Array, Array], Array]:
        """`(row, its image under the metric) -> Hessian times row`."""
        gradient = jax.grad(lambda z, others: self.loss(self.outputs(z, others)), argnums=(0, 1))
        linear = jax.linearize(gradient, *self.at)[1]

        def product(row: Array, dual: Array) -> Array:
            drive = self.scale * dual[: self.first].reshape(self.samples, self.width)
            return self.row(*linear(drive, self.unravel(row[self.first :])))

        return product

    def leading_gauss_newton(self, k: int, key: PRNGKeyArray) -> Array:
        """Approximations of the `k` leading eigenvectors of the Gauss-Newton matrix, searched among the outputs."""
        outputs, push = jax.linearize(self.outputs, *self.at)
        pull = jax.linear_transpose(push, *self.at)
        bend = jax.linearize(jax.grad(self.loss), outputs)[1]

        def bent(row: Array) -> Array:
            return bend(row.reshape(outputs.shape)).ravel()

        def tangent_kernel(_: Array, dual: Array) -> Array:
            signal, rest = pull(dual.reshape(outputs.shape))
            return push(self.scale**2 * (self.kernel @ signal), rest).ravel()

        random = jax.random.normal(key, (k, outputs.size), outputs.dtype)
        start = (random[:1], jax.vmap(bent)(random[:1]))
        limits: Any = {"tol": ROUGH, "rounds": 4 * k + 8, "min_rounds": 2 * k + 5}
        found = metric_lanczos(jax.vmap(tangent_kernel), jax.vmap(bent), start, k, **limits).vectors
        bent_most = jax.vmap(bent)(found)
        # A loss that is linear in the outputs has no curvature in them: any direction of the Jacobian will do.
        something = jnp.any(bent_most != 0, axis=1, keepdims=True)
        return jax.vmap(lambda row: self.row(*pull(row.reshape(outputs.shape))))(
            jnp.where(something, bent_most, random)
        )

    def row(self, signal: Array, rest: Any) -> Array:
        return jnp.concatenate([self.scale * signal.ravel(), ravel_pytree(rest)[0]])

    def metric(self, rows: Array) -> Array:
        return with_inner(self.kernel, rows, self.samples, self.width)


def with_inner(kernel: Float[Array, "m n"], rows: Float[Array, "b p"], n: int, width: int) -> Array:
    """The coefficients `B`, `(n, width)` in every row, multiplied by `kernel`."""
    b, first = rows.shape[0], n * width
    side_by_side = jnp.moveaxis(rows[:, :first].reshape(b, n, width), 0, 1).reshape(n, b * width)
    image = jnp.moveaxis((kernel @ side_by_side).reshape(-1, b, width), 1, 0).reshape(b, -1)
    return jnp.concatenate([image, rows[:, first:]], axis=1)


def _of_every_sample(rows: Array, few: _Span, every: _Span) -> tuple[Array, Array]:
    """Vectors over some samples as vectors over all samples, filled up with zeros, and their image under the metric."""
    b = rows.shape[0]
    known = rows[:, : few.first].reshape(b, few.samples, few.width)
    spread = jnp.zeros((b, every.samples, every.width), rows.dtype).at[:, ::STRIDE].set(known)
    whole = jnp.concatenate([spread.reshape(b, -1), rows[:, few.first :]], axis=1)
    return whole, with_inner(every.kernel[:, ::STRIDE], rows, few.samples, few.width)
