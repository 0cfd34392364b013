"""Attention of infinite width: many wide heads, without softmax."""

from __future__ import annotations

import functools

import jax.numpy as jnp
from jaxtyping import Array

from secant.kernels.layers.rule import Rule
from secant.kernels.layers.weights import Constants, constants, merged, mixed_by_weights
from secant.kernels.propagation.place import Need, Place
from secant.kernels.propagation.signal import Signals
from secant.nets.layers import Attention


def behind(layer: Attention, signals: Signals, place: Place) -> Signals:
    r"""Attention without softmax, $z_t = \sum_s (q_t \cdot k_s)\, v_s$ over the root of a head's size, for many heads.

    Queries, keys and values are independent, so that covariances multiply:
    $\sum_{s s'} K^q_{t t'} K^k_{s s'} K^v_{s s'}$.
    """
    if layer.scores == "softmax":
        raise ValueError(
            f"kernel: attention at {place} with softmax scores has no limit in closed form. "
            "Use attention(scores='identity')."
        )
    signal = merged(signals)
    inner = signal.features if layer.features is None else layer.features

    def made(number: int, fan_in: int, fan_out: int, inputs: bool) -> Constants:
        drawn = layer.parametrization
        return constants(drawn, layer.bias, (fan_in, fan_out), place, last=False, inputs=inputs, number=number)

    cov, tangent = signal.covariance, signal.ntk
    covs, tangents = [], []
    for number in range(3):  # queries, keys, values
        by = made(number, signal.features, inner, not signal.behind_weights)
        covs.append(by.weights * cov + by.biases)
        if tangent is not None:
            tangents.append(by.passed * tangent + by.trained * cov + by.shifts)
    # Divided by a head's size and not its root, products of independent queries and keys vanish like one over it.
    share = 1.0 if layer.scaling == "root" else layer.heads / inner

    def mixed(parts: list[Array]) -> Array:
        query, key, value = parts
        return share * query * jnp.sum(key * value, axis=(0, 1), keepdims=True)

    mean = mixed(covs)
    ntk = None
    if tangent is not None:
        ntk = functools.reduce(jnp.add, [mixed([*covs[:i], tangents[i], *covs[i + 1 :]]) for i in range(3)])
    plain = signal.with_(cov=mean, ntk=ntk, sizes=None, features=inner, gaussian=False)
    return (mixed_by_weights(plain, made(3, inner, signal.features, False), signal.features, place),)


def needs(layer: Attention, after: Need) -> Need:
    """All pairs of positions, which are mixed here."""
    return Need(True, after.sizes, after.sizes)


RULE = Rule(behind, needs=needs, weights=4)
