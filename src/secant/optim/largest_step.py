r"""The largest step size from which gradient descent comes back: a search by trial runs, and an estimate without runs.

Above $2/\lambda_{\max}$ the loss rises at first. Up to some $\eta_{\max}$ the curvature then falls below $2/\eta$ and
the loss comes down again: the catapult. Beyond $\eta_{\max}$ the loss diverges.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from secant.core.device import jit, to_device
from secant.core.types import Params
from secant.curvature.operators import second_derivative
from secant.curvature.tangent.tangent_kernel import kernel_matrix, ntk
from secant.dynamics.stop import Outcome, Stop
from secant.linalg.stochastic import spectral_measure
from secant.losses import Loss as SquaredLoss
from secant.optim.problem import Problem
from secant.optim.training import train
from secant.theory.regression.one_mode_border import largest_step

BLOWN_UP = 1e8
"""A loss beyond this many times its start has diverged: catapults of networks of any usual width stay lower."""

WRITTEN_OUT = 512
"""Up to this many outputs the tangent kernel is written out: its eigenvectors cost less than compiling a search."""


class Border(NamedTuple):
    """Where gradient descent begins to diverge.

    Attributes:
        stable: the largest step size below the first divergent one that was tried.
        divergent: the first divergent step size, or infinity if no run diverged.
        curvature: the largest eigenvalue of the tangent kernel at the start, in units of the loss.
    """

    stable: float
    divergent: float
    curvature: float

    @property
    def rescaled(self) -> float:
        r"""The maximal step $\eta_{\max}\lambda$, taken halfway between `stable` and `divergent`."""
        return (self.stable + self.divergent) / 2 * self.curvature


class BorderEstimate(NamedTuple):
    r"""The maximal step size, estimated from the top direction of the tangent kernel alone.

    Attributes:
        lr: the estimate, from the quadratic model along that direction.
        four: $4/\lambda$, the maximal step size of a model with opposite curvatures and target zero.
        curvature: $\lambda$, the largest eigenvalue of the tangent kernel, in units of the loss.
        spectrum: quadrature nodes of the second derivative along the direction.
        weights: how the squared gradient is spread over the nodes; they sum to one.
        residual: the residual along the direction.
    """

    lr: float
    four: float
    curvature: float
    spectrum: np.ndarray
    weights: np.ndarray
    residual: float


def find_max_lr(
    problem: Problem,
    params: Params | None = None,
    *,
    between: tuple[float, float] = (2.0, 16.0),
    points: int = 15,
    rounds: int = 3,
    steps: int = 400,
) -> Border:
    r"""The maximal step size, found by trial: a grid of runs, refined around the first run that diverges.

    A run that is still bounded after `steps` counts as stable. A run whose loss exceeds $10^8$ times its start counts
    as divergent. All step sizes of a round run side by side.

    Args:
        problem: what is trained; with a squared loss.
        params: where training starts; by default at the parameters of the problem's model.
        between: the range of $\eta\lambda$, with $\lambda$ the largest eigenvalue of the tangent kernel at the start.
        points: step sizes a round.
        rounds: each narrows the range by the factor `points`.
        steps: length of each run.

    Example:
        ```python
        import jax
        import secant as sc

        task = sc.data.load("digits", classes=(0, 1), samples=8, test_samples=1)
        net = sc.nets.mlp([64], activation="relu")
        problem = sc.Problem(net.apply, *task.train, sc.losses.half_sum)
        params = net.init(jax.random.key(0), task.train.x.shape)
        found = sc.find_max_lr(problem, params, points=8, rounds=2, steps=100)
        guess = sc.estimate_max_lr(problem, params)
        found.rescaled, guess.lr * guess.curvature
        ```
    """
    low, high = between
    if not 0 < low < high:
        raise ValueError(f"find_max_lr: `between` must be two increasing positive numbers, got {between}.")
    if points < 2 or rounds < 1:
        raise ValueError(f"find_max_lr: `points` must be at least 2, `rounds` at least 1, got {points} and {rounds}.")
    params = problem.start("find_max_lr", params)
    _, curvature = _top(problem, params, "find_max_lr")
    ceiling = BLOWN_UP * jit(problem.objective, quick=True)(params)
    stop = Stop(diverged=lambda p: problem.objective(p) > ceiling, every=10)
    border = Border(low / curvature, float("inf"), curvature)
    for _ in range(rounds):
        grid = np.linspace(low, high, points + 1)[1:]
        run = train(problem, params, over={"lr": jnp.asarray(grid / curvature)}, steps=steps, stop=stop, reduce=False)
        lost = run.dataset.outcome.values == Outcome.DIVERGED
        if not lost.any():
            return border._replace(stable=high / curvature)
        first = int(np.argmax(lost))
        low, high = (float(grid[first - 1]) if first else low), float(grid[first])
        border = Border(low / curvature, high / curvature, curvature)
    return border


def estimate_max_lr(
    problem: Problem, params: Params | None = None, *, degree: int = 12, steps: int = 1_000
) -> BorderEstimate:
    r"""An estimate of the maximal step size without a training run.

    The estimate keeps one direction $v_1$, the top eigenvector of the tangent kernel. From the second derivative it
    keeps the slice $Q_1 = v_1\cdot\partial^2z/\partial\theta^2$, as far as the gradient $J^\top v_1$ feels it: Lanczos'
    method gives the spectral measure. [`largest_step`][secant.theory.regression.one_mode_border.largest_step] then
    finds the border of a model of `degree` numbers. For one sample and a quadratic model the estimate is exact up to
    the quadrature. Otherwise it neglects how directions act on each other, and all higher derivatives.

    Args:
        problem: what is trained; with a squared loss.
        params: where training starts; by default at the parameters of the problem's model.
        degree: nodes of the quadrature; each costs one second-derivative product.
        steps: steps of the small model.
    """
    params = problem.start("estimate_max_lr", params)
    vector, curvature = _top(problem, params, "estimate_max_lr")

    @jax.jit
    def along(params: Params) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
        outputs, pull = jax.vjp(lambda p: problem.f(p, problem.x), params)
        slope, _ = ravel_pytree(pull(vector)[0])
        operator = second_derivative(problem.f, params, problem.x, vector)
        nodes, weights = spectral_measure(operator.flat_product(), slope, min(degree, slope.size))
        scale = jnp.sqrt(problem.loss.curvature(outputs))  # type: ignore[attr-defined]
        return scale, jnp.vdot(vector, outputs - problem.y), nodes, weights

    scale, residual, nodes, weights = (np.asarray(part) for part in along(params))
    lr = largest_step(float(scale * residual), scale * nodes, curvature * weights, steps=steps)
    return BorderEstimate(lr, 4 / curvature, curvature, scale * nodes, weights, float(scale * residual))


def _top(problem: Problem, params: Params, caller: str) -> tuple[jax.Array, float]:
    """Top eigenvector of the tangent kernel, in the shape of the outputs, and its eigenvalue in units of the loss."""
    problem.check(caller, params)
    if not isinstance(problem.loss, SquaredLoss) or problem.loss.weight is None:
        raise ValueError(f"{caller}: `loss` of the problem must be one of the squared losses of secant.losses.")
    outputs = jit(problem.f, quick=True)(params, problem.x)
    if not np.isfinite(outputs).all():
        raise ValueError(f"{caller}: the outputs at `params` are not all finite. Start from other parameters.")
    scale = problem.loss.curvature(outputs)
    if outputs.size <= WRITTEN_OUT:
        values, vectors = np.linalg.eigh(np.asarray(kernel_matrix(problem.f, params, problem.x)))
        vector, value = vectors[:, -1], values[-1]
    else:
        top = ntk(problem.f, params, problem.x).top(1, tol=1e-6)
        vector, value = np.asarray(top.vectors)[0], np.asarray(top.values)[0]
    if not value > 0:
        raise ValueError(f"{caller}: the tangent kernel at `params` is zero: no step moves the outputs. Start anew.")
    return to_device(vector.astype(outputs.dtype).reshape(outputs.shape)), float(scale * value)


__all__ = ["Border", "BorderEstimate", "estimate_max_lr", "find_max_lr"]
