"""Sets the state of a PyTorch run aside during a look, and puts it back as it was."""

from __future__ import annotations

import contextlib
import random
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

LOW = (torch.float16, torch.bfloat16)
"""Types that are too coarse for curvature."""

RECURRENT = (nn.LSTM, nn.GRU, nn.RNN)


@contextlib.contextmanager
def aside(model: nn.Module) -> Iterator[None]:
    """A block with everything that a look needs, which leaves nothing behind.

    * The random states of PyTorch, NumPy and Python are put back.
    * Autocast is off, even one that the loss enters by itself.
    * Attention runs in plain operations, because the fused kernels have no second derivatives.
    * Compiled models run as they were written.

    Args:
        model: the module of the look.
    """
    kinds = {p.device for p in model.parameters()}
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002, the user may have drawn from it
    with contextlib.ExitStack() as stack:
        for kind in sorted({device.type for device in kinds} - {"cpu"}) or ["cpu"]:
            places = [device.index or 0 for device in kinds if device.type == kind and kind != "cpu"]
            stack.enter_context(torch.random.fork_rng(places, device_type="cuda" if kind == "cpu" else kind))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")  # PyTorch's own warnings; if they were errors, rungs would fail
        stack.callback(np.random.set_state, numpy)
        stack.callback(random.setstate, python)
        stack.enter_context(_tallies(model))
        stack.enter_context(torch.enable_grad())
        stack.enter_context(_no_autocast())
        stack.enter_context(torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH))
        stack.enter_context(_setting(torch.backends.mha.get_fastpath_enabled, torch.backends.mha.set_fastpath_enabled))
        if hasattr(torch.compiler, "set_stance"):
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        if any(isinstance(part, RECURRENT) for part in model.modules()) and torch.cuda.is_available():
            stack.enter_context(torch.backends.cudnn.flags(enabled=False))  # it has no double backward there
        yield


@contextlib.contextmanager
def _tallies(model: nn.Module) -> Iterator[None]:
    """A block in which metrics of TorchMetrics inside a module count on copies, which are then thrown away."""
    metrics = [part for part in model.modules() if hasattr(part, "_defaults") and hasattr(part, "_update_count")]
    before = [dict(metric.__dict__) for metric in metrics]
    for metric in metrics:
        for name in metric._defaults:  # type: ignore[union-attr]
            value = getattr(metric, name)
            setattr(metric, name, value.clone() if isinstance(value, Tensor) else list(value))
    try:
        yield
    finally:
        for metric, was in zip(metrics, before, strict=True):
            metric.__dict__.clear()
            metric.__dict__.update(was)


def seed(number: int, devices: Sequence[torch.device]) -> None:
    """Seeds all random numbers, so that every evaluation draws the same masks; only within `aside`."""
    torch.default_generator.manual_seed(number)
    for device in devices:
        if device.type == "cuda":
            with torch.cuda.device(device):
                torch.cuda.manual_seed(number)
        elif device.type != "cpu":
            getattr(torch, device.type).manual_seed(number)
    random.seed(number)
    np.random.seed(number % 2**32)  # noqa: NPY002


@contextlib.contextmanager
def _setting(get: Callable[[], bool], put: Callable[[bool], None]) -> Iterator[None]:
    was = get()
    put(False)
    try:
        yield
    finally:
        put(was)


@contextlib.contextmanager
def _no_autocast() -> Iterator[None]:
    """A block without autocast, wherever it is entered; the user's own autocast objects stay as they were."""
    plain = torch.autocast.__enter__

    def enter(self: Any) -> Any:
        wanted = self._enabled
        self._enabled = False
        try:
            return plain(self)
        finally:
            self._enabled = wanted

    torch.autocast.__enter__ = enter  # type: ignore[method-assign]
    try:
        with contextlib.ExitStack() as stack:
            for kind in ("cpu", "cuda"):
                if kind == "cpu" or torch.cuda.is_available():
                    stack.enter_context(torch.autocast(kind, enabled=False))
            yield
    finally:
        torch.autocast.__enter__ = plain  # type: ignore[method-assign]


