"""A PyTorch loop on a residual network for pictures of 32 x 32, with Secant's monitor and without, in turns.

Times are processor seconds of the whole process, so that other work on the machine does not count. Setting up, which
happens once, comes before. Options: `batch`, `steps` (in a round), `rounds`.
"""

from __future__ import annotations

import gc
import sys
import time
import warnings
from pathlib import Path

import torch
from exchange import Exchange, say
from torch import nn
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).parents[3] / "src"))

from secant.monitors.in_torch.monitor import TorchMonitor
from secant.monitors.sampling import TIMED

WARM = TIMED + 10
"""Steps before the clock runs: by then it is chosen on how many samples looks are taken, and all is set up."""


class Block(nn.Module):
    """Two convolutions beside a short way."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        stride = 1 if inputs == outputs else 2
        self.long = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.short = nn.Identity() if stride == 1 else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.short(x) + self.long(x))


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, 1, 1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        Block(16, 16),
        Block(16, 32),
        Block(32, 64),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 10),
    )


def cost(model: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    return functional.cross_entropy(model(batch[0]), batch[1])


class Loop:
    """A plain loop, with a monitor or without."""

    def __init__(self, watched: bool, size: int) -> None:
        self.model, self.step = network(), 0
        self.optimiser = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)
        self.watch = TorchMonitor(cost, self.model, self.optimiser, record=False) if watched else None
        self.numbers, self.size = torch.Generator().manual_seed(1), size

    def run(self, steps: int) -> float:
        """Processor seconds of some steps."""
        gc.collect()
        began = time.process_time()
        for _ in range(steps):
            labels = torch.randint(10, (self.size,), generator=self.numbers)
            x = torch.randn(self.size, 3, 32, 32, generator=self.numbers) + labels[:, None, None, None] / 10
            self.optimiser.zero_grad()
            loss = cost(self.model, (x, labels))
            loss.backward()
            if self.watch is not None:
                self.watch(self.step, (x, labels), loss=loss)
            self.optimiser.step()
            self.step += 1
        return time.process_time() - began


def main() -> None:
    exchange = Exchange(("torch", "jax", "numpy"))
    options = {
        name: int(exchange.options.get(name, value)) for name, value in (("batch", 64), ("steps", 60), ("rounds", 4))
    }
    torch.set_num_threads(2)
    warnings.simplefilter("ignore")
    loops = {"plain": Loop(False, options["batch"]), "watched": Loop(True, options["batch"])}
    for name, loop in loops.items():
        say(f"{name}: setting up took {loop.run(WARM):.1f} s")
    seconds: dict[str, list[float]] = {name: [] for name in loops}
    for _ in range(options["rounds"]):
        for name, loop in loops.items():
            seconds[name].append(loop.run(options["steps"]))
    watch = loops["watched"].watch
    assert watch is not None
    print(watch.plan, file=sys.stderr)
    pairs = zip(loops["plain"].model.state_dict().values(), loops["watched"].model.state_dict().values(), strict=True)
    exchange.values = {
        "same": all(torch.equal(one, other) for one, other in pairs),
        "looks": sum("look_seconds" in row and row["step"] >= WARM for row in watch.watched.rows),
        "share": watch.watched.rows[-1].get("share", watch._account.share),
        "parameters": sum(p.numel() for p in loops["plain"].model.parameters()),
    }
    for name, found in seconds.items():
        exchange.method(name, found)
    exchange.close()


if __name__ == "__main__":
    main()
