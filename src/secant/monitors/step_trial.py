"""The one function that tries how large a step a model bears, whatever it is written in."""

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
    """The largest step size that the model bears, found by training copies of it for a few steps.

    Nothing that is given is changed. The step size is multiplied from outside, so that schedules keep their shape.

    Args:
        loss: `(params, batch) -> number`, or `(model, batch) -> tensor`.
        params: the parameters, or a module of PyTorch.
        batch: a batch, or a function `step -> batch`.
        optimiser: a transformation of optax or one of `secant.optimisers`, or one of `torch.optim` over the module.
        steps: of a run; at least 20.
        progress: told what is going on, in a line a run.

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
    """Whether parameters are a module of PyTorch, which need not be there to ask."""
    return hasattr(params, "named_parameters") and hasattr(params, "state_dict")
