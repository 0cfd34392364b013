"""The critical step size of SGD for any function near interpolation: where second moments begin to grow."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from secant.core.types import Params
from secant.curvature.checks import Function, finite_results, outputs_of, squared_curvature
from secant.curvature.tangent.tangent_kernel import MEMORY, kernel_matrix
from secant.losses import Loss as SquaredLoss
from secant.models.entrance import takes_models
from secant.theory.noise import mean_square
from secant.theory.noise.mean_square import MeanSquareStep, Sampling


@takes_models
def stochastic_critical_lr(
    f: Function,
    params: Params,
    x: Any,
    *,
    batch: int,
    loss: SquaredLoss | str = "half_mean",
    sampling: Sampling = "fixed",
    tol: float = 1e-6,
    memory: int = MEMORY,
) -> MeanSquareStep:
    r"""The mean-square critical step of SGD, exactly, near parameters that fit the data.

    Below this step the second moments of the residuals shrink under the linearised dynamics with batches of `batch`
    samples; beyond it they grow. For full batches the step is $2/(c\,\lambda_{\max}(K))$, the tangent-kernel critical
    step. Small batches allow a step in proportion to their size. Between the two regimes, linear scaling of the step
    size with the batch ends. The step depends on the tangent kernel alone, not on targets. The computation works with
    $nk \times nk$ matrices ([`critical_step`][secant.theory.noise.mean_square.critical_step]).

    Args:
        f: any `f(params, x)` that treats each sample alone, or a model, which replaces `f` and `params`
            ([`model`][secant.models.model]).
        params: the parameters to evaluate at.
        x: inputs, one row a sample.
        batch: samples a batch.
        loss: the loss that SGD takes over a batch: a squared [`Loss`][secant.losses.Loss], or its name.
        sampling: `fixed` (different samples), `iid` (with replacement) or `bernoulli` (every sample by itself).
        tol: relative error of the result.
        memory: bytes that the kernel may take beside its matrix.

    Example:
        ```python
        import jax
        import secant as sc

        task = sc.data.load("digits", classes=(0, 1), samples=64)
        net = sc.nets.mlp([64], activation="tanh")
        params = net.init(jax.random.key(0), task.train.x.shape)
        steps = [sc.stochastic_critical_lr(net.apply, params, task.train.x, batch=b) for b in (1, 8, 64)]
        print([step.ratio > 0.99 for step in steps], steps[0].step < steps[1].step)
        ```
        ```text
        [False, False, True] True
        ```
    """
    outputs = outputs_of("stochastic_critical_lr", f, params, x)
    k = math.prod(outputs.shape[1:])
    mean_square.pairs(outputs.shape[0], batch, sampling)
    c = squared_curvature("stochastic_critical_lr", loss, np.zeros((batch, *outputs.shape[1:])))
    full = squared_curvature("stochastic_critical_lr", loss, np.zeros(outputs.shape))
    kernel = kernel_matrix(f, params, x, memory=memory)
    finite_results("stochastic_critical_lr", kernel)
    found = mean_square.critical_step(np.asarray(kernel, float), batch, outputs=k, sampling=sampling, tol=tol)
    # In `critical_step` the loss is the sum over a batch divided by twice its size.
    return found._replace(step=found.step / (c * batch), full=found.full / (full * outputs.shape[0]))
