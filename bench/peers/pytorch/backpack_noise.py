"""Gradient noise of the 3072-200-200-10 network with BackPACK: eigenvalues and trace; processor seconds."""

from __future__ import annotations

import time

import numpy as np
import torch
from backpack import backpack, extend
from backpack.extensions import BatchGrad, BatchL2Grad, Variance
from exchange import Exchange, timed
from torch_network import network


def main() -> None:
    exchange = Exchange(("torch", "backpack-for-pytorch"))
    few, many = (int(exchange.options[name]) for name in ("few", "many"))
    repetitions = int(exchange.options.get("repetitions", 5))
    torch.set_num_threads(int(exchange.options.get("threads", torch.get_num_threads())))
    model = extend(network(exchange.arrays))
    loss = extend(torch.nn.MSELoss(reduction="sum"))
    x, y = (torch.from_numpy(exchange.arrays[name]) for name in "xy")

    def backward(samples: int, *extensions: object) -> list[torch.nn.Parameter]:
        model.zero_grad(set_to_none=True)
        with backpack(*extensions):
            (loss(model(x[:samples]), y[:samples]) / samples).backward()
        return list(model.parameters())

    def top(_: int) -> np.ndarray:
        """Eigenvalues of the noise from the Gram matrix of gradients written out, one parameter after another."""
        params = backward(few, BatchGrad())
        inner = torch.zeros(few, few)
        for p in params:
            rows = few * p.grad_batch.reshape(few, -1)
            rows = rows - rows.mean(0)
            inner += rows @ rows.T
            p.grad_batch = None
        return torch.linalg.eigvalsh(inner)[-5:].flip(0).numpy() / few

    def by_lengths(_: int) -> float:
        params = backward(many, BatchL2Grad())
        squares = sum(float(p.batch_l2.sum()) for p in params) * many
        return squares - sum(float(p.grad.square().sum()) for p in params)

    def by_variance(_: int) -> float:
        return many**2 * sum(float(p.variance.sum()) for p in backward(many, Variance()))

    for name, function, what in (
        ("BatchGrad and its Gram matrix", top, "top"),
        ("BatchL2Grad", by_lengths, "trace"),
        ("Variance", by_variance, "trace"),
    ):
        seconds, answers = timed(function, repetitions, clock=time.process_time)
        exchange.method(name, seconds, what=what, answer=np.atleast_1d(answers[0]).tolist())
    exchange.close()


if __name__ == "__main__":
    main()
