"""Trial runs of a model in PyTorch."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from secant.monitors.doctor.trial import Runs
from secant.monitors.in_torch.optimizers import unwrapped

CHECKED = 20
"""Steps between two checks whether a run is lost already."""


def runs(
    loss: Callable[..., Any], model: torch.nn.Module, batch: Any, optimiser: Any, steps: int
) -> tuple[float, np.ndarray, Runs]:
    """The own step size, losses before the first step, and a function that makes a run; see `largest_step`.

    Module and optimiser are copied together, so that the copied optimiser moves the copied module.
    """
    optimiser = unwrapped(optimiser)
    if not isinstance(optimiser, torch.optim.Optimizer):
        raise TypeError(f"largest_step: `optimiser` must be one of torch.optim, got {type(optimiser).__name__}.")
    batch_of = batch if callable(batch) else lambda step: batch

    def run(multiple: float) -> np.ndarray:
        tried, moves = copy.deepcopy((model, optimiser))
        for group in moves.param_groups:
            group["lr"] = group["lr"] * multiple
        found = []
        with torch.random.fork_rng():  # every run has the same dropout; the caller's random state is left alone
            torch.manual_seed(0)
            for count in range(steps):
                moves.zero_grad()
                value = loss(tried, batch_of(count))
                value.backward()
                moves.step()
                found.append(value.detach())
                if count % CHECKED == 0 and not math.isfinite(float(found[-1])):
                    break
        return np.array([float(value) for value in found])

    level = []
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        still = copy.deepcopy(model)  # running statistics move even without a step
        for count in range(max(steps // 10, 1) if callable(batch) else 1):
            level.append(float(loss(still, batch_of(count))))
    lr = max((float(group["lr"]) for group in optimiser.param_groups), default=math.nan)
    return lr, np.array(level), run
