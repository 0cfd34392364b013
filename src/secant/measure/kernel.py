"""The tangent kernel along a run: its largest eigenvalues, the loss in its directions, and how far it moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from secant.core.arguments import whole
from secant.curvature.loss_split import kernel_drift as drift_between
from secant.curvature.tangent.signals import network_of
from secant.curvature.tangent.tangent_kernel import ntk, pair_kernel
from secant.dynamics.probes import Probe
from secant.linalg import Operator
from secant.losses import Loss as SquaredLoss
from secant.measure.tracking import followed
from secant.optim.measurement import Measurement, measurement
from secant.optim.problem import Problem

DENSE_ROWS = 2048
"""The most rows of a tangent kernel that is written out at every measurement."""


def kernel_top(k: int = 1, *, every: int = 1, tol: float = 1e-3, max_products: int = 200) -> Measurement:
    """The `k` largest eigenvalues of the tangent kernel; the arguments are those of `sharpness`.

    For Secant's own networks and up to 2,048 samples times outputs, the kernel is written out, which costs less than
    its products. Otherwise only products are computed.
    """
    return measurement(_kernel_top, k=whole("kernel_top", "k", k), every=every, tol=tol, max_products=max_products)


def _kernel_top(problem: Problem, k: int, every: int, tol: float, max_products: int) -> Probe:
    written_out = _writes_out(problem)

    def operator(params: Any) -> Operator:
        if not written_out(params):
            return ntk(problem.f, params, problem.x)
        matrix = pair_kernel(problem.f)(params, problem.x, None)
        space = jax.ShapeDtypeStruct(matrix.shape[:1], matrix.dtype)
        return Operator(lambda data: lambda v: data @ v, matrix, space, space)

    return followed(operator, k, every, tol, max_products, "eigenvalues of the tangent kernel")


def loss_within(s: int = 1, *, every: int = 1) -> Measurement:
    r"""The squared loss in the first `s` eigendirections of the current tangent kernel, and `_others` for the rest."""
    return measurement(_loss_within, s=whole("loss_within", "s", s), every=every)


def _loss_within(problem: Problem, s: int, every: int) -> Probe:
    if not isinstance(problem.loss, SquaredLoss) or problem.loss.weight is None:
        raise ValueError("loss_within: `loss` of the problem must be one of the squared losses of secant.losses.")
    kernel = pair_kernel(problem.f)

    def look(params: Any) -> dict[str, Array]:
        outputs = problem.f(params, problem.x)
        residual = (outputs - problem.y).reshape(-1)
        directions = jnp.linalg.eigh(kernel(params, problem.x, None))[1]
        parts = problem.loss.curvature(outputs) / 2 * (directions.T @ residual)[::-1] ** 2  # type: ignore[attr-defined]
        return {"value": parts[:s].sum(), "others": parts[s:].sum()}

    return Probe(look, every, label=f"loss in the first {s} kernel directions")


def kernel_drift(*, every: int = 1) -> Measurement:
    r"""How far the tangent kernel has moved, $\|K_t - K_0\| / \|K_0\|$ in the spectral norm."""
    return measurement(_kernel_drift, every=every)


def _kernel_drift(problem: Problem, every: int) -> Probe:
    kernel = pair_kernel(problem.f)

    def look(params: Any, start: Array) -> tuple[Array, Array]:
        return drift_between(start, kernel(params, problem.x, None)), start

    label = r"$\|K_t - K_0\| / \|K_0\|$"
    return Probe(look, every, label=label, memory=lambda params: kernel(params, problem.x, None))


def _writes_out(problem: Problem) -> Callable[[Any], bool]:
    def decide(params: Any) -> bool:
        return network_of(problem.f) is not None and jax.eval_shape(problem.f, params, problem.x).size <= DENSE_ROWS

    return decide
