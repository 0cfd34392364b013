"""Full-batch gradient descent in PyTorch, with the two largest Hessian eigenvalues every few steps.

The eigenvalues come from SciPy's `eigsh` over double backward, started from the last eigenvectors. The timed run is
followed by an untimed check of some of its eigenvalues against converged ones, at the parameters of the run. Where a
setting turns out not to be accurate, the next tighter one is timed.

Options: `lr`, `steps`, `every`, `accuracy`, `checks` (how many measurements are checked), `measured_steps` (only these
first steps are run, and their time is scaled to all of them; the method's name then says so).
"""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np
import torch
from exchange import Exchange, say
from torch import nn
from torch_network import Hessian, network, squared_error, start_vector

SETTINGS = ((0.1, 8), (0.03, 8), (0.1, 12), (0.01, 12), (1e-3, 15))
"""Tolerance and size of the basis for `eigsh`, the cheapest first, as a search found."""


class Run(NamedTuple):
    seconds: float
    eigenvalues: np.ndarray
    losses: np.ndarray
    products: int
    kept: dict[int, list[torch.Tensor]]


def train(
    model: nn.Module,
    x: torch.Tensor,
    y: torch.Tensor,
    rate: float,
    steps: int,
    every: int,
    setting: tuple[float, int],
    keep: frozenset[int] = frozenset(),
) -> Run:
    """The whole loop, timed; `keep` names the measurements whose parameters are copied, outside the time."""
    params = list(model.parameters())
    start = start_vector(sum(p.numel() for p in params), 0)
    eigenvalues, losses, products, kept, copying = [], [], 0, {}, 0.0
    began = time.perf_counter()
    for step in range(steps + 1):
        if step % every == 0:
            hessian = Hessian(model, x, y)
            values, vectors = hessian.top(start, *setting)
            start = vectors.sum(axis=1)  # both directions are wanted, so both are in the start
            eigenvalues.append(values)
            losses.append(hessian.loss)
            products += hessian.products
            if len(eigenvalues) - 1 in keep:
                paused = time.perf_counter()
                kept[len(eigenvalues) - 1] = [p.detach().clone() for p in params]
                copying += time.perf_counter() - paused
        if step < steps:
            gradient = torch.autograd.grad(squared_error(model(x), y), params)
            with torch.no_grad():
                for p, g in zip(params, gradient, strict=True):
                    p.sub_(g, alpha=rate)
    return Run(time.perf_counter() - began - copying, np.array(eigenvalues), np.array(losses), products, kept)


def converged(model: nn.Module, x: torch.Tensor, y: torch.Tensor, params: list[torch.Tensor]) -> np.ndarray:
    with torch.no_grad():
        for p, value in zip(model.parameters(), params, strict=True):
            p.copy_(value)
    hessian = Hessian(model, x, y)
    return hessian.top_values(start_vector(hessian.size, 1), 1e-5)


def main() -> None:
    exchange = Exchange(("torch", "scipy"))
    options = exchange.options
    rate, steps, every = float(options["lr"]), int(options.get("steps", 500)), int(options.get("every", 10))
    measured = min(int(options.get("measured_steps", steps)), steps)
    accuracy, checks = float(options.get("accuracy", 1e-3)), int(options.get("checks", 6))
    x, y = (torch.from_numpy(exchange.arrays[name]) for name in "xy")
    part = "" if measured == steps else f" of {steps}, to be scaled"
    say(f"{measured} steps{part}, eigenvalues every {every}, {len(x)} samples, {torch.get_num_threads()} threads")
    train(network(exchange.arrays), x, y, rate, every, every, SETTINGS[0])  # warm-up
    keep = frozenset(np.linspace(0, measured // every, checks).round().astype(int).tolist())
    for setting in SETTINGS:
        model = network(exchange.arrays)
        run = train(model, x, y, rate, measured, every, setting, keep)
        exact = {index: converged(model, x, y, params) for index, params in run.kept.items()}
        errors = np.array([np.abs(run.eigenvalues[index] / values - 1) for index, values in exact.items()])
        accurate = bool(errors.max() <= accuracy)
        say(f"tolerance {setting[0]:g}, basis {setting[1]}: {run.seconds:.1f} s, largest error {errors.max():.1e}")
        if accurate:
            break
    # Eigenvalues are taken at both ends, so steps / every + 1 times in all.
    scale = (steps // every + 1) / (measured // every + 1)
    name = "eigsh over double backward, started from the last eigenvectors"
    exchange.method(
        name if measured == steps else f"{name} ({measured} of {steps} steps, scaled)",
        [run.seconds * scale],
        setting={"tolerance": setting[0], "basis": setting[1]},
        products=run.products,
        relative_errors=errors.max(axis=0).tolist(),
        accurate=accurate,
        measured_steps=measured,
        measured_seconds=run.seconds,
    )
    exchange.values = {
        "lr": rate,
        "steps": steps,
        "every": every,
        "sharpness": run.eigenvalues.tolist(),
        "loss": run.losses.tolist(),
    }
    exchange.close()


if __name__ == "__main__":
    main()
