"""Options of the studies of features that are refused: batches beyond the data, and what no memory holds."""

from __future__ import annotations

from typing import Any

from secant.lab import fits_memory
from secant.studies.shared.features.tasks import Sizes


def check_batches(name: str, largest: int, samples: int) -> None:
    """Raises an error for a batch size larger than the number of samples."""
    if largest > samples:
        raise ValueError(f"{name}: must be at most the number of samples, {samples}, got {largest}.")


def check_runs(config: Any, *, deep: bool = False) -> None:
    """Raises an error for batches larger than the data, and for runs that do not fit into memory."""
    check_batches("batches", config.batches[-1], config.samples)
    steps = max(config.steps, config.epochs * -(-config.samples // config.batches[0]))
    sizes = Sizes(config.width, config.samples, config.held_out, config.dim)
    check_sizes(sizes, draws=config.draws, steps=steps, deep=deep)


def check_sizes(sizes: Sizes, *, draws: int, steps: int, deep: bool) -> None:
    """Raises an error if runs of a task of these sizes do not fit into memory."""
    width, samples, held_out, dim, *_ = sizes
    check_memory(draws=draws, samples=samples, held_out=held_out, dim=dim, width=width, steps=steps, deep=deep)


def check_memory(*, draws: int, samples: int, held_out: int, dim: int, width: int, steps: int, deep: bool) -> None:
    """Raises an error if data, weights, the arrays of a step, and a number for every step do not fit into memory."""
    weights = width * (dim + 2 * width * deep)
    each = (samples + 2 * held_out) * (dim + 4 * width) + 8 * weights + samples**2 + steps
    fits_memory(4.0 * draws * each, "draws, samples, held_out, dim, width or steps")
