"""Rules of two layers at once, where one pass over memory does for both."""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax.numpy as jnp
from jaxtyping import Array

from secant.kernels import one_pass
from secant.kernels.passes import Inputs, Pass
from secant.kernels.plan import Path
from secant.kernels.rules import Signals, bend_of, constants
from secant.kernels.signal import Signal
from secant.nets.network import Network
from secant.nets.records import Activation, AveragePool, Conv


def two_layers(nets: Sequence[Network], at: Inputs | Signals, on: Pass, paths: Sequence[Path]) -> Signals | None:
    """What is behind an activation and the layer that reads it, or None where each goes by its own rule."""
    if on.own or not on.listed or isinstance(at, Inputs) or len(nets) < 2 or len(at) != 1:
        return None
    layer, reader, (signal,) = nets[0].layer, nets[1].layer, at
    slope = bend_of(layer.function) if isinstance(layer, Activation) else None
    if slope is None or not signal.gaussian or signal.gains is not None or signal.cov is None or not signal.full:
        return None
    if not one_pass.can_take(signal.cov):
        return None
    bend = one_pass.Bend(((1 + slope) / 2) ** 2, ((1 - slope) / 2) ** 2)
    if isinstance(reader, Conv) and (reader.window, reader.strides, reader.padding) == (one_pass.WINDOW, 1, "SAME"):
        return (_convolved(bend, reader, signal, on, paths),)
    if isinstance(reader, AveragePool) and reader.padding == "VALID" and reader.window == reader.strides:
        return (_pooled(bend, reader, signal, on, paths),)
    return None


def _sizes(signal: Signal, on: Pass, path: Path) -> tuple[Array, Array]:
    """Sizes in front of the activation, shape `(*positions, pairs)`; those behind it nobody asks for."""
    if on.plan.after[path].sizes:
        on.next_sizes(signal)
    first, second = (size.reshape(*signal.positions, size.shape[-1]) for size in signal.sizes)
    return first, second


def _convolved(bend: one_pass.Bend, layer: Conv, signal: Signal, on: Pass, paths: Sequence[Path]) -> Signal:
    size = math.prod(layer.window)
    fans = (size * signal.features, layer.channels)
    made = constants(layer.parametrization, layer.bias, fans, on, paths[1], last=layer.last, inputs=False)
    ntk = None if signal.multiple is not None else signal.ntk
    ours = [made.weights / size, made.biases, made.passed / size, made.trained / size, made.shifts]
    numbers = jnp.stack([jnp.asarray(n, signal.cov.dtype) for n in (*ours, *(signal.multiple or (0.0, 0.0)))])
    sizes = _sizes(signal, on, paths[0])
    cov, ntk = one_pass.bent_windows(bend, signal.cov, ntk, sizes, numbers, only_cov=not on.ntk)
    moved = signal.with_(cov=cov, ntk=ntk, sizes=None, features=layer.channels, gaussian=True, centred=True, fresh=True)
    return on.sized(moved, paths[1])


def _pooled(bend: one_pass.Bend, layer: AveragePool, signal: Signal, on: Pass, paths: Sequence[Path]) -> Signal:
    down, across = layer.window
    cov, ntk = one_pass.bent_cells(bend, (down, across), signal.cov, signal.ntk, _sizes(signal, on, paths[0]))
    behind = signal.with_(cov=cov, ntk=ntk, sizes=None, positions=cov.shape[:2], gaussian=False, centred=False)
    return on.sized(behind, paths[1])
