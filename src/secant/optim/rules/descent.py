"""Gradient descent as a Map, and the vector field of gradient flow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jaxtyping import Array, Float

from secant.core.types import Params
from secant.dynamics.map import Map


def gradient_descent(loss: Callable[[Params], Float[Array, ""]], lr: Any) -> Map:
    r"""Full-batch gradient descent, $\theta_{t+1} = \theta_t - \eta \nabla L(\theta_t)$.

    One step costs one gradient of `loss`; the state is the parameters themselves.

    Args:
        loss: parameters -> scalar.
        lr: the step size $\eta$.

    Example:
        ```python
        import secant as sc

        parabola = sc.gradient_descent(lambda x: x**2 / 2, lr=0.5)
        run = sc.simulate(parabola, 1.0, steps=3, probes={"x": lambda x: x})
        run.dataset.x.values  # 1, 0.5, 0.25, 0.125
        ```
    """
    gradient = jax.grad(loss)

    def step(params: Params) -> Params:
        return jax.tree.map(lambda p, g: p - lr * g, params, gradient(params))

    return Map(init=lambda params: params, step=step)


def gradient_field(loss: Callable[[Params], Float[Array, ""]], rate: Any = 1.0) -> Callable[[Params], Params]:
    r"""The vector field of gradient flow, $\dot\theta = -\eta \nabla L(\theta)$, for [`flow`][secant.dynamics.flow]."""
    gradient = jax.grad(loss)

    def field(params: Params) -> Params:
        return jax.tree.map(lambda g: -rate * g, gradient(params))

    return field