def bare(model: nn.Module) -> nn.Module:
    """The module inside its wrappers: `torch.compile`, `DataParallel`, `DistributedDataParallel`."""
    while True:
        inner = getattr(model, "_orig_mod", None)
        wraps = (nn.DataParallel, nn.parallel.DistributedDataParallel)
        inner = model.module if inner is None and isinstance(model, wraps) else inner
        if not isinstance(inner, nn.Module):
            return model
        model = inner


def leaves(batch: Any) -> Iterator[Tensor]:
    """The tensors of a batch: a tensor, or dictionaries, lists and tuples of them."""
    if isinstance(batch, Tensor):
        yield batch
    elif isinstance(batch, Mapping):
        for part in batch.values():
            yield from leaves(part)
    elif isinstance(batch, list | tuple):
        for part in batch:
            yield from leaves(part)


def mark(batch: Any) -> float:
    """A number that identifies the samples of a batch in any order: a sum of mean sizes."""
    return sum(float(leaf.detach().abs().double().mean()) for leaf in leaves(batch) if leaf.numel())


def mapped(function: Callable[[Tensor], Tensor], batch: Any) -> Any:
    """The batch with a function applied to each of its tensors."""
    if isinstance(batch, Tensor):
        return function(batch)
    if isinstance(batch, Mapping):
        found = {name: mapped(function, part) for name, part in batch.items()}
        try:
            return type(batch)(found)  # type: ignore[call-arg]
        except TypeError:
            return found
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(mapped(function, part) for part in batch))
    if isinstance(batch, list | tuple):
        return type(batch)(mapped(function, part) for part in batch)
    return batch


def samples_of(batch: Any) -> int | None:
    """How many samples a batch has: the length of the first axis of its tensors; None if the lengths differ."""
    sizes = {leaf.shape[0] for leaf in leaves(batch) if leaf.ndim}
    return sizes.pop() if len(sizes) == 1 else None


def rows(batch: Any, start: int, stop: int) -> Any:
    """Some samples of a batch, as a view."""
    return mapped(lambda leaf: leaf[start:stop] if leaf.ndim else leaf, batch)


class Spelled(TorchFunctionMode):
    """Norms in plain operations, because their own kernels silently give wrong second derivatives.

    Batch norm in training uses the statistics of the batch, and updates none.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        spelled = _SPELLED.get(func)
        return (func if spelled is None else spelled)(*args, **(kwargs or {}))


def _normed(x: Tensor, over: Sequence[int], eps: float) -> Tensor:
    centred = x - x.mean(tuple(over), keepdim=True)
    return centred * torch.rsqrt((centred * centred).mean(tuple(over), keepdim=True) + eps)


def _affine(x: Tensor, weight: Tensor | None, bias: Tensor | None, shape: Sequence[int]) -> Tensor:
    x = x if weight is None else x * weight.reshape(tuple(shape))
    return x if bias is None else x + bias.reshape(tuple(shape))


def _channels(x: Tensor) -> tuple[int, ...]:
    return (1, -1, *(1,) * (x.ndim - 2))


def _given(x: Tensor, mean: Tensor, var: Tensor, eps: float) -> Tensor:
    shape = _channels(x)
    return (x - mean.reshape(shape)) * torch.rsqrt(var.reshape(shape) + eps)


def _batch_norm(
    input: Tensor,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    over = (0, *range(2, input.ndim))
    normed = _normed(input, over, eps) if training else _given(input, running_mean, running_var, eps)
    return _affine(normed, weight, bias, _channels(input))


def _instance_norm(
    input: Tensor,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    over = tuple(range(2, input.ndim))
    normed = _normed(input, over, eps) if use_input_stats else _given(input, running_mean, running_var, eps)
    return _affine(normed, weight, bias, _channels(input))


def _layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Tensor:
    over = tuple(range(-len(normalized_shape), 0))
    return _affine(_normed(input, over, eps), weight, bias, tuple(normalized_shape))


def _weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    over = tuple(axis for axis in range(v.ndim) if axis != dim)
    return v * (g / torch.sqrt((v * v).sum(over, keepdim=True)))


_SPELLED: dict[Any, Callable[..., Tensor]] = {
    functional.batch_norm: _batch_norm,
    functional.instance_norm: _instance_norm,
    functional.layer_norm: _layer_norm,
    torch.layer_norm: lambda input, shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True: _layer_norm(
        input, shape, weight, bias, eps
    ),
    torch._weight_norm: _weight_norm,
}
