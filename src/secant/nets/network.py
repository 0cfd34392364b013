"""The Network: an architecture as two pure functions."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from secant.core.device import to_device
from secant.core.types import Params
from secant.nets.activations import listening

Shape = tuple[int, ...]
"""The shape of an array; that of one sample has no axis for samples."""


@dataclass(frozen=True)
class Layer:
    """What a layer is, or a network made of layers: a small record of its choices.

    Each kind is in a file of `secant.nets.layers`, with what draws its parameters and what it computes.
    """

    mixes_samples: ClassVar[bool] = False
    """Whether an output of the layer depends on the other samples of its batch."""


class FeatureMismatchError(ValueError):
    """A layer was given another number of features than its parameters take."""

    def __init__(self, layer: str, given: int, taken: int) -> None:
        super().__init__(f"{layer}: the input has {given} features but `params` takes {taken}.")
        self.layer, self.given, self.taken = layer, given, taken


@dataclass(frozen=True, eq=False)
class Network:
    r"""An architecture: `init(key, shape)` draws parameters, `apply(params, x)` evaluates it.

    A layer is a network, and so is anything that the combinators make of layers. All of them act on batches, with one
    row a sample. All but `batch_norm` treat each sample alone. Everything in Secant that measures or trains takes
    `net.apply`, or any other function of `(params, x)`.

    Attributes:
        new: `(key, shape of one sample, dtype) -> (params, shape of one output)`.
        run: `(params, x) -> outputs`.
        name: the network's name in errors and records.
        parts: for a chain of layers, the layers.
        layer: the record of its kind and its choices, such as `Dense(features=64, ...)`; None if unknown.
        axes: how many axes one sample must have (1 for vectors, 3 for images with channels last); None for any.

    Example:
        ```python
        import jax
        import secant as sc

        net = sc.nets.mlp([64, 64], activation="tanh", parametrization="ntk")
        x = jax.random.normal(jax.random.key(0), (5, 3))
        params = net.init(jax.random.key(1), x.shape)
        print(net.apply(params, x).shape)
        ```
        ```text
        (5,)
        ```
    """

    new: Callable[[PRNGKeyArray, Shape, Any], tuple[Params, Shape]]
    run: Callable[[Params, Array], Array]
    name: str = "network"
    parts: tuple[Network, ...] = ()
    layer: Layer | None = None
    axes: int | None = None

    def init(self, key: PRNGKeyArray, shape: Shape, dtype: Any = None) -> Params:
        """Draws the parameters for inputs of shape `shape`, whose first axis counts samples.

        They have the floating-point type `dtype`, by default the widest that JAX is set to use.
        """
        dtype = jax.dtypes.canonicalize_dtype(jnp.float64) if dtype is None else jnp.dtype(dtype)
        if not jnp.issubdtype(dtype, jnp.floating):
            raise ValueError(f"{self.name}.init: `dtype` must be a real floating-point type, got {dtype}.")
        return self.new(key, self._sample("init", shape), dtype)[0]

    def apply(self, params: Params, x: Float[Array, "n ..."]) -> Array:
        """Evaluates the network on a batch: one row of outputs a sample."""
        x = to_device(x)
        # Shapes and types only: under `jit` these checks cost nothing when the network runs.
        if x.ndim < 2:
            raise ValueError(
                f"{self.name}.apply: `x` must have shape (samples, *features), got {x.shape}. "
                "For a single sample pass x[None]."
            )
        if x.shape[0] == 0:
            raise ValueError(f"{self.name}.apply: `x` holds no samples, its shape is {x.shape}. Pass at least one.")
        if not jnp.issubdtype(x.dtype, jnp.floating):
            raise ValueError(
                f"{self.name}.apply: `x` must hold real floating-point numbers, got {x.dtype}. Pass x.astype(float)."
            )
        self._sample("apply", x.shape)
        for leaf in jax.tree.leaves(params):
            if jnp.issubdtype(jnp.result_type(leaf), jnp.complexfloating):
                raise ValueError(f"{self.name}.apply: `params` must be real, got an array of type {leaf.dtype}.")
        try:
            return self.run(params, x)
        except FeatureMismatchError as error:
            raise ValueError(self._misfit(error, x.shape)) from None

    def pre_activations(self, params: Params, x: Float[Array, "n ..."]) -> tuple[Array, ...]:
        """The inputs of every activation in the order of evaluation, and then the outputs of the network."""
        with listening() as heard:
            outputs = self.apply(params, x)
        return (*heard, outputs)

    @functools.cached_property
    def mixes_samples(self) -> bool:
        """Whether an output depends on the other samples of its batch, because the network has a `batch_norm`."""
        own = self.layer is not None and self.layer.mixes_samples
        return own or any(part.mixes_samples for part in self.parts)

    def output_shape(self, shape: Shape) -> Shape:
        """Shape of the outputs for inputs of shape `shape`, found without computing anything."""
        sample = self._sample("output_shape", shape)
        out: Shape = ()

        def trace(key: PRNGKeyArray) -> Params:
            nonlocal out
            params, out = self.new(key, sample, jnp.float32)
            return params

        jax.eval_shape(trace, jax.random.key(0))
        return (shape[0], *out)

    def _sample(self, method: str, shape: Shape) -> Shape:
        """The shape of one sample, checked."""
        shape = tuple(shape)
        if len(shape) < 2 or any(not isinstance(size, int) or size < 1 for size in shape[1:]):
            raise ValueError(
                f"{self.name}.{method}: `shape` must be (samples, *features) with features of at least 1, got {shape}. "
                "Pass x.shape."
            )
        if self.axes is not None and len(shape) != self.axes + 1:
            takes = {1: "(samples, features)", 2: "(samples, length, channels)"}
            wanted = takes.get(self.axes, "(samples, height, width, channels)")
            hint = " Put `flatten()` in front of it, or reshape x." if self.axes == 1 else ""
            raise ValueError(f"{self.name}.{method}: inputs must have shape {wanted}, got {shape}.{hint}")
        return shape[1:]

    def _misfit(self, error: FeatureMismatchError, shape: Shape) -> str:
        if error.given == shape[-1]:
            right = (*("samples", *map(str, shape[1:-1])), str(error.taken))
            return (
                f"{self.name}.apply: `x` has {error.given} features per sample but the first layer of `params` takes "
                f"{error.taken}. Pass x with shape ({', '.join(right)}), or draw `params` for inputs of this shape."
            )
        whole = math.prod(shape[1:]) == error.given
        return (
            f"{self.name}.apply: `x` has shape {shape}, which "
            + ("has" if whole else f"gives the layer `{error.layer}`")
            + f" {error.given} features per sample where `params` takes {error.taken}. "
            "Pass x with the shape that `params` was drawn for, or draw `params` for inputs of this shape."
        )


def fixed(name: str, function: Any, out: Any, layer: Layer, axes: int | None = None) -> Network:
    """A layer without parameters; `out` is the shape of one output, given that of one sample."""
    return Network(
        lambda key, shape, dtype: ((), out(shape)),
        lambda params, x: function(x),
        name,
        layer=layer,
        axes=axes,
    )


def keys_of(key: PRNGKeyArray, count: int) -> list[PRNGKeyArray]:
    """Independent keys. They are compiled once for all counts; `jax.random.split` is compiled for each."""
    return [jax.random.fold_in(key, index) for index in range(count)]


def count_parameters(params: Params) -> int:
    """How many numbers a pytree of arrays holds."""
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(params))
