"""Sequences of layers of PyTorch, Flax and Equinox, read layer by layer.

No library is imported that is not in use: a module of a library exists only if the library is loaded already.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from secant.models.libraries import library_of
from secant.nets import activations

FIRST = ("torch", "equinox")
"""Libraries in which the channels of an image come first."""


@dataclass(frozen=True)
class Part:
    """A known layer: its kind, the options of Secant's layer, and its numbers with Secant's axes."""

    kind: str
    options: dict[str, Any] = field(default_factory=dict)
    numbers: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Unknown:
    """A layer that Secant does not know, and the reason."""

    name: str


Parts = list[Part | Unknown]


def parts_of(module: Any, variables: Any = None) -> tuple[str, Parts]:
    """The library of a module, and its layers in order."""
    torch = getattr(getattr(sys.modules.get("torch"), "nn", None), "Module", None)
    if torch is not None and isinstance(module, torch):
        return "torch", list(_torch(module))
    library = library_of(module)
    if library is None:
        raise TypeError(
            f"lift: `module` must be a module of PyTorch, Flax or Equinox, got {type(module).__name__}. A network of "
            "secant.nets needs no lifting."
        )
    if library == "linen":
        if variables is None:
            raise TypeError("lift: a module of linen needs its `variables`, which its `init` returned.")
        return library, list(_linen(module, variables["params"]))
    return library, list((_nnx if library == "nnx" else _equinox)(module))


def _numbers(**arrays: Any) -> dict[str, Any]:
    return {name: np.asarray(value) for name, value in arrays.items() if value is not None}


def _padding(given: Any, window: tuple[int, ...], strides: tuple[int, ...], circular: bool = False) -> str | None:
    """Secant's name of a padding; None if there is none."""
    if isinstance(given, str):
        known = {"same": "SAME", "valid": "VALID", "circular": "CIRCULAR"}.get(given.lower())
        return "CIRCULAR" if circular and known == "SAME" else known
    sides = given if isinstance(given, tuple | list) else (given,)
    pairs = [(side, side) if isinstance(side, int) else tuple(side) for side in sides]
    pairs = pairs * len(window) if len(pairs) == 1 else pairs
    if all(pair == (0, 0) for pair in pairs):
        return "VALID"
    # Half a window on either side keeps all positions, if no stride shifts it.
    same = all(pair == ((w - 1) // 2,) * 2 and w % 2 for pair, w in zip(pairs, window, strict=True))
    return ("CIRCULAR" if circular else "SAME") if same and set(strides) == {1} else None


def _one(strides: Any) -> int | None:
    steps = {strides} if isinstance(strides, int) else set(strides)
    return steps.pop() if len(steps) == 1 else None


def _conv(name: str, weight: Any, bias: Any, strides: Any, padding: str | None, plain: bool) -> Part | Unknown:
    step = _one(strides if strides is not None else 1)
    if padding is None or not plain or step is None:
        return Unknown(f"{name} (its padding, strides, groups or dilation)")
    return Part("conv", {"strides": step, "padding": padding}, _numbers(weight=weight, bias=bias))


def _function(function: Callable[..., Any], name: str) -> Part | Unknown:
    """A function in the place of a layer: it acts on every entry alone, or it flattens."""
    if function in (jnp.ravel, jax.numpy.ravel):
        return Part("flatten")
    named = {"relu": jax.nn.relu, "tanh": jnp.tanh, "sigmoid": jax.nn.sigmoid, "swish": jax.nn.silu}
    for ours, known in named.items():
        if function is known:
            return Part("activation", {"function": ours})
    trial = jnp.linspace(-2.0, 3.0, 24).reshape(2, 3, 4)
    try:
        whole, moved = function(trial), function(trial.at[0, 0, 0].add(1.0))
    except Exception:
        return Unknown(name)
    if jnp.shape(whole) == (2, 12) and bool(jnp.all(whole == trial.reshape(2, 12))):
        return Part("flatten")
    # A change of one input entry must change that output entry alone.
    if jnp.shape(whole) != trial.shape or bool(jnp.abs(whole - moved).ravel()[1:].max() > 0):
        return Unknown(f"{name} (no function of every entry alone)")
    return Part("activation", {"function": function})


def _torch(module: Any) -> Iterator[Part | Unknown]:
    kind = type(module).__name__

    def array(tensor: Any) -> Any:
        return None if tensor is None else tensor.detach().cpu().numpy()

    if kind == "Sequential":
        for part in module:
            yield from _torch(part)
    elif kind == "Linear":
        yield Part("dense", {}, _numbers(weight=array(module.weight).T, bias=array(module.bias)))
    elif kind in ("Conv1d", "Conv2d"):
        weight = np.moveaxis(array(module.weight), (0, 1), (-1, -2))
        circular = module.padding_mode == "circular"
        plain = module.groups == 1 and set(module.dilation) == {1} and module.padding_mode in ("zeros", "circular")
        padding = _padding(module.padding, module.kernel_size, module.stride, circular)
        yield _conv(kind, weight, array(module.bias), module.stride, padding, plain)
    elif kind == "LayerNorm" and len(module.normalized_shape) == 1:
        yield Part("norm", {"epsilon": module.eps}, _numbers(gain=array(module.weight), shift=array(module.bias)))
    elif kind == "AvgPool2d" and module.padding == 0 and not module.ceil_mode:
        window = (module.kernel_size,) * 2 if isinstance(module.kernel_size, int) else tuple(module.kernel_size)
        strides = _one(module.stride)
        yield Part("pool", {"window": window, "strides": strides}) if strides else Unknown(f"{kind} (its strides)")
    elif kind == "AdaptiveAvgPool2d" and module.output_size in (1, (1, 1)):
        yield Part("mean")  # gives an image of one position, which a later flatten does not change
    elif kind == "Flatten" and (module.start_dim, module.end_dim) == (1, -1):
        yield Part("flatten")
    else:
        plain = {"ReLU": "relu", "Tanh": "tanh", "Sigmoid": "sigmoid", "SiLU": "swish"}
        if kind in plain:
            yield Part("activation", {"function": plain[kind]})
        elif kind == "GELU":
            exact = module.approximate == "none"
            yield Part("activation", {"function": "gelu" if exact else lambda z: jax.nn.gelu(z, approximate=True)})
        elif kind == "LeakyReLU":
            yield Part("activation", {"function": activations.leaky(module.negative_slope)})
        elif kind in ("Identity", "Dropout"):
            yield Part("identity")
        else:
            yield Unknown(kind)


def _equinox(module: Any) -> Iterator[Part | Unknown]:
    kind = type(module).__name__
    if kind == "Sequential":
        for part in module.layers:
            yield from _equinox(part)
    elif kind == "Linear":
        yield Part("dense", {}, _numbers(weight=module.weight.T, bias=module.bias))
    elif kind in ("Conv1d", "Conv2d"):
        weight = jnp.moveaxis(module.weight, (0, 1), (-1, -2))
        bias = None if module.bias is None else jnp.ravel(module.bias)
        plain = module.groups == 1 and set(module.dilation) == {1} and module.padding_mode == "ZEROS"
        padding = _padding(module.padding, module.kernel_size, module.stride)
        yield _conv(kind, weight, bias, module.stride, padding, plain)
    elif kind == "LayerNorm" and len(module.shape) == 1:
        yield Part("norm", {"epsilon": module.eps}, _numbers(gain=module.weight, shift=module.bias))
    elif kind == "Lambda":
        yield _function(module.fn, getattr(module.fn, "__name__", "Lambda"))
    elif kind in ("Identity", "Dropout"):
        yield Part("identity")
    else:
        yield Unknown(kind)


def _flax(layer: Any, numbers: dict[str, Any]) -> Part | Unknown:
    """A layer of Flax; nnx and linen use the same names."""
    kind = type(layer).__name__
    if kind in ("Linear", "Dense"):
        return Part("dense", {}, _numbers(weight=numbers["kernel"], bias=numbers.get("bias")))
    if kind == "Conv":
        plain = layer.feature_group_count == 1 and {layer.kernel_dilation, layer.input_dilation} <= {1, None}
        strides = 1 if layer.strides is None else layer.strides
        window = tuple(numbers["kernel"].shape[:-2])
        steps = (strides,) if isinstance(strides, int) else tuple(strides)
        return _conv(
            kind, numbers["kernel"], numbers.get("bias"), strides, _padding(layer.padding, window, steps), plain
        )
    if kind == "LayerNorm":
        found = _numbers(gain=numbers.get("scale"), shift=numbers.get("bias"))
        return Part("norm", {"epsilon": layer.epsilon}, found)
    if kind == "Dropout":
        return Part("identity")
    return _function(layer, getattr(layer, "__name__", kind)) if callable(layer) else Unknown(kind)


def _nnx(module: Any) -> Iterator[Part | Unknown]:
    if type(module).__name__ == "Sequential":
        for part in module.layers:
            yield from _nnx(part)
        return
    names = ("kernel", "bias", "scale")
    values = {name: getattr(module, name, None) for name in names}
    yield _flax(module, {name: value[...] for name, value in values.items() if value is not None})


def _linen(module: Any, params: Any) -> Iterator[Part | Unknown]:
    if type(module).__name__ == "Sequential":
        for index, part in enumerate(module.layers):
            yield from _linen(part, params.get(f"layers_{index}", {}))
        return
    yield _flax(module, params)
