"""Several processes that train one model: what they agree on, so that each of them looks at the same time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, distributed

AGREED = 8
"""Steps between two moments at which the first process says which looks are due; there are none in between."""


class Ranks:
    """One process, alone: nothing is exchanged.

    Attributes:
        size: processes.
        leader: whether this one writes the record.
    """

    size, leader = 1, True

    def mean(self, local: Callable[[], Tensor], like: Tensor) -> Tensor:
        """The mean over processes of a tensor that each of them computes.

        Args:
            local: computes it; where it fails in one process, it fails in all.
            like: a tensor of its shape, where it fails.
        """
        return local()

    def sum(self, local: Tensor) -> Tensor:
        """The sum over processes of a tensor."""
        return local

    def agreed(self, due: Sequence[str], all_of: Sequence[str]) -> list[str]:
        """The looks that all processes take now."""
        return list(due)


class Several(Ranks):
    """Processes of `torch.distributed`.

    Args:
        group: theirs; by default all.
    """

    def __init__(self, group: Any = None) -> None:
        self.group = group
        self.size = distributed.get_world_size(group)
        self.leader = distributed.get_rank(group) == 0
        # What is decided goes by a way of its own, which no device has to be waited for.
        ranks = None if group is None else distributed.get_process_group_ranks(group)
        self._side = distributed.new_group(ranks=ranks, backend="gloo") if distributed.is_gloo_available() else group

    def mean(self, local: Callable[[], Tensor], like: Tensor) -> Tensor:
        """As there; one exchange, in which a failure travels too."""
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
            raise RuntimeError("another process could not take this look.")
        return sent[:-1].reshape(found.shape) / self.size

    def sum(self, local: Tensor) -> Tensor:
        """As there."""
        sent = local.clone()
        distributed.all_reduce(sent, group=self.group)
        return sent

    def agreed(self, due: Sequence[str], all_of: Sequence[str]) -> list[str]:
        """What is due in the first process."""
        bits = torch.tensor([float(name in due) for name in all_of])
        first = 0 if self.group is None else distributed.get_global_rank(self.group, 0)
        distributed.broadcast(bits, src=first, group=self._side)
        return [name for name, bit in zip(all_of, bits.tolist(), strict=True) if bit]


def ranks_of(group: Any = None) -> Ranks:
    """The processes of this run: those of `torch.distributed` where it has been set up, else this one."""
    ready = distributed.is_available() and distributed.is_initialized()
    return Several(group) if ready and distributed.get_world_size(group) > 1 else Ranks()
