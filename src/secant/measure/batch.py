"""Measurements of the next batch of a run: its loss, and its critical step."""

from __future__ import annotations

from typing import Any

import jax
from jaxtyping import Array

from secant.curvature.critical_steps.full_batch import kernel_critical_lr
from secant.dynamics.probes import Probe
from secant.losses import get as get_loss
from secant.optim.batches import BatchState, params_of
from secant.optim.measurement import Measurement, measurement
from secant.optim.problem import Problem


def batch_critical_lr(*, every: int = 1) -> Measurement:
    r"""The critical step size of the batch that the next step sees, $2/(c_b\,\lambda_{\max}(K_b))$.

    For the mean squared error it is $b/\lambda_{\max}(K_b)$. The kernel of $b$ samples is small, and its computation
    shares the outputs with the step. Measured at every step, it costs less than the step.

    Args:
        every: steps between two measurements.
    """
    return measurement(_batch_critical, every=every)


def _batch_critical(problem: Problem, every: int) -> Probe:
    critical = kernel_critical_lr(problem.f, get_loss(problem.loss))

    def look(state: BatchState) -> Array:
        params, inputs, _ = seen("batch_critical_lr", problem, state)
        return critical(params, inputs)

    return Probe(look, every, label=r"$\eta_{\mathrm{crit}}$ of the batch", whole=True)


def batch_loss(*, every: int = 1) -> Measurement:
    """The loss of the batch that the next step sees; measured at every step, it is the loss that the step descends.

    Args:
        every: steps between two measurements.
    """
    return measurement(_batch_loss, every=every)


def _batch_loss(problem: Problem, every: int) -> Probe:
    def look(state: BatchState) -> Array:
        return problem.objective_on(*seen("batch_loss", problem, state))

    return Probe(look, every, label="loss of the batch", whole=True)


def seen(caller: str, problem: Problem, state: Any) -> tuple[Any, Any, Any]:
    """Parameters, inputs and targets of the next step."""
    if not isinstance(state, BatchState):
        raise ValueError(f"measure.{caller}: this run has no batches. Pass `batches` to `train`.")
    if state.rows.dtype == bool:
        raise ValueError(f"measure.{caller}: a Bernoulli batch has no fixed size. Use batches of a fixed size.")
    inputs, targets = (jax.tree.map(lambda leaf: leaf[state.rows], part) for part in (problem.x, problem.y))
    return params_of(state), inputs, targets
