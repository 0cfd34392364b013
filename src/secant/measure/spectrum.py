"""Sharpness along a run: the largest eigenvalues of the Hessian, plain or preconditioned by the optimiser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from secant.core.arguments import whole
from secant.core.types import Params
from secant.curvature.operators import hessian
from secant.dynamics.probes import Probe
from secant.linalg import Operator
from secant.measure.tracking import followed
from secant.optim.batches import BatchState
from secant.optim.measurement import Measurement, measurement
from secant.optim.optimizers.optimizer import Optimiser, OptimiserState
from secant.optim.problem import Problem


def sharpness(k: int = 1, *, every: int = 1, tol: float = 1e-3, max_products: int = 200) -> Measurement:
    r"""The `k` largest eigenvalues of the Hessian of the loss.

    Args:
        k: how many eigenvalues.
        every: steps between two measurements.
        tol: estimated error relative to the largest eigenvalue.
        max_products: the most Hessian products of one measurement.
    """
    return measurement(_sharpness, k=whole("sharpness", "k", k), every=every, tol=tol, max_products=max_products)


def _sharpness(problem: Problem, k: int, every: int, tol: float, max_products: int) -> Probe:
    def operator(params: Any) -> Operator:
        return hessian(problem.f, params, problem.x, problem.y, problem.loss)

    return followed(operator, k, every, tol, max_products, r"eigenvalues of $\nabla^2 L$")


def preconditioned_sharpness(
    optimiser: Optimiser, k: int = 1, *, every: int = 1, tol: float = 1e-3, max_products: int = 200
) -> Measurement:
    r"""The `k` largest eigenvalues of $P^{-1/2}HP^{-1/2}$, the curvature as the optimiser of the run meets it.

    $P$ is the diagonal that divides the next step; in a run on batches it is that of a step with all samples. For an
    optimiser without such a diagonal, $P$ is the identity and the result is `sharpness`. The edge of stability is at
    the optimiser's `threshold`.

    Args:
        optimiser: the `rule` of the run, from [`secant.optimisers`][secant.optim.optimisers].
        k: how many eigenvalues.
        every: steps between two measurements.
        tol: estimated error relative to the largest eigenvalue.
        max_products: the most Hessian products of one measurement.
    """
    if not isinstance(optimiser, Optimiser) or optimiser.scale is None:
        what = optimiser.name if isinstance(optimiser, Optimiser) else type(optimiser).__name__
        raise ValueError(
            f"preconditioned_sharpness: `optimiser` must have a known preconditioner, which {what} does not have. "
            "Use a constructor of secant.optimisers, or `from_optax(..., scale=...)`."
        )
    count = whole("preconditioned_sharpness", "k", k)
    return measurement(_preconditioned, optimiser=optimiser, k=count, every=every, tol=tol, max_products=max_products)


def _preconditioned(problem: Problem, optimiser: Optimiser, k: int, every: int, tol: float, max_products: int) -> Probe:
    gradient = jax.grad(problem.objective)

    def operator(whole: OptimiserState | BatchState) -> Operator:
        state = whole.inner if isinstance(whole, BatchState) else whole
        optimiser.check("preconditioned_sharpness", state)
        curvature = hessian(problem.f, state.params, problem.x, problem.y, problem.loss)
        divisor = optimiser.preconditioner(state, gradient(state.params))
        roots = jax.tree.map(lambda p: 1 / jnp.sqrt(p), divisor)

        def bind(data: Any) -> Callable[[Params], Params]:
            product = curvature.bind(data[0])
            return lambda v: _times(data[1], product(_times(data[1], v)))

        return Operator(bind, (curvature.data, roots), curvature.domain, curvature.codomain)

    return followed(operator, k, every, tol, max_products, r"eigenvalues of $P^{-1/2}\nabla^2 L\,P^{-1/2}$", whole=True)


def _times(diagonal: Params, v: Params) -> Params:
    return jax.tree.map(jnp.multiply, diagonal, v)
