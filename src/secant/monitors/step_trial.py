"""The function that finds the largest step of a model by trial runs, in JAX and in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from secant.core.arguments import whole
from secant.monitors.doctor.trial import Trial, bracketed


def largest_step(
    loss: Callable[..., Any],
    params: Any,
    batch: Any,
    optimiser: Any,
    *,
    steps: int = 200,
    progress: Callable[[str], None] = lambda text: None,
) -> Trial:
    """The largest step size at which the model does not diverge, found by training copies of it for a few steps.

    The arguments are not changed. The update is multiplied from outside, so schedules keep their shape.

    Args:
        loss: `(params, batch) -> number`, or `(model, batch) -> tensor`.
        params: the parameters, or a module of PyTorch.
        batch: a batch, or a function `step -> batch`.
        optimiser: a transformation of optax or one of `secant.optimisers`, or one of `torch.optim` over the module.
        steps: the number of steps of a run; at least 20.
        progress: called with one line for every run.

    Example:
        ```python
        import jax.numpy as jnp
        import optax
        from secant.monitors import largest_step

        found = largest_step(lambda p, x: 0.5 * jnp.sum(x * p**2), jnp.ones(2), jnp.array([4.0, 1.0]), optax.sgd(0.1))
        print(f"{found.largest:.2f} below {found.lost * found.lr:.2f}, safe {found.safe:.2f}")
        ```
        ```text
        0.50 below 0.52, safe 0.35
        ```
    """
    whole("largest_step", "steps", steps, least=20)
    if is_module(params):
        from secant.monitors.in_torch.trial import runs as in_torch

        lr, level, runs = in_torch(loss, params, batch, optimiser, steps)
    else:
        from secant.monitors.in_jax.trial import runs as in_jax

        lr, level, runs = in_jax(loss, params, batch, optimiser, steps)
    return bracketed(runs, level, lr=lr, steps=steps, progress=progress)


def is_module(params: Any) -> bool:
    """Whether parameters are a module of PyTorch; PyTorch need not be installed."""
    return hasattr(params, "named_parameters") and hasattr(params, "state_dict")
