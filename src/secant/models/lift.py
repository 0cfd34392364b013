"""The function `lift`: a module of PyTorch, Flax or Equinox as one of Secant's networks, with its weights."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from secant import nets
from secant.core.device import jit, to_device
from secant.core.types import Params
from secant.models.foreign import FIRST, Part, Unknown, parts_of
from secant.nets import Network, Parametrization

UNIFORM, NORMAL = Parametrization("pytorch"), Parametrization("standard", bias_gain=0.0)

RULES = {"torch": UNIFORM, "equinox": UNIFORM, "nnx": NORMAL, "linen": NORMAL}
"""How a library draws the weights of layers by default: uniformly, or normally with biases of zero."""


class Lifted(NamedTuple):
    """A module turned into a network.

    Attributes:
        net: the network, which takes channels last.
        params: its parameters, the same as the module's.
        inputs: turns a batch for the module into a batch for the network.
    """

    net: Network
    params: Params
    inputs: Callable[[Any], Array]


class LiftError(ValueError):
    """A module has layers that `lift` does not know; `layers` names them."""

    def __init__(self, layers: list[str]) -> None:
        super().__init__(
            f"lift: no rule for {', '.join(layers)}. Known are sequences of dense layers, convolutions without groups "
            "or dilation, average pools, flatten, layer norm and functions of every entry."
        )
        self.layers = layers


def lift(module: Any, x: Any, variables: Any = None) -> Lifted:
    """Turns a module of PyTorch, Flax (nnx and linen) or Equinox into one of Secant's networks, with its weights.

    The network gives the module's outputs, which is checked on `x`. It has everything that Secant's networks have, such
    as the kernel of infinite width, for weights drawn as the library draws them by default.

    Args:
        module: a sequence of layers: `torch.nn.Sequential`, `nnx.Sequential`, `linen.Sequential`,
            `equinox.nn.Sequential`, nested or not.
        x: a batch for the module; for Equinox with an axis of samples in front.
        variables: for a module of linen the variables that its `init` returned.

    Example:
        ```python
        import jax
        from flax import nnx
        import secant as sc

        module = nnx.Sequential(nnx.Linear(3, 64, rngs=nnx.Rngs(0)), nnx.relu, nnx.Linear(64, 1, rngs=nnx.Rngs(1)))
        x = jax.random.normal(jax.random.key(0), (5, 3))
        net, params, inputs = sc.lift(module, x)
        print(bool(abs(net.apply(params, inputs(x)) - module(x)).max() < 1e-5), sc.kernel(net, inputs(x)).ntk.shape)
        ```
        ```text
        True (5, 5)
        ```
    """
    library, parts = parts_of(module, variables)
    unknown = [part.name for part in parts if isinstance(part, Unknown)]
    if unknown:
        raise LiftError(unknown)
    first = library in FIRST
    inputs = _channels_last if first else to_device
    ours = inputs(_array(x))
    rule = RULES[library]
    layers, params = _built([part for part in parts if isinstance(part, Part)], ours.shape[1:], rule, first)
    net = nets.serial(*layers, name="lifted")
    _check(net, params, ours, _outputs(module, x, variables, library), first)
    return Lifted(net, params, inputs)


def _channels_last(x: Any) -> Array:
    """Images and signals of shape `(n, channels, ...)` become `(n, ..., channels)`; vectors stay as they are."""
    x = _array(x)
    if isinstance(x, np.ndarray):
        return to_device(np.moveaxis(x, 1, -1) if x.ndim > 2 else x)
    x = jnp.asarray(x)
    return jnp.moveaxis(x, 1, -1) if x.ndim > 2 else x


def _array(x: Any) -> Any:
    return x.detach().cpu().numpy() if hasattr(x, "detach") else x


def _built(
    parts: list[Part], shape: tuple[int, ...], rule: Parametrization, first: bool
) -> tuple[list[Network], Params]:
    """Layers and their parameters, given the shape of one sample."""
    layers: list[Network] = []
    params: list[Any] = []
    flattened: tuple[int, ...] | None = None
    last = max((i for i, part in enumerate(parts) if part.kind in ("dense", "conv")), default=-1)
    for index, part in enumerate(parts):
        numbers: dict[str, Array] = {name: to_device(value) for name, value in part.numbers.items()}
        choice: dict[str, Any] = {"parametrization": rule, "bias": "bias" in numbers, "last": index == last}
        if part.kind == "dense":
            if flattened is not None and first:
                # The library flattens positions with channels first, Secant with channels last.
                *places, channels = flattened
                weight = np.asarray(numbers["weight"]).reshape(channels, *places, -1)
                numbers["weight"] = to_device(np.moveaxis(weight, 0, -2).reshape(-1, weight.shape[-1]))
            layer, flattened = nets.dense(numbers["weight"].shape[1], **choice), None
        elif part.kind == "conv":
            window = numbers["weight"].shape[:-2]
            layer = nets.conv(numbers["weight"].shape[-1], window, **part.options, **choice)
        elif part.kind == "norm":
            layer = nets.layer_norm(gain="gain" in numbers, shift="shift" in numbers, **part.options)
        elif part.kind == "flatten":
            layer, flattened = nets.flatten(), shape if len(shape) > 1 else None
        else:
            layer = _PLAIN[part.kind](**part.options)
        layers.append(layer)
        params.append(numbers or ())
        shape = layer.output_shape((1, *shape))[1:]
    return layers, tuple(params)


_PLAIN: dict[str, Callable[..., Network]] = {
    "activation": nets.activation,
    "pool": nets.average_pool,
    "mean": nets.global_average_pool,
    "identity": nets.identity,
}


def _outputs(module: Any, x: Any, variables: Any, library: str) -> Any:
    if library == "linen":
        return jit(module.apply, quick=True)(variables, x)
    if library == "equinox":
        return jit(jax.vmap(module), quick=True)(x)
    if library == "torch":
        torch = sys.modules["torch"]
        with torch.no_grad():
            return module.eval()(torch.as_tensor(np.asarray(_array(x)))).numpy()
    return module(x)


def _check(net: Network, params: Params, x: Array, expected: Any, first: bool) -> None:
    found, expected = np.asarray(jit(net.apply, quick=True)(params, x)), np.asarray(expected)
    if first and expected.ndim > 2:
        expected = np.moveaxis(expected, 1, -1)
    if found.shape != expected.shape or not math.isfinite(float(np.abs(found).max())):
        raise ValueError(f"lift: the module gives outputs of shape {expected.shape}, its network {found.shape}.")
    error = float(np.abs(found - expected).max() / max(float(np.abs(expected).max()), 1e-30))
    if error > 1e-5:
        raise ValueError(
            f"lift: the network's outputs differ from the module's by {error:.1e}: it does more than its layers say."
        )


__all__ = ["LiftError", "Lifted", "lift"]
