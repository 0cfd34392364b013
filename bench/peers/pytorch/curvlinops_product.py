"""A product with the Hessian of a residual network without norms, by curvlinops, in processor seconds."""

from __future__ import annotations

import time

import numpy as np
import torch
from curvlinops import HessianLinearOperator
from exchange import Exchange, say
from torch import nn
from torch.nn import functional


class Same(nn.Module):
    """A convolution without bias that pads as JAX does where the stride is two."""

    def __init__(self, weight: np.ndarray, stride: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(weight.transpose(3, 2, 0, 1).copy()))
        self.stride, size = stride, weight.shape[0]
        self.pad = (0, 1, 0, 1) if stride == 2 and size == 3 else (size // 2,) * 4

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.conv2d(functional.pad(x, self.pad), self.weight, stride=self.stride)


class Block(nn.Module):
    def __init__(self, arrays: dict[str, np.ndarray], number: int) -> None:
        super().__init__()
        short = f"{number}.short.weight" in arrays
        self.a = Same(arrays[f"{number}.a.weight"], 2 if short else 1)
        self.b = Same(arrays[f"{number}.b.weight"], 1)
        self.short = Same(arrays[f"{number}.short.weight"], 2) if short else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z = self.b(torch.relu(self.a(x)))
        return torch.relu(z + (x if self.short is None else self.short(x)))


class Network(nn.Module):
    def __init__(self, arrays: dict[str, np.ndarray]) -> None:
        super().__init__()
        self.stem = Same(arrays["stem.weight"], 1)
        self.blocks = nn.Sequential(*(Block(arrays, number) for number in range(3)))
        self.head = nn.Linear(64, 10)
        with torch.no_grad():
            self.head.weight.copy_(torch.tensor(arrays["head.weight"].T.copy()))
            self.head.bias.copy_(torch.tensor(arrays["head.shift"]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(torch.relu(self.stem(x))).mean((2, 3)))


def main() -> None:
    exchange = Exchange(("torch", "curvlinops-for-pytorch"))
    arrays = exchange.arrays
    model, criterion = Network(arrays), nn.CrossEntropyLoss()
    x, y = torch.tensor(arrays["x"].transpose(0, 3, 1, 2).copy()), torch.tensor(arrays["y"])
    params = list(model.parameters())
    gradient = torch.autograd.grad(criterion(model(x), y), params)
    flat = torch.cat([part.reshape(-1) for part in gradient])
    say(f"{flat.numel()} parameters, {torch.get_num_threads()} threads")
    operator = HessianLinearOperator(model, criterion, params, [(x, y)], check_deterministic=False)
    found, seconds = operator @ flat, []
    for _ in range(5):
        began = time.process_time()
        found = operator @ flat
        seconds.append(time.process_time() - began)
    exchange.method("curvlinops 3.0.1", seconds, quotient=float(flat @ found / (flat @ flat)))
    exchange.close()


if __name__ == "__main__":
    main()
