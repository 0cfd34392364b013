r"""What to measure along a training run. Each function here makes a measurement for [`train`][secant.dynamics.train].

Eigenvalues are followed: each measurement starts from the eigenvectors of the last one and stops by a residual
tolerance, so that after small steps a few products are enough. It records the values, and beside them `_residual`,
the distance within which there is sure to be an eigenvalue, `_error`, the estimated error, and `_products`, the cost.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from secant.curvature.checks import Params
from secant.curvature.critical import kernel_critical_lr
from secant.curvature.directions import kernel_drift as drift_between
from secant.curvature.operators import hessian
from secant.curvature.signals import network_of
from secant.curvature.tangent_kernel import ntk, pair_kernel
from secant.dynamics.arguments import whole
from secant.dynamics.batches import Batches, BatchState, params_of
from secant.dynamics.modes import leading_mode_probe
from secant.dynamics.optimiser import Optimiser, OptimiserState
from secant.dynamics.probes import Probe
from secant.dynamics.problem import Problem
from secant.features.agop import agop_of
from secant.features.alignment import alignment as matrix_alignment
from secant.linalg import Operator, Ritz, block_lanczos
from secant.losses import Loss as SquaredLoss
from secant.losses import get as get_loss

DENSE_ROWS = 2048
"""The largest tangent kernel that is written out at every measurement."""


@dataclass(frozen=True)
class Measurement:
    """Something to record along a training run.

    Attributes:
        make: `(problem, **options) -> Probe`.
        options: what `make` is given.
        inputs: whether it looks at derivatives by the input, and so needs all of its features.
    """

    make: Callable[..., Probe]
    options: tuple[tuple[str, Any], ...]
    inputs: bool = False

    def on(self, problem: Problem) -> Probe:
        """The probe that measures this on a problem; its state is the parameters."""
        return _made(self, problem)


@functools.lru_cache(maxsize=64)
def _made(measurement: Measurement, problem: Problem) -> Probe:
    return measurement.make(problem, **dict(measurement.options))


def _measurement(make: Callable[..., Probe], **options: Any) -> Measurement:
    return Measurement(make, tuple(options.items()))


def loss(*, every: int = 1) -> Measurement:
    """The training loss."""
    return _measurement(_loss, every=every)


def _loss(problem: Problem, every: int) -> Probe:
    return Probe(problem.objective, every, label="loss")


def gradient_norm(*, every: int = 1) -> Measurement:
    r"""$\|\nabla L\|$."""
    return _measurement(_gradient_norm, every=every)


def _gradient_norm(problem: Problem, every: int) -> Probe:
    gradient = jax.grad(problem.objective)
    return Probe(lambda params: jnp.linalg.norm(ravel_pytree(gradient(params))[0]), every, label=r"$\|\nabla L\|$")


def distance(*, every: int = 1) -> Measurement:
    r"""Distance from the start, $\|\theta_t - \theta_0\|$."""
    return _measurement(_distance, every=every)


def _distance(problem: Problem, every: int) -> Probe:
    def look(params: Any, start: Any) -> tuple[Array, Any]:
        difference = jax.tree.map(jnp.subtract, params, start)
        return jnp.linalg.norm(ravel_pytree(difference)[0]), start

    label = r"$\|\theta_t - \theta_0\|$"
    return Probe(look, every, label=label, memory=lambda params: jax.tree.map(jnp.copy, params))


def sharpness(k: int = 1, *, every: int = 1, tol: float = 1e-3, max_products: int = 200) -> Measurement:
    r"""The `k` largest eigenvalues of the Hessian of the loss.

    Args:
        k: how many.
        every: steps between two measurements.
        tol: estimated error relative to the largest of them.
        max_products: Hessian products a measurement may cost at most.
    """
    return _measurement(_sharpness, k=whole("sharpness", "k", k), every=every, tol=tol, max_products=max_products)


def _sharpness(problem: Problem, k: int, every: int, tol: float, max_products: int) -> Probe:
    def operator(params: Any) -> Operator:
        return hessian(problem.f, params, problem.x, problem.y, problem.loss)

    return _followed(operator, k, every, tol, max_products, r"eigenvalues of $\nabla^2 L$")


def preconditioned_sharpness(
    optimiser: Optimiser, k: int = 1, *, every: int = 1, tol: float = 1e-3, max_products: int = 200
) -> Measurement:
    r"""The `k` largest eigenvalues of $P^{-1/2}HP^{-1/2}$, the curvature as the optimiser of the run meets it.

    $P$ is the diagonal by which the step from here is divided, in a run on batches that of a step with all samples;
    without one it is the identity and this is `sharpness`. The edge of stability is at the optimiser's `threshold`.

    Args:
        optimiser: the `rule` of the run, from [`secant.optimisers`][secant.dynamics.optimisers].
        k: how many.
        every: steps between two measurements.
        tol: estimated error relative to the largest of them.
        max_products: Hessian products a measurement may cost at most.
    """
    if not isinstance(optimiser, Optimiser) or optimiser.scale is None:
        what = optimiser.name if isinstance(optimiser, Optimiser) else type(optimiser).__name__
        raise ValueError(
            f"preconditioned_sharpness: `optimiser` must know by what it divides its steps, and {what} does not say. "
            "Use a constructor of secant.optimisers, or `from_optax(..., scale=...)`."
        )
    count = whole("preconditioned_sharpness", "k", k)
    return _measurement(_preconditioned, optimiser=optimiser, k=count, every=every, tol=tol, max_products=max_products)


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

    return _followed(
        operator, k, every, tol, max_products, r"eigenvalues of $P^{-1/2}\nabla^2 L\,P^{-1/2}$", whole=True
    )


def _times(diagonal: Params, v: Params) -> Params:
    return jax.tree.map(jnp.multiply, diagonal, v)


def kernel_top(k: int = 1, *, every: int = 1, tol: float = 1e-3, max_products: int = 200) -> Measurement:
    """The `k` largest eigenvalues of the tangent kernel; the arguments are those of `sharpness`.

    Up to 2,048 samples times outputs of one of Secant's own networks the kernel is written out, which costs less
    than its products; otherwise it is only multiplied.
    """
    return _measurement(_kernel_top, k=whole("kernel_top", "k", k), every=every, tol=tol, max_products=max_products)


def _kernel_top(problem: Problem, k: int, every: int, tol: float, max_products: int) -> Probe:
    written_out = _writes_out(problem)

    def operator(params: Any) -> Operator:
        if not written_out(params):
            return ntk(problem.f, params, problem.x)
        matrix = pair_kernel(problem.f)(params, problem.x, None)
        space = jax.ShapeDtypeStruct(matrix.shape[:1], matrix.dtype)
        return Operator(lambda data: lambda v: data @ v, matrix, space, space)

    return _followed(operator, k, every, tol, max_products, "eigenvalues of the tangent kernel")


def leading_mode(
    k: int = 2, *, every: int = 1, tol: float = 1e-4, max_products: int = 400, above: float = 0.0, bend: bool = True
) -> Measurement:
    r"""The mode of the tangent kernel that meets the edge of stability, for a squared loss.

    Everything is in units in which the loss is $\frac12|z|^2$, so that the edge is at $2/\eta$: the `k` largest
    eigenvalues of $JJ^\top$, and for the mode that is the largest at the first look and is then followed by the overlap
    of its eigenvectors, `_followed`, its eigenvalue; `_along`, the residual $z_1$ along it; `_overlap` with the last
    look; and `_bend`, $Q_1(w, w)$ with $w = J^\top v_1z_1$: in a step $z_1$ changes by $-\eta\lambda_1z_1$ and, by
    itself, by $\frac12\eta^2Q_1(w, w)$.

    Args:
        k: how many eigenvalues; with at least two a crossing is seen.
        every: steps between two measurements.
        tol: estimated error relative to the largest eigenvalue.
        max_products: kernel products a measurement may cost at most.
        above: the largest mode is followed from the first look on at which its eigenvalue is above this: on the way
            to the edge another may be the largest. Until then every look takes it anew, and `_overlap` is 0.
        bend: whether to measure `_bend`, which takes a second derivative.
    """
    return _measurement(
        leading_mode_probe,
        k=whole("leading_mode", "k", k),
        every=every,
        tol=tol,
        max_products=max_products,
        above=above,
        bend=bend,
    )


def loss_within(s: int = 1, *, every: int = 1) -> Measurement:
    r"""The squared loss in the first `s` eigendirections of the current tangent kernel, and in all `_others`."""
    return _measurement(_loss_within, s=whole("loss_within", "s", s), every=every)


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
    return _measurement(_kernel_drift, every=every)


def _kernel_drift(problem: Problem, every: int) -> Probe:
    kernel = pair_kernel(problem.f)

    def look(params: Any, start: Array) -> tuple[Array, Array]:
        return drift_between(start, kernel(params, problem.x, None)), start

    label = r"$\|K_t - K_0\| / \|K_0\|$"
    return Probe(look, every, label=label, memory=lambda params: kernel(params, problem.x, None))


def batch_critical_lr(batches: Batches, *, every: int = 1) -> Measurement:
    r"""The critical step size of the batch that the next step sees, $2/(c_b\,\lambda_{\max}(K_b))$.

    For the mean squared error, $b/\lambda_{\max}(K_b)$. A kernel of $b$ samples is small: at every step it costs about
    as much as the step.

    Args:
        batches: those of the run.
        every: steps between two measurements.
    """
    return _measurement(_batch_critical, batches=_batches("batch_critical_lr", batches), every=every)


def _batch_critical(problem: Problem, batches: Batches, every: int) -> Probe:
    critical = kernel_critical_lr(problem.f, get_loss(problem.loss))

    def look(state: BatchState) -> Array:
        rows = _rows("batch_critical_lr", problem, batches, state)
        return critical(params_of(state), problem.x[rows])

    return Probe(look, every, label=r"$\eta_{\mathrm{crit}}$ of the batch", whole=True)


def batch_loss(batches: Batches, *, every: int = 1) -> Measurement:
    """The loss of the batch that the next step sees, for a pass forward through that batch.

    Args:
        batches: those of the run.
        every: steps between two measurements.
    """
    return _measurement(_batch_loss, batches=_batches("batch_loss", batches), every=every)


def _batch_loss(problem: Problem, batches: Batches, every: int) -> Probe:
    def look(state: BatchState) -> Array:
        rows = _rows("batch_loss", problem, batches, state)
        inputs, targets = (jax.tree.map(lambda leaf: leaf[rows], part) for part in (problem.x, problem.y))
        return problem.objective_on(params_of(state), inputs, targets)

    return Probe(look, every, label="loss of the batch", whole=True)


def _batches(caller: str, batches: Any) -> Batches:
    if not isinstance(batches, Batches):
        raise TypeError(f"measure.{caller}: `batches` must be secant.Batches, got {type(batches).__name__}.")
    return batches


def _rows(caller: str, problem: Problem, batches: Batches, state: Any) -> Array:
    if not isinstance(state, BatchState):
        raise ValueError(f"measure.{caller}: there are batches in a run on batches only; pass them too.")
    return batches.indices(len(jax.tree.leaves(problem.x)[0]), state.step)


def alignment(target: Any, *, every: int = 1) -> Measurement:
    r"""The cosine of the average gradient outer product over the training inputs and a target matrix.

    Args:
        target: shape `(d, d)`, such as `secant.data.TARGETS["rank-2"].egop(d)`, or the outer product of a better model.
        every: steps between two measurements.
    """
    given = np.asarray(target, float)
    if given.ndim != 2 or given.shape[0] != given.shape[1]:
        raise ValueError(f"measure.alignment: `target` must be a matrix of shape (d, d), got shape {given.shape}.")
    if not np.isfinite(given).all() or not given.any():
        raise ValueError("measure.alignment: `target` must be finite and not zero; a zero matrix has no direction.")
    options = ("target", _Matrix(given.tobytes(), len(given))), ("every", every)
    return Measurement(_alignment, options, inputs=True)


class _Matrix(NamedTuple):
    """A matrix that can be compared and looked up."""

    content: bytes
    size: int


def _alignment(problem: Problem, target: _Matrix, every: int) -> Probe:
    matrix, found = np.frombuffer(target.content).reshape(target.size, target.size), agop_of(problem.f)
    if problem.x.ndim < 2 or problem.x[0].size != target.size:
        raise ValueError(
            f"measure.alignment: `target` has {target.size} features and the inputs have {problem.x[0].size}."
        )
    return Probe(lambda params: matrix_alignment(found(params, problem.x), matrix), every, label="alignment")


def _followed(
    operator: Callable[[Any], Operator],
    k: int,
    every: int,
    tol: float,
    max_products: int,
    label: str,
    whole: bool = False,
) -> Probe:
    """Leading eigenvalues of an operator that moves with the parameters, from the eigenvectors of the last look."""

    def look(params: Any, vectors: Array) -> tuple[dict[str, Array], Array]:
        at = operator(params)
        found: Ritz = block_lanczos(at.flat_product(), vectors, k, tol=tol, max_products=max_products)
        # A run that blows up leaves no eigenvectors behind: the next look starts from the old ones.
        usable = jnp.all(jnp.isfinite(found.vectors))
        record = {
            "value": found.values,
            "residual": found.residuals,
            "error": found.errors,
            "products": found.products,
        }
        return record, jnp.where(usable, found.vectors, vectors)

    def memory(params: Any) -> Array:
        at = jax.eval_shape(lambda p: jnp.zeros(operator(p).shape[0], operator(p).dtype), params)
        return jax.random.normal(jax.random.key(0), (min(k, at.shape[0]), at.shape[0]), at.dtype)

    return Probe(look, every, label=label, dims=("mode",), memory=memory, whole=whole)


def _writes_out(problem: Problem) -> Callable[[Any], bool]:
    def decide(params: Any) -> bool:
        return network_of(problem.f) is not None and jax.eval_shape(problem.f, params, problem.x).size <= DENSE_ROWS

    return decide


__all__ = [
    "Measurement",
    "alignment",
    "batch_critical_lr",
    "batch_loss",
    "distance",
    "gradient_norm",
    "kernel_drift",
    "kernel_top",
    "leading_mode",
    "loss",
    "loss_within",
    "preconditioned_sharpness",
    "sharpness",
]
