"""Layers that normalise: over the features of a sample, over groups of them, over the batch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from secant.core.arguments import at_least_zero, is_traced
from secant.core.types import Params
from secant.nets import taps
from secant.nets.layers.checks import at_least_one, one_of
from secant.nets.network import FeatureMismatchError, Layer, Network, Shape

Over = Literal["features", "sample"]
OVER = ("features", "sample")


@dataclass(frozen=True)
class LayerNorm(Layer):
    """Entries of mean 0 and variance 1, over the features of a position or over the whole sample."""

    over: Over
    gain: bool
    shift: bool
    epsilon: float


@dataclass(frozen=True)
class GroupNorm(Layer):
    """A layer norm of equal groups of features, at every position alone or over all positions of the sample."""

    groups: int
    over: Over
    gain: bool
    shift: bool
    epsilon: float


@dataclass(frozen=True)
class BatchNorm(Layer):
    """Features of mean 0 and variance 1 over the batch: the one layer that mixes samples."""

    mixes_samples: ClassVar[bool] = True
    gain: bool
    shift: bool
    epsilon: float


def layer_norm(*, over: Over = "features", gain: bool = True, shift: bool = True, epsilon: float = 1e-6) -> Network:
    r"""Makes every sample's entries have mean 0 and variance 1, $z = g \circ (x - \mu) / \sqrt{v + \epsilon} + b$.

    Args:
        over: `features` takes mean $\mu$ and variance $v$ over the last axis, at every position alone; `sample` takes
            them over everything but the samples.
        gain: whether there is a trained $g$, one number a feature, starting at 1.
        shift: whether there is a trained $b$, one number a feature, starting at 0.
        epsilon: added to the variance. With 0 the layer does not see the scale of its inputs. Entries that are all
            equal then raise an error, and in compiled code give NaN.
    """
    one_of("layer_norm", "over", over, OVER)

    def normalise(x: Array) -> Array:
        axes = (-1,) if over == "features" else tuple(range(1, x.ndim))
        return _standard("layer_norm", x, axes, epsilon)

    return _norm("layer_norm", normalise, LayerNorm(over, gain, shift, at_least_zero("layer_norm", "epsilon", epsilon)))


def group_norm(
    groups: int, *, over: Over = "sample", gain: bool = True, shift: bool = True, epsilon: float = 1e-6
) -> Network:
    r"""Layer normalisation of equal groups of features, each by its own mean and variance.

    With one group it is [`layer_norm`][secant.nets.layer_norm].

    Args:
        groups: number of groups, which must divide the number of features.
        over: `sample` takes mean and variance of a group over all positions, as is usual for images; `features` at
            every position alone. For samples that are vectors both are the same.
        gain: whether there is a trained gain, one number a feature, starting at 1.
        shift: whether there is a trained shift, one number a feature, starting at 0.
        epsilon: added to the variance, as in [`layer_norm`][secant.nets.layer_norm].

    Example:
        ```python
        import numpy as np
        from secant import nets

        x = np.array([[1.0, 3.0, 10.0, 30.0]])
        print(np.round(nets.group_norm(2, gain=False, shift=False).apply((), x), 3))
        ```
        ```text
        [[-1.  1. -1.  1.]]
        ```
    """
    at_least_one("group_norm", groups=groups)
    one_of("group_norm", "over", over, OVER)

    def normalise(x: Array) -> Array:
        if x.shape[-1] % groups or x.shape[-1] == groups:
            raise ValueError(
                f"group_norm: {x.shape[-1]} features cannot be split into {groups} equal groups of at least 2. Take "
                f"`groups` from {[g for g in range(1, x.shape[-1]) if x.shape[-1] % g == 0]}."
            )
        split = x.reshape(*x.shape[:-1], groups, -1)
        axes = (-1,) if over == "features" else (*range(1, x.ndim - 1), -1)
        return _standard("group_norm", split, axes, epsilon).reshape(x.shape)

    record = GroupNorm(groups, over, gain, shift, at_least_zero("group_norm", "epsilon", epsilon))
    return _norm("group_norm", normalise, record)


def batch_norm(*, gain: bool = True, shift: bool = True, epsilon: float = 1e-6) -> Network:
    r"""Makes every feature have mean 0 and variance 1 over the batch, and over all positions.

    Mean and variance are those of the batch at hand, as in training: no averages are kept. An output depends on the
    other samples, so measurements that need the gradients of single samples refuse a network with this layer.

    Args:
        gain: whether there is a trained gain, one number a feature, starting at 1.
        shift: whether there is a trained shift, one number a feature, starting at 0.
        epsilon: added to the variance. With 0, a feature that is the same for all samples raises an error, and in
            compiled code gives NaN.
    """

    def normalise(x: Array) -> Array:
        if len(x) < 2:
            raise ValueError("batch_norm: one sample has no mean and variance over a batch. Pass at least 2 samples.")
        return _standard("batch_norm", x, tuple(range(x.ndim - 1)), epsilon)

    return _norm("batch_norm", normalise, BatchNorm(gain, shift, at_least_zero("batch_norm", "epsilon", epsilon)))


def _standard(name: str, x: Array, axes: tuple[int, ...], epsilon: float) -> Array:
    """Less the mean, over the root of the variance; both over some axes."""
    if epsilon == 0 and math.prod(x.shape[axis] for axis in axes) == 1:
        raise ValueError(f"{name}: `epsilon` is 0 and the variance is that of one number. Pass `epsilon` above 0.")
    centred = x - jnp.mean(x, axes, keepdims=True)
    variance = jnp.mean(centred**2, axes, keepdims=True)
    if epsilon == 0 and not is_traced(x):
        # Equal numbers may differ from their mean by its rounding.
        rounding = 4 * np.finfo(x.dtype).eps * np.abs(np.asarray(x)).max(axes, keepdims=True)
        if (np.asarray(variance) <= rounding**2).any():
            raise ValueError(
                f"{name}: `epsilon` is 0 and some of the numbers to be normalised are all equal: their variance is 0. "
                "Pass `epsilon` above 0, or leave out features and samples that are constant."
            )
    return centred * jax.lax.rsqrt(variance + epsilon)


def _norm(name: str, normalise: Any, record: LayerNorm | GroupNorm | BatchNorm) -> Network:
    """A layer that normalises, then stretches and shifts every feature."""

    def new(key: PRNGKeyArray, shape: Shape, dtype: Any) -> tuple[Params, Shape]:
        params = {}
        if record.gain:
            params["gain"] = jnp.ones(shape[-1:], dtype)
        if record.shift:
            params["shift"] = jnp.zeros(shape[-1:], dtype)
        return params or (), shape

    def run(params: Params, x: Array) -> Array:
        z = normalise(x)
        for part, use in (("gain", taps.stretch), ("shift", taps.shift)):
            if part in params:
                if params[part].shape != x.shape[-1:]:
                    raise FeatureMismatchError(name, x.shape[-1], len(params[part]))
                z = use(params[part], z)
        return z

    return Network(new, run, name, layer=record)
