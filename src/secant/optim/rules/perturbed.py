"""Perturbed gradient descent, whose random pushes leave saddle points."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int

from secant.core.arguments import at_least_zero, positive, whole
from secant.core.types import Params
from secant.dynamics.map import Map


class PerturbedState(NamedTuple):
    """The state of perturbed gradient descent.

    Attributes:
        params: the parameters, all that a run shows of the state.
        step: steps made.
        since: steps made since the last push.
    """

    params: Params
    step: Int[Array, ""]
    since: Int[Array, ""]


def perturbed(
    loss: Callable[[Params], Float[Array, ""]],
    lr: Any,
    radius: Any,
    *,
    below: Any = None,
    wait: Any = None,
    seed: Any = 0,
) -> Map:
    r"""Gradient descent with random pushes, which leaves saddle points.

    Without `below` and `wait` every step has noise, $\theta_{t+1} = \theta_t - \eta(\nabla L(\theta_t) + \xi_t)$ with
    $\xi_t \sim N(0, \frac{r^2}dI)$, so that $\mathbb E|\xi_t|^2 = r^2$. A step costs one gradient of `loss`.

    With `below` and `wait` the noise is rare. Where $|\nabla L(\theta_t)| \le \epsilon$ and the last push is more than
    $T$ steps ago, $\theta_t$ is first moved by $-\eta\xi$, $\xi$ uniform in the ball of radius $r$. Then comes a step
    of gradient descent. A step costs two gradients.

    Args:
        loss: parameters -> scalar.
        lr: the step size $\eta$.
        radius: $r$, the size of the noise in units of the gradient; a push moves the parameters by up to $\eta r$.
        below: $\epsilon$, the gradient norm up to which there is a push.
        wait: $T$, the steps without a push after each push.
        seed: seed of the noise; may be an axis of a run.

    Example:
        ```python
        import jax.numpy as jnp
        import secant as sc

        saddle = lambda w: w[0] ** 2 / 2 - w[1] ** 2 / 2 + w[1] ** 4 / 4
        rule = sc.optim.perturbed(saddle, 0.1, 1e-3, below=1e-3, wait=200)
        still = sc.simulate(sc.gradient_descent(saddle, 0.1), jnp.zeros(2), steps=150).state
        moved = sc.simulate(rule, jnp.zeros(2), steps=150).state
        print(float(saddle(still)), round(float(saddle(moved)), 3))
        ```
        ```text
        0.0 -0.25
        ```
    """
    if (below is None) != (wait is None):
        missing = "below" if below is None else "wait"
        raise TypeError(f"perturbed: `{missing}` is missing. For rare pushes give `below` and `wait`, else neither.")
    lr, radius = positive("perturbed", "lr", lr), at_least_zero("perturbed", "radius", radius)
    if below is not None:
        below, wait = at_least_zero("perturbed", "below", below), whole("perturbed", "wait", wait, 0)
    gradient = jax.grad(loss)

    def init(params: Params | PerturbedState) -> PerturbedState:
        if isinstance(params, PerturbedState):  # goes on where another run stopped
            return params
        never = jnp.asarray(jnp.iinfo(jnp.int32).max // 2, jnp.int32)
        return PerturbedState(jax.tree.map(jnp.asarray, params), jnp.int32(0), never)

    def moved(params: Params, push: Params) -> Params:
        return jax.tree.map(lambda p, v: jnp.asarray(p - lr * v, p.dtype), params, push)

    def noisy(state: PerturbedState) -> PerturbedState:
        flat, unravel = ravel_pytree(state.params)
        noise = radius / math.sqrt(flat.size) * jax.random.normal(_key(seed, state.step), flat.shape, flat.dtype)
        push = jax.tree.map(jnp.add, gradient(state.params), unravel(noise))
        return PerturbedState(moved(state.params, push), state.step + 1, jnp.int32(1))

    def rare(state: PerturbedState) -> PerturbedState:
        flat, unravel = ravel_pytree(state.params)
        still = jnp.linalg.norm(ravel_pytree(gradient(state.params))[0]) <= below
        now = still & (state.since > wait)
        noise = jnp.where(now, radius, 0.0) * _in_ball(_key(seed, state.step), flat)
        params = moved(state.params, unravel(jnp.asarray(noise, flat.dtype)))
        return PerturbedState(moved(params, gradient(params)), state.step + 1, jnp.where(now, 1, state.since + 1))

    return Map(init, noisy if below is None else rare, shown=lambda state: state.params)


def _key(seed: Any, step: Array) -> Any:
    return jax.random.fold_in(jax.random.key(seed), step)


def _in_ball(key: Any, like: Array) -> Array:
    """A uniform random point in the unit ball."""
    for_direction, for_length = jax.random.split(key)
    normal = jax.random.normal(for_direction, like.shape, like.dtype)
    length = jax.random.uniform(for_length, (), like.dtype) ** (1 / like.size)
    return length * normal / jnp.linalg.norm(normal)
