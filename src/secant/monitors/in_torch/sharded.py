"""Looks at modules whose parameters lie in shards on several processes (FSDP2), through the module itself.

Hooks of the module put the parameters together, only for a forward and a backward pass. Neither forward derivatives nor
a second backward pass reach them. A gradient does: every process gets its shard of the mean gradient. Products are
therefore differences of gradients. The shards are moved by a small step, and put back from copies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from secant.monitors.in_torch.looks import DIFFERENCE, Looks, Loss
from secant.monitors.in_torch.ranks import Ranks
from secant.monitors.in_torch.snapshot import aside, mapped, seed


def is_sharded(model: nn.Module) -> bool:
    """Whether parameters of a module are in shards."""
    return any(hasattr(p, "to_local") and hasattr(p, "device_mesh") for p in model.parameters())


class ShardedLooks(Looks):
    """Looks at a sharded module; vectors are the shards of this process, inner products are sums over processes.

    Args:
        loss: `loss(model, batch) -> scalar tensor`.
        model: after `fully_shard`.
        among: the parameters that the optimiser moves.
        ranks: the processes.
    """

    missing = (
        "the parameters are in shards: curvature is a difference of gradients through the module, right to three "
        "digits, and dead units are those of this process."
    )

    def __init__(self, loss: Loss, model: nn.Module, among: Sequence[Tensor] | None, ranks: Ranks) -> None:
        super().__init__(loss, model, among)
        self.ranks, self.spans = ranks, ranks.size
        self.taken = {"along": DIFFERENCE, "product": DIFFERENCE}

    @property
    def shards(self) -> list[Tensor]:
        """This process's shards of the parameters; the tensors themselves."""
        return [_local(p.detach()) for p in self.parameters]

    def flat(self, tensors: Sequence[Tensor | None] | None = None) -> Tensor:
        """Shards as one vector, a copy; by default the shards of the parameters."""
        given = self.shards if tensors is None else tensors
        parts = [
            (torch.zeros_like(own) if one is None else _local(one.detach())).reshape(-1).to(self._kind)
            for own, one in zip(self.shards, given, strict=True)
        ]
        return torch.cat(parts)

    def pieces(self, v: Tensor) -> list[Tensor]:
        """A vector as tensors of the shards' shapes."""
        own = self.shards
        return [piece.reshape(p.shape) for piece, p in zip(v.split([p.numel() for p in own]), own, strict=True)]

    def spread(self, numbers: Sequence[Tensor | float]) -> Tensor:
        """A number or a tensor for every parameter, as a vector of this process."""
        return torch.cat(
            [
                (_local(one).reshape(-1) if isinstance(one, Tensor) else torch.full((p.numel(),), one)).to(p)
                for one, p in zip(numbers, self.shards, strict=True)
            ]
        )

    def averaged(self, ranks: Ranks, local: Callable[[], Tensor], like: Tensor) -> Tensor:
        """The local tensor, because gradients are the mean over processes already."""
        return local()

    def dot(self, a: Tensor, b: Tensor) -> float:
        """The inner product of two vectors, over all shards."""
        return float(self.ranks.sum((a @ b).reshape(1)))

    def gradient(self, batch: Any, at: Tensor | None = None) -> tuple[float, Tensor]:
        """The mean loss of all processes, and this process's shard of its gradient."""
        with aside(self.model), self._moved(at):
            return self._through(batch)

    def along(self, v: Tensor, batch: Any, at: Tensor | None = None) -> float:
        r"""$v^\top Hv$, by a difference of gradients."""
        return self.dot(v, self.product(v, batch, at))

    def product(self, v: Tensor, batch: Any, at: Tensor | None = None) -> Tensor:
        """$Hv$, by a difference of gradients."""
        here = self.flat() if at is None else at
        length, reach = self.dot(v, v) ** 0.5, self.dot(here, here) ** 0.5
        if length == 0:
            return torch.zeros_like(v)
        step = torch.finfo(torch.float32).eps ** (1 / 3) * (1 + reach) / length
        ends = [self.gradient(batch, here + sign * step * v)[1] for sign in (1.0, -1.0)]
        return (ends[0] - ends[1]) / (2 * step)

    def _through(self, batch: Any) -> tuple[float, Tensor]:
        """The loss and the gradient by the module's own backward pass; `.grad` and buffers are put back."""
        every = [p for p in self.model.parameters() if p.requires_grad]
        kept = [p.grad for p in every]
        buffers = [(buffer, buffer.detach().clone()) for buffer in self.model.buffers()]
        for p in every:
            p.grad = None
        try:
            seed(self.number, sorted({p.device for p in self.shards}, key=str))
            loss = self.loss(self.model, mapped(lambda leaf: leaf.detach(), batch))
            loss.backward()
            slope = self.flat([p.grad for p in self.parameters])
            value = self.ranks.sum(loss.detach().reshape(1).float()) / self.ranks.size
            return float(value), slope
        finally:
            for p, grad in zip(every, kept, strict=True):
                p.grad = grad
            with torch.no_grad():
                for buffer, before in buffers:
                    buffer.copy_(before)

    @contextmanager
    def _moved(self, at: Tensor | None) -> Iterator[None]:
        """A block with the shards at another point; afterwards they are as before, to the bit."""
        if at is None:
            yield
            return
        own = self.shards
        before = [p.clone() for p in own]
        try:
            with torch.no_grad():
                for p, piece in zip(own, self.pieces(at), strict=True):
                    p.copy_(piece)
            yield
        finally:
            with torch.no_grad():
                for p, old in zip(own, before, strict=True):
                    p.copy_(old)


def _local(tensor: Any) -> Tensor:
    found: Tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return found
