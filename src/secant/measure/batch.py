"""What the next batch of a run sees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jaxtyping import Array

from secant.curvature.critical import kernel_critical_lr
from secant.dynamics.axes import call_with, is_function
from secant.dynamics.probes import Probe
from secant.losses import get as get_loss
from secant.optim.batches import Batches, BatchState, params_of
from secant.optim.measurement import Measurement, measurement
from secant.optim.problem import Problem

Drawn = Batches | Callable[..., Batches]
"""Batches, or what makes them from the values of the axes of a run."""


def batch_critical_lr(batches: Drawn, *, every: int = 1) -> Measurement:
    r"""The critical step size of the batch that the next step sees, $2/(c_b\,\lambda_{\max}(K_b))$.

    For the mean squared error, $b/\lambda_{\max}(K_b)$. A kernel of $b$ samples is small: at every step it costs about
    as much as the step.

    Args:
        batches: those of the run, or the function that makes them from the values of its axes.
        every: steps between two measurements.
    """
    return measurement(_batch_critical, batches=_batches("batch_critical_lr", batches), every=every)


def _batch_critical(problem: Problem, batches: Drawn, every: int) -> Probe:
    critical = kernel_critical_lr(problem.f, get_loss(problem.loss))

    def look(state: BatchState, **values: Any) -> Array:
        rows = _rows("batch_critical_lr", problem, batches, state, values)
        return critical(params_of(state), problem.x[rows])

    return Probe(look, every, label=r"$\eta_{\mathrm{crit}}$ of the batch", whole=True)


def batch_loss(batches: Drawn, *, every: int = 1) -> Measurement:
    """The loss of the batch that the next step sees, for a pass forward through that batch.

    Args:
        batches: those of the run, or the function that makes them from the values of its axes.
        every: steps between two measurements.
    """
    return measurement(_batch_loss, batches=_batches("batch_loss", batches), every=every)


def _batch_loss(problem: Problem, batches: Drawn, every: int) -> Probe:
    def look(state: BatchState, **values: Any) -> Array:
        rows = _rows("batch_loss", problem, batches, state, values)
        inputs, targets = (jax.tree.map(lambda leaf: leaf[rows], part) for part in (problem.x, problem.y))
        return problem.objective_on(params_of(state), inputs, targets)

    return Probe(look, every, label="loss of the batch", whole=True)


def _batches(caller: str, batches: Any) -> Any:
    if not isinstance(batches, Batches) and not is_function(batches):
        raise TypeError(f"measure.{caller}: `batches` must be secant.Batches, got {type(batches).__name__}.")
    return batches


def _rows(caller: str, problem: Problem, batches: Drawn, state: Any, values: dict[str, Any]) -> Array:
    if not isinstance(state, BatchState):
        raise ValueError(f"measure.{caller}: there are batches in a run on batches only; pass them too.")
    found = batches if isinstance(batches, Batches) else call_with(batches, values, role=f"measure.{caller}: `batches`")
    return found.indices(len(jax.tree.leaves(problem.x)[0]), state.step)
