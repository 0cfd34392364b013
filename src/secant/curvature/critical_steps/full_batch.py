r"""Critical step sizes: how large a step the curvature allows.

Gradient descent with step $\eta$ multiplies the part of the error along a Hessian eigenvector by $1 - \eta\lambda$, so
the loss can fall along all eigenvectors only while $\eta < 2/\lambda_{\max}$. Momentum moves this border.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from secant.core.arguments import is_traced
from secant.core.device import jit, to_device
from secant.core.memo import kept
from secant.core.types import Params
from secant.curvature.checks import (
    Function,
    finite_results,
    matching_targets,
    outputs_of,
    refuse_mixing,
    squared_curvature,
)
from secant.curvature.critical_steps.ruler import draw_ruler
from secant.curvature.operators import Loss, gauss_newton, hessian
from secant.curvature.tangent.signals import network_of
from secant.curvature.tangent.tangent_kernel import pair_kernel
from secant.linalg.norm import largest_eigenvalue
from secant.losses import Loss as SquaredLoss
from secant.models.entrance import function_of, takes_models


class CriticalStep(NamedTuple):
    r"""The largest stable step size, exactly and by the tangent kernel.

    Attributes:
        exact: the step from $\lambda_{\max}$ of the Hessian of the loss; infinite where no direction curves upwards.
        ntk: the step from $\lambda_{\max}$ of the Gauss-Newton matrix, which is $c\,\lambda_{\max}(K)$ for a squared
            loss.
        sharpness: $\lambda_{\max}(H)$.
        error: estimated error of `sharpness`.
    """

    exact: float
    ntk: float
    sharpness: float
    error: float

    @property
    def ratio(self) -> float:
        """The tangent kernel's estimate over the exact step; 1 where the network's own curvature does not matter."""
        return self.ntk / self.exact

    def plot(self, ax: Any = None, *, look: str = "light") -> Any:
        r"""Draws the step sizes on a ruler: the border, the tangent kernel's estimate, and $2/\lambda_{\max}$.

        Below the border all directions are stable. With momentum the border lies beyond $2/\lambda_{\max}$.

        Args:
            ax: the matplotlib axes to draw in; by default those of a new figure.
            look: `light` or `dark`.

        Returns:
            The axes.
        """
        return draw_ruler(self.exact, self.ntk, self.sharpness, ax, look)


def stability_factor(momentum: float = 0.0, nesterov: bool = False) -> float:
    r"""The number $s$ for which a step $\eta$ is stable on a quadratic of curvature $\lambda$ if $\eta < s/\lambda$.

    $s = 2$ for gradient descent, $2(1+\beta)$ for heavy-ball momentum
    ($v \leftarrow \beta v + g,\ \theta \leftarrow \theta - \eta v$), $2(1+\beta)/(1+2\beta)$ for Nesterov's momentum.
    """
    if not 0 <= momentum < 1:
        raise ValueError(f"critical_lr: `momentum` must be at least 0 and below 1, got {momentum}.")
    return 2 * (1 + momentum) / (1 + 2 * momentum if nesterov else 1)


@takes_models
def critical_lr(
    f: Function,
    params: Params,
    x: Any,
    y: Any,
    loss: Loss | str,
    *,
    momentum: float = 0.0,
    nesterov: bool = False,
    tol: float = 1e-4,
) -> CriticalStep:
    r"""The critical step size of gradient descent on `loss(f(params, x), y)`.

    The exact step is $\eta_{\mathrm{crit}} = 2/\lambda_{\max}(H)$. The tangent kernel's estimate is
    $2/\lambda_{\max}(J^\top \nabla^2_f L\, J)$. The loss brings its own normalisation: with $\frac12\sum$ the estimate
    is $2/\lambda_{\max}(K)$, with $\frac1n\sum$ it is $n/\lambda_{\max}(K)$.

    Args:
        f: any `f(params, x)`, or a model, which replaces `f` and `params` ([`model`][secant.models.model]).
        params: the parameters to evaluate at.
        x: inputs, one row a sample.
        y: targets.
        loss: a [`Loss`][secant.losses.Loss], its name, or any scalar function of outputs and targets.
        momentum: $\beta$ of the optimiser.
        nesterov: whether its momentum is Nesterov's.
        tol: relative error of the eigenvalues.

    Example:
        ```python
        import jax
        import secant as sc

        task = sc.data.load("digits", classes=(0, 1), samples=50)
        net = sc.nets.mlp([256], activation="tanh")
        params = net.init(jax.random.key(0), task.train.x.shape)
        step = sc.critical_lr(net.apply, params, *task.train, loss=sc.losses.mean_mse)
        step.exact, step.ntk
        ```
    """
    factor = stability_factor(momentum, nesterov)
    top = hessian(f, params, x, y, loss).top(1, tol=tol)
    flat = gauss_newton(f, params, x, y, loss).top(1, tol=tol)
    sharpness = float(top.values[0])
    return CriticalStep(
        _border(factor, sharpness), _border(factor, float(flat.values[0])), sharpness, float(top.errors[0])
    )


def _border(factor: float, curvature: float) -> float:
    return factor / curvature if curvature > 0 else float("inf")


@takes_models
def batch_critical_lr(
    f: Function,
    params: Params,
    x: Float[Array, "n ..."],
    y: Array,
    loss: SquaredLoss | str,
    batches: Int[Array, "count b"],
    *,
    momentum: float = 0.0,
    nesterov: bool = False,
) -> Float[Array, " count"]:
    r"""The tangent-kernel critical step of every batch, $s / (c_b\,\lambda_{\max}(K_b))$.

    Here $c_b$ is the curvature of the loss over $b$ samples, and $s$ is 2 without momentum. A batch kernel has only
    $bk$ rows, with $k$ outputs for each sample. The result is therefore cheap enough for every step of a run.

    Args:
        f: any `f(params, x)` that treats each sample alone.
        params: the parameters to evaluate at.
        x: all inputs.
        y: all targets; only their shape matters.
        loss: a squared [`Loss`][secant.losses.Loss], or its name.
        batches: rows of sample numbers.
        momentum: as for [`critical_lr`][secant.curvature.critical_lr].
        nesterov: as for [`critical_lr`][secant.curvature.critical_lr].
    """
    outputs = outputs_of("batch_critical_lr", f, params, x)
    matching_targets("batch_critical_lr", outputs, y)
    batches = sample_numbers("batch_critical_lr", batches, outputs.shape[0])
    c = squared_curvature("batch_critical_lr", loss, np.zeros((batches.shape[1], *outputs.shape[1:])))
    if network_of(f) is None:
        refuse_mixing("batch_critical_lr", f, params, x)
    norms = _batch_norms(f)(params, x, batches)
    finite_results("batch_critical_lr", norms)
    return stability_factor(momentum, nesterov) / (c * norms)


def kernel_critical_lr(f: Function, loss: SquaredLoss | str) -> Callable[[Params, Any], Float[Array, ""]]:
    r"""A function `(params, x) -> step` that gives the tangent-kernel critical step, $2/(c\,\lambda_{\max}(K))$.

    For the mean squared error of one output the step is $n/\lambda_{\max}(K)$. The function can be traced, mapped and
    batched. Use it as a probe of a run, or as `critical` of a [controller][secant.optim.control.below_critical]. With
    many samples, a few products with the kernel find the largest eigenvalue from below.

    Args:
        f: any `f(params, x)` that treats each sample alone.
        loss: a squared [`Loss`][secant.losses.Loss], or its name.

    Example:
        ```python
        import jax
        import secant as sc

        task = sc.data.load("digits", classes=(0, 1), samples=50)
        net = sc.nets.mlp([64], activation="tanh")
        params = net.init(jax.random.key(0), task.train.x.shape)
        critical = sc.curvature.kernel_critical_lr(net.apply, sc.losses.mean_mse)
        exact = sc.critical_lr(net.apply, params, *task.train, loss=sc.losses.mean_mse).ntk
        print(f"{float(critical(params, task.train.x)) / exact:.3f}")
        ```
        ```text
        1.000
        ```
    """
    kernel = pair_kernel(function_of("kernel_critical_lr", f)[0])

    def critical(params: Params, x: Any) -> Float[Array, ""]:
        found, samples = kernel(params, x, None), len(jax.tree.leaves(x)[0])
        c = squared_curvature("kernel_critical_lr", loss, np.zeros((samples, found.shape[0] // samples)))
        return 2 / (c * largest_eigenvalue(found))

    return jit(critical)


def sample_numbers(caller: str, batches: Any, samples: int) -> Int[Array, "count b"]:
    """The batches as rows of sample numbers. Anything else is an error."""
    batches = jnp.asarray(batches) if is_traced(batches) else np.asarray(batches)
    if batches.ndim != 2 or batches.size == 0 or not jnp.issubdtype(batches.dtype, jnp.integer):
        raise ValueError(
            f"{caller}: `batches` must be rows of sample numbers, integers of shape (batches, samples), "
            f"got {batches.dtype} of shape {batches.shape}."
        )
    if not is_traced(batches) and not ((batches >= 0) & (batches < samples)).all():
        raise ValueError(
            f"{caller}: `batches` names samples from {int(batches.min())} to {int(batches.max())}, "
            f"and `x` has samples 0 to {samples - 1}."
        )
    return to_device(batches)


@kept
def _batch_norms(f: Function) -> Callable[..., Array]:
    kernel = pair_kernel(f)

    def one(params: Params, batch: Any) -> Array:
        return jnp.linalg.eigvalsh(kernel(params, batch, None))[-1]

    def run(params: Params, x: Any, batches: Array) -> Array:
        return jax.lax.map(lambda rows: one(params, jax.tree.map(lambda a: a[rows], x)), batches)

    return jit(run)
