"""One training step and one Hessian product of the 3072-200-200-10 tanh network in PyTorch, float32, on CPU or GPU.

Needs no input file: `python bench/peers/torch_step.py samples=5000 device=cuda` prints the result. Each entry of
`seconds` is the mean over a block of steps with one synchronisation at its end. Options: `samples`, `device`, `steps`
(in a block), `repetitions` (blocks), `compile` (0 leaves torch.compile out).
"""

from __future__ import annotations

import gc
import itertools
import math
import time
from collections.abc import Callable

import torch
from exchange import Exchange, say
from torch import nn

WIDTHS = (3072, 200, 200, 10)
RATE = 1e-3


def blocks(work: Callable[[], object], steps: int, repetitions: int, wait: Callable[[], None]) -> list[float]:
    """Seconds a call, one entry a block."""
    for _ in range(max(3, steps // 4)):
        work()
    seconds = []
    for _ in range(repetitions):
        gc.collect()
        wait()
        began = time.perf_counter()
        for _ in range(steps):
            work()
        wait()
        seconds.append((time.perf_counter() - began) / steps)
    return seconds


class Work:
    """The network with Gaussian data, and the pieces of work that are timed."""

    def __init__(self, samples: int, device: str) -> None:
        generator = torch.Generator().manual_seed(0)
        layers: list[nn.Module] = []
        for fan_in, fan_out in itertools.pairwise(WIDTHS):
            layers += [nn.Linear(fan_in, fan_out), nn.Tanh()]
        self.model = nn.Sequential(*layers[:-1]).to(device)
        self.params = list(self.model.parameters())
        self.x = torch.randn(samples, WIDTHS[0], generator=generator).to(device)
        labels = torch.randint(WIDTHS[-1], (samples,), generator=generator)
        self.y = nn.functional.one_hot(labels, WIDTHS[-1]).float().to(device)
        self.vector = [torch.randn(p.shape, generator=generator).to(device) / math.sqrt(p.numel()) for p in self.params]
        self.gradient = torch.autograd.grad(self.loss(), self.params, create_graph=True)

    def loss(self) -> torch.Tensor:
        return (self.model(self.x) - self.y).square().sum() / len(self.x)

    def step(self) -> None:
        """Gradient descent, all parameters updated in one call."""
        gradient = torch.autograd.grad(self.loss(), self.params)
        with torch.no_grad():
            torch._foreach_add_(self.params, gradient, alpha=-RATE)

    def product(self) -> tuple[torch.Tensor, ...]:
        """A Hessian product from nothing: loss, gradient, double backward."""
        gradient = torch.autograd.grad(self.loss(), self.params, create_graph=True)
        return torch.autograd.grad(gradient, self.params, grad_outputs=self.vector)

    def product_again(self) -> tuple[torch.Tensor, ...]:
        """A further product at the same parameters, with the gradient's graph kept."""
        return torch.autograd.grad(self.gradient, self.params, grad_outputs=self.vector, retain_graph=True)

    def product_forward(self) -> tuple[torch.Tensor, ...]:
        """A Hessian product by forward over reverse mode."""
        names = [name for name, _ in self.model.named_parameters()]

        def loss(params: tuple[torch.Tensor, ...]) -> torch.Tensor:
            outputs = torch.func.functional_call(self.model, dict(zip(names, params, strict=True)), (self.x,))
            return (outputs - self.y).square().sum() / len(self.x)

        params = tuple(p.detach() for p in self.params)
        return torch.func.jvp(torch.func.grad(loss), (params,), (tuple(self.vector),))[1]


def main() -> None:
    exchange = Exchange(("torch", "numpy"))
    options = exchange.options
    device, samples = str(options.get("device", "cpu")), int(options.get("samples", 1000))
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.manual_seed(0)
    cuda = device.startswith("cuda")
    wait = torch.cuda.synchronize if cuda else (lambda: None)
    steps = int(options.get("steps", 200 if cuda else 5))
    repetitions = int(options.get("repetitions", 7))
    name = torch.cuda.get_device_name() if cuda else f"CPU, {torch.get_num_threads()} threads"
    say(f"{samples} samples on {name}, float32 without TF32")
    exchange.values = {"device": name, "samples": samples}
    work = Work(samples, device)
    tasks: dict[str, Callable[[], object]] = {
        "step": work.step,
        "Hessian product": work.product,
        "Hessian product, graph kept": work.product_again,
        "Hessian product, forward over reverse": work.product_forward,
    }
    if int(options.get("compile", 1)):
        tasks["step, compiled"] = torch.compile(work.step)
        if cuda:
            tasks["step, compiled, CUDA graphs"] = torch.compile(work.step, mode="reduce-overhead")
    for label, task in tasks.items():
        try:
            exchange.method(label, blocks(task, steps, repetitions, wait))
        except Exception as error:
            exchange.fail(label, error)
    exchange.close()


if __name__ == "__main__":
    main()
