"""Rules of layers that mix positions: convolutions, pools, patches, tokens."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from secant.kernels.passes import Pass
from secant.kernels.plan import Path
from secant.kernels.rules import Constants, Rule, Signals, constants, merged, mixed_by_weights, written
from secant.kernels.signal import Signal
from secant.kernels.sums import cell_means, padded, slices, window_sums
from secant.nets import taps
from secant.nets.records import Attention, AveragePool, Conv, Flatten, GlobalAveragePool, Patches, Positions


def windows_of(layer: Conv, x: Array) -> Array:
    """What a convolution sees of inputs at every position, as features."""
    steps = (layer.strides,) * len(layer.window)
    x, padding = taps.padded(x, layer.window, steps, layer.padding)
    return taps.windows(x, layer.window, steps, padding)


def conv(layer: Conv, signals: Signals, on: Pass, path: Path) -> Signals:
    """A matrix at every place of a window."""
    signal = merged(signals)
    size = math.prod(layer.window)
    fans, inputs = (size * signal.features, layer.channels), not signal.behind_weights
    made = constants(layer.parametrization, layer.bias, fans, on, path, last=layer.last, inputs=inputs)
    if size == 1 and layer.strides == 1:
        return (mixed_by_weights(signal, made, layer.channels, on, path),)
    axes, steps = len(signal.positions), (layer.strides,) * len(layer.window)

    def means(pairs: Array) -> Array:
        return window_sums(pairs, axes, signal.full, layer.window, steps, layer.padding) / size

    cov = signal.covariance
    mean = means(cov)
    ntk = None
    if on.ntk:  # in front of all weights there is none yet, and the two means are one
        mixed = made.trained * mean if signal.ntk is None else means(made.passed * signal.ntk + made.trained * cov)
        ntk = mixed + made.shifts
    cov = made.weights * mean + made.biases
    moved = signal.with_(
        cov=cov,
        ntk=ntk,
        sizes=None,
        positions=cov.shape[:axes],
        features=layer.channels,
        gaussian=True,
        centred=True,
        fresh=True,
        behind_weights=True,
    )
    return (on.sized(moved, path),)


def average_pool(layer: AveragePool, signals: Signals, on: Pass, path: Path) -> Signals:
    """Means over windows, of each input by itself."""
    found = []
    for signal in (signal.mixed() for signal in signals):
        axes = len(signal.positions)

        def means(pairs: Any, axes: int = axes) -> Any:
            if pairs is None:
                return None
            side_by_side = layer.padding == "VALID" and layer.window == layer.strides
            if side_by_side:
                return cell_means(pairs, layer.window * 2)
            for axis, side in itertools.product(range(axes), range(2)):
                at, window, step = axis + side * axes, layer.window[axis], layer.strides[axis]
                pairs = padded(pairs, (at,), window, step, layer.padding)
                places = (pairs.shape[at] - window) // step + 1
                cut = [
                    pairs[slices(pairs.ndim, (at,), slice(start, start + (places - 1) * step + 1, step))]
                    for start in range(window)
                ]
                pairs = functools.reduce(jnp.add, cut) / window
            return pairs

        cov = means(signal.covariance)
        found.append(
            on.sized(signal.with_(cov=cov, ntk=means(signal.ntk), sizes=None, positions=cov.shape[:axes]), path)
        )
    return tuple(found)


def global_average_pool(layer: GlobalAveragePool, signals: Signals, on: Pass, path: Path) -> Signals:
    """The mean over all positions."""
    return tuple(_pooled(signal, on, path) for signal in signals)


def _pooled(signal: Signal, on: Pass, path: Path) -> Signal:
    if not signal.positions:
        return signal
    signal = signal.mixed()
    axes = tuple(range(2 * len(signal.positions)))
    ntk = None if signal.ntk is None else jnp.mean(signal.ntk, axes)
    cov = jnp.mean(signal.covariance, axes)
    return on.sized(signal.with_(cov=cov, ntk=ntk, sizes=None, positions=(), full=False), path)


def flatten(layer: Flatten, signals: Signals, on: Pass, path: Path) -> Signals:
    """Positions become features; the next matrix of weights takes the mean over them."""
    return tuple(s.with_(cov=s.cov, gap=s.gap, flat=bool(s.positions)) for s in signals)


def patches(layer: Patches, signals: Signals, on: Pass, path: Path) -> Signals:
    """Pieces of an image, each a token whose features are those of all its positions."""
    signal = merged(signals)
    axes, size = len(signal.positions), (layer.size,) * 2

    def means(pairs: Any) -> Any:
        if pairs is None:
            return None
        sums = window_sums(pairs, axes, signal.full, size, size, "VALID") / layer.size**2
        tokens = math.prod(sums.shape[:axes])
        return sums.reshape(*(tokens,) * (2 if signal.full else 1), *sums.shape[axes * (2 if signal.full else 1) :])

    cov = means(signal.covariance)
    cut = signal.with_(
        cov=cov,
        ntk=means(signal.ntk),
        sizes=None,
        positions=cov.shape[:1],
        features=signal.features * layer.size**2,
        gaussian=False,
    )
    return (on.sized(cut, path),)


def positions(layer: Positions, signals: Signals, on: Pass, path: Path) -> Signals:
    """A trained vector added to every token: independent for different tokens, the same for all inputs."""
    found = []
    for signal in (signal.mixed() for signal in signals):
        draw = layer.parametrization.bias(signal.features, signal.features)
        same = jnp.ones(())
        if signal.full:
            total = math.prod(signal.positions)
            same = jnp.eye(total, dtype=signal.covariance.dtype).reshape(*signal.positions * 2)
            same = same.reshape(*same.shape, *(1,) * (signal.covariance.ndim - same.ndim))
        ntk = None if signal.ntk is None else signal.ntk + draw.scale**2 * same
        cov = signal.covariance + draw.variance * same
        # Inputs have no mean of zero, and keep theirs.
        found.append(on.sized(signal.with_(cov=cov, ntk=ntk, behind_weights=True), path))
    return tuple(found)


def attention(layer: Attention, signals: Signals, on: Pass, path: Path) -> Signals:
    r"""Attention without softmax, $z_t = \sum_s (q_t \cdot k_s)\, v_s$ over the root of a head's size, for many heads.

    Queries, keys and values are independent, so that covariances multiply:
    $\sum_{s s'} K^q_{t t'} K^k_{s s'} K^v_{s s'}$.
    """
    if layer.scores == "softmax":
        raise ValueError(
            f"kernel: attention at {written(path)} with softmax scores has no limit in closed form. "
            "Use attention(scores='identity')."
        )
    signal = merged(signals)
    inner = signal.features if layer.features is None else layer.features
    rule = layer.parametrization

    def made(fan_in: int, fan_out: int, inputs: bool) -> Constants:
        return constants(rule, layer.bias, (fan_in, fan_out), on, path, last=False, inputs=inputs)

    cov, tangent = signal.covariance, signal.ntk
    covs, tangents = [], []
    for _ in ("query", "key", "value"):
        by = made(signal.features, inner, not signal.behind_weights)
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
    return (mixed_by_weights(plain, made(inner, signal.features, False), signal.features, on, path),)


RULES: dict[type, Rule] = {
    Conv: conv,
    AveragePool: average_pool,
    GlobalAveragePool: global_average_pool,
    Flatten: flatten,
    Patches: patches,
    Positions: positions,
    Attention: attention,
}
"""Rules of layers of positions by the type of their record."""
