"""Norms of second derivatives: of every neuron, of the blocks between layers, and of several outputs at once."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations_with_replacement
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from secant.core.types import Params
from secant.curvature.checks import Function
from secant.curvature.operators import second_derivative
from secant.linalg.norm import leading_pair, spectral_norm
from secant.linalg.spaces import unravel_like
from secant.nets.network import Network


def layer_pairs(depth: int) -> list[tuple[int, int]]:
    """All pairs of layers, numbered from 1. Each pair comes once, the lower layer first."""
    return list(combinations_with_replacement(range(1, depth + 1), 2))


def neuron_norms(
    net: Network, params: Params, x: Float[Array, "1 d"], start: Float[Array, " p"], neurons: int, steps: int
) -> Float[Array, "layers neurons"]:
    """Norms of the Hessians of some pre-activations in every layer; 0 where a layer has fewer neurons.

    Args:
        net: a network that can give its pre-activations.
        params: its weights.
        x: one input.
        start: a random vector, from which Lanczos starts.
        neurons: how many neurons of each layer, counted from the first.
        steps: products with a Hessian that a norm may cost.
    """

    def sums(params: Params, x: Array) -> Array:
        """Pre-activations of all layers as one table, filled up with zeros."""
        heard = [z.reshape(-1)[:neurons] for z in net.pre_activations(params, x)]
        return jnp.stack([jnp.pad(z, (0, neurons - z.size)) for z in heard])[None]

    def norm(weight: Array) -> Array:
        return spectral_norm(second_derivative(sums, params, x, weight).flat_product(), start, steps).value

    depth = len(params)
    basis = np.eye(depth * neurons).reshape(-1, 1, depth, neurons)
    return jax.lax.map(norm, basis).reshape(depth, neurons)


class LayerBlocks(NamedTuple):
    r"""The Hessian of an output, block by block, and the Jacobians that make up the last layer's blocks.

    Attributes:
        block: norms of the blocks between two layers, in the order of
            [`layer_pairs`][secant.curvature.norms.layer_pairs].
        slope: norms of $m^{-1/2}\,\partial f_{\mathcal S}/\partial w^{(\ell)}$ for all layers but the last, where
            $f_{\mathcal S}$ are the $m$ neurons that the output reads.
        gap: for the same layers, the relative difference between the block with the last layer and this Jacobian, each
            multiplied with a vector.
    """

    block: Float[Array, " pairs"]
    slope: Float[Array, " lower"]
    gap: Float[Array, " lower"]


def layer_blocks(
    net: Network, params: Params, x: Float[Array, "1 d"], start: Float[Array, " p"], steps: int
) -> LayerBlocks:
    """The blocks of the Hessian of a fully connected tanh network with a linear output.

    Args:
        net: a network that can give its pre-activations.
        params: its weights, layer by layer.
        x: one input.
        start: a random vector, from which Lanczos starts.
        steps: products with a Hessian that a norm may cost.
    """
    depth = len(params)
    product = jax.linearize(jax.grad(lambda p: net.apply(p, x)[0]), params)[1]
    values, push = jax.linearize(lambda p: jnp.tanh(net.pre_activations(p, x)[-2].reshape(-1)), params)
    pull, unravel = jax.linear_transpose(push, params), unravel_like(params)

    def ones(like: Params, layer: Array) -> Params:
        """1 on the weights of one layer, 0 on all others."""
        return tuple(jax.tree.map(lambda a, k=k: jnp.where(layer == k, a, 0), own) for k, own in enumerate(like, 1))

    def block(pair: Array) -> Array:
        """The root of the norm of B^T B for the block B between two layers."""

        def square(v: Array) -> Array:
            there = ones(product(ones(unravel(v), pair[1])), pair[0])
            return ravel_pytree(ones(product(there), pair[1]))[0]

        own = ravel_pytree(ones(unravel(start), pair[1]))[0]
        return jnp.sqrt(spectral_norm(square, own, steps).value)

    def slope(layer: Array) -> Array:
        """Norm of the Jacobian of the m neurons that the output reads, by one layer's weights, divided by sqrt(m)."""
        # Lanczos starts from the same vector as for the block with the last layer, whose weights come last.
        found = spectral_norm(lambda v: push(ones(pull(v)[0], layer)), start[-values.size :], steps)
        return jnp.sqrt(found.value / values.size)

    curved = product(ones(unravel(start), jnp.asarray(depth)))
    (sloped,) = pull(start[-values.size :] / jnp.sqrt(values.size))
    pairs = [(ravel_pytree(a)[0], ravel_pytree(b)[0]) for a, b in zip(curved, sloped, strict=True)]
    return LayerBlocks(
        block=jax.lax.map(block, jnp.array(layer_pairs(depth))),
        slope=jax.lax.map(slope, jnp.arange(1, depth)),
        gap=jnp.stack([jnp.linalg.norm(a - b) / jnp.linalg.norm(b) for a, b in pairs[:-1]]),
    )


def joint_norm(
    f: Function, params: Params, x: Float[Array, "1 d"], start: Float[Array, " p"], rounds: int, steps: int
) -> tuple[Float[Array, " k"], Float[Array, ""]]:
    r"""Norms of the Hessians of all outputs, and the norm of the tensor they make, $\sup \sum H_{ijk} v_iu_js_k$.

    The search starts at the output with the largest norm and alternates two steps. The first finds the leading
    eigenvector $u$ of $\sum_k s_kH_k$ for a given $s$. The second sets $s_k \propto u^\top H_ku$, which never lowers
    the value.

    Args:
        f: a function of parameters and inputs with several outputs.
        params: the parameters.
        x: one input.
        start: a random vector, from which Lanczos starts.
        rounds: how often the direction of the outputs is improved.
        steps: products with a Hessian that a norm may cost.
    """

    def product(mix: Array) -> Callable[[Array], Array]:
        return second_derivative(f, params, x, mix[None]).flat_product()

    def turn(state: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], Array]:
        mix, before = state
        pair = leading_pair(product(mix), before, steps)
        way = unravel_like(params)(pair.vector)
        bend = jax.jvp(lambda p: jax.jvp(lambda p: f(p, x)[0], (p,), (way,))[1], (params,), (way,))[1]
        return (bend / jnp.linalg.norm(bend), pair.vector), jnp.abs(pair.value)

    outputs = jnp.eye(jax.eval_shape(f, params, x).shape[1])
    own = jax.lax.map(lambda mix: spectral_norm(product(mix), start, steps).value, outputs)
    _, values = jax.lax.scan(turn, (outputs[jnp.argmax(own)], start), None, length=rounds + 1)
    return own, values[-1]
