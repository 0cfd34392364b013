"""Signals: the input that every parameter of a network saw, and what each output sends back to the parameter."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from secant.curvature.tangent.pooled_head import below_the_head
from secant.nets.network import Network
from secant.nets.taps import observe, zeros_like_outputs


class Signals(NamedTuple):
    """The inputs of one parameter, and the signals that came back to it.

    Attributes:
        inputs: `(samples, positions, features)`; scaled.
        signals: `(samples, outputs, positions, width)`.
        mask: the scale of every entry of the weight, if the scale is not one number; else None.
        factors: `(outputs, width)` if all outputs share one signal up to factors; else None. `signals` then holds the
            shared signal, and the signal of an output is the shared one times its row of `factors`.
    """

    inputs: Array
    signals: Array
    mask: Array | None
    factors: Array | None = None


def network_of(f: Any) -> Network | None:
    """The network whose `apply` this is, if it treats every sample alone; None for any other function."""
    owner = getattr(f, "__self__", None)
    if not isinstance(owner, Network) or getattr(f, "__name__", "") != "apply" or owner.mixes_samples:
        return None
    return owner


def signals(net: Network, params: Any, x: Array, weigh: Callable[[Array], Array] | None = None) -> list[Signals]:
    """Inputs and backpropagated signals of every parameter, in the order of the leaves of `params`.

    The cost is one forward pass, and one backward pass for each output. No gradient by a parameter is formed.

    Args:
        net: the network.
        params: the parameters to evaluate at.
        x: inputs, one row a sample.
        weigh: a function `outputs -> weights` of their shape. With it the outputs of a sample are summed to one number,
            and there is one backward pass in all.
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
    basis = (
        weigh(outputs)[None]
        if weigh is not None
        else jnp.eye(math.prod(outputs.shape[1:]), dtype=outputs.dtype).reshape(-1, 1, *outputs.shape[1:])
    )
    pulled = jax.vmap(lambda e: pull(jnp.broadcast_to(e, outputs.shape))[0])(basis)

    shares: dict[int, Signals] = {}
    alike = below_the_head(net, params, x) if len(basis) > 1 else None
    numbers = [owner for owner, _ in owners_and_kinds]
    for (owner, kind), (inputs, scale), signal in zip(owners_and_kinds, seen, pulled, strict=True):
        if alike is not None and any(leaves[owner] is end for end in alike.weights) and numbers.count(owner) == 1:
            shares[owner] = _linear(inputs, alike.signal[:, None], scale)._replace(factors=alike.factors)
            continue
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
    """The signals of a bias or gain: its few gradient entries themselves, laid out as the channels of one position."""
    found = scale * inputs[:, None] * signal  # (n, k, *positions, *shape of the weight)
    spare = found.ndim - 2 - weight.ndim
    found = found.sum(axis=tuple(range(2, 2 + spare)))
    widened = tuple(2 + i for i, size in enumerate(weight.shape) if size == 1)
    found = found.sum(axis=widened, keepdims=True)
    n, k = found.shape[:2]
    return Signals(jnp.ones((n, 1, 1), found.dtype), found.reshape(n, k, 1, -1), None)


def _together(first: Signals, second: Signals) -> Signals:
    """Two uses of one parameter as one: uses of the same form become more positions; others add up their gradients."""
    same_form = first.inputs.shape[2] == second.inputs.shape[2] and first.mask is None and second.mask is None
    if same_form:
        return first._replace(
            inputs=jnp.concatenate([first.inputs, second.inputs], axis=1),
            signals=jnp.concatenate([first.signals, second.signals], axis=2),
        )
    n, k = first.signals.shape[:2]
    total = (gradient(first) + gradient(second)).reshape(n, k, 1, -1)
    return Signals(jnp.ones((n, 1, 1), total.dtype), total, None)


def gradient(share: Signals) -> Array:
    """The gradient of every output by this one parameter, `(samples * outputs, entries)`."""
    n, k, positions, width = share.signals.shape
    # All outputs of a sample go into one matrix product, (features x positions) by (positions x outputs * width).
    signals = jnp.swapaxes(share.signals, 1, 2).reshape(n, positions, k * width)
    gradient = jnp.einsum("ipc,ipe->ice", share.inputs, signals).reshape(n, -1, k, width)
    if share.mask is not None:
        gradient = gradient * share.mask[:, None, :]
    return jnp.swapaxes(gradient, 1, 2).reshape(n * k, -1)
