"""Several processes that train one model: they agree on the looks, so that all of them look at the same step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, distributed

AGREED = 8
"""Every so many steps the first process says which looks are due; there are no looks in between."""


class Ranks:
    """One process alone, which exchanges nothing.

    Attributes:
        size: the number of processes.
        leader: whether this process writes the record.
    """

    size, leader = 1, True

    def mean(self, local: Callable[[], Tensor], like: Tensor) -> Tensor:
        """The mean over processes of a tensor that each process computes.

        Args:
            local: computes the tensor; if it fails in one process, it fails in all.
            like: a tensor of the same shape, for a process in which `local` fails.
        """
        return local()

    def sum(self, local: Tensor) -> Tensor:
        """The sum over processes of a tensor."""
        return local

    def agreed(self, due: Sequence[str], all_of: Sequence[str]) -> list[str]:
        """The looks that all processes take now."""
        return list(due)


class Several(Ranks):
    """Several processes of `torch.distributed`.

    Args:
        group: the group of these processes; by default all.
    """

    def __init__(self, group: Any = None) -> None:
        self.group = group
        self.size = distributed.get_world_size(group)
        self.leader = distributed.get_rank(group) == 0
        # Decisions go by a group of their own, which needs no waiting for a device.
        ranks = None if group is None else distributed.get_process_group_ranks(group)
        self._side = distributed.new_group(ranks=ranks, backend="gloo") if distributed.is_gloo_available() else group

    def mean(self, local: Callable[[], Tensor], like: Tensor) -> Tensor:
        """The mean over processes, by one exchange that also carries a failure."""
        problem: Exception | None = None
        try:
            found = local()
        except Exception as error:
            problem, found = error, torch.zeros_like(like)
        sent = torch.cat([found.reshape(-1), found.new_tensor([float(problem is not None)])])
        distributed.all_reduce(sent, group=self.group)
        if problem is not None:
            raise problem
        if float(sent[-1]) > 0:
            raise RuntimeError("another process could not take this look; its own error says why.")
        return sent[:-1].reshape(found.shape) / self.size

    def sum(self, local: Tensor) -> Tensor:
        """The sum over processes of a tensor."""
        sent = local.clone()
        distributed.all_reduce(sent, group=self.group)
        return sent

    def agreed(self, due: Sequence[str], all_of: Sequence[str]) -> list[str]:
        """The looks that are due in the first process."""
        bits = torch.tensor([float(name in due) for name in all_of])
        first = 0 if self.group is None else distributed.get_global_rank(self.group, 0)
        distributed.broadcast(bits, src=first, group=self._side)
        return [name for name, bit in zip(all_of, bits.tolist(), strict=True) if bit]


def ranks_of(group: Any = None) -> Ranks:
    """The processes of this run: those of `torch.distributed` if it has been set up, else this process alone."""
    ready = distributed.is_available() and distributed.is_initialized()
    return Several(group) if ready and distributed.get_world_size(group) > 1 else Ranks()
