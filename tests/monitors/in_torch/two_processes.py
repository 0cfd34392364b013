"""Run by `test_torch_ranks.py`: two processes of one training run, of which one forks the other after the imports."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import distributed, nn
from torch.distributed.fsdp import fully_shard
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from secant import monitors
from secant.monitors.in_torch.monitor import TorchMonitor
from secant.monitors.sampling import TIMED


def cost(model: nn.Module, batch: Any) -> Any:
    return functional.mse_loss(model(batch[0]), batch[1])


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Dropout(0.0), nn.Linear(6, 1))


def batches(count: int) -> list[Any]:
    numbers = torch.Generator().manual_seed(7)
    inputs = [torch.randn(16, 3, generator=numbers) for _ in range(count)]
    return [(x, x.sum(1, keepdim=True) + 2 + 0.3 * torch.randn(16, 1, generator=numbers)) for x in inputs]


def train(model: nn.Module, optimiser: Any, data: Iterable[Any], watch: Any = None) -> Any:
    for step, batch in enumerate(data):
        optimiser.zero_grad()
        loss = cost(model, batch)
        loss.backward()
        if watch is not None:
            watch(step, batch)
        optimiser.step()
    whole = [p.full_tensor() if hasattr(p, "full_tensor") else p for p in model.parameters()]
    return torch.cat([p.detach().reshape(-1) for p in whole])


class Clock:
    """Time passes with evaluations of the loss and with batches, in one process faster than in the other."""

    def __init__(self, rate: float) -> None:
        self.rate, self.now = rate, 0.0

    def __call__(self) -> float:
        return self.now

    def cost(self, model: nn.Module, batch: Any) -> Any:
        self.now += self.rate
        return cost(model, batch)

    def batches(self, data: list[Any]) -> Iterator[Any]:
        for batch in data:
            self.now += 3 * self.rate
            yield batch


def main(rank: int, folder: Path) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    own = [tuple(part[rank::2] for part in batch) for batch in batches(3)]
    kinds = {"parallel": DistributedDataParallel, "sharded": lambda model: fully_shard(model, mesh=_mesh())}
    for kind, wrap in kinds.items():
        ends = []
        for watched in (True, False):
            model = wrap(network())
            optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
            if not watched:
                ends.append(train(model, optimiser, own))
                continue
            with TorchMonitor(cost, model, optimiser, every=1, record=folder / kind) as watch:
                ends.append(train(model, optimiser, own, watch))
            assert (watch.path is None) == (rank == 1), "one writer"
        assert torch.equal(*ends), f"{kind}: another run than without the monitor"
    # With a budget the first process decides; nobody waits for ever.
    model = DistributedDataParallel(network())
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
    clock = Clock(1.0 if rank == 0 else 0.1)
    with TorchMonitor(clock.cost, model, optimiser, budget=0.5, record=folder / "budget", clock=clock) as watch:
        train(model, optimiser, clock.batches(own * 20), watch)
    told = "several processes train together: looks use all samples of a batch."
    assert (0, told) in watch.watched.notes, watch.watched.notes
    assert watch._account.counted > TIMED, "too early to choose samples"
    assert {entry.look.samples for entry in watch.plan.entries} == {None}
    # What fails in one process fails in both.
    broken = [own[0] if rank == 0 else (own[0][0][:, :2], own[0][1])]
    watch = TorchMonitor(cost, network(), every=1, record=False)
    watch(0, broken[0])
    said = [text for _, text in watch.watched.notes]
    assert any("batch_sharpness" in text for text in said), said
    distributed.barrier()
    distributed.destroy_process_group()
    if rank == 0:
        for kind in (*kinds, "budget"):
            (folder / f"{kind}.json").write_text(json.dumps(monitors.read(folder / kind).rows))


def _mesh() -> Any:
    return distributed.device_mesh.init_device_mesh("cpu", (2,))


if __name__ == "__main__":
    # Imports take longer than all that is tested here, and nothing is under way yet that a fork would break.
    other = os.fork()
    if not other:
        main(1, Path(sys.argv[1]))
        sys.exit()
    main(0, Path(sys.argv[1]))
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(other, 0)[1]) != 0)
