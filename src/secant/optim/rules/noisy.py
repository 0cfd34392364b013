"""Gradient descent with added noise of any law, and SGD with amplified noise (SVAG)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from secant.core.arguments import is_traced, positive
from secant.core.types import Params
from secant.dynamics.map import Map
from secant.optim.batches import Batches, on_batches
from secant.optim.problem import Problem
from secant.optim.rules.descent import gradient_descent
from secant.optim.rules.noises import Noise

SECOND = 0x5BD1E995
"""The seed of the second of two batches differs from the seed of the first by these bits."""


class NoisyState(NamedTuple):
    """The state of gradient descent with added noise.

    Attributes:
        params: the parameters, all that a run shows of the state.
        step: steps made.
    """

    params: Params
    step: Int[Array, ""]


def noisy(loss: Callable[[Params], Float[Array, ""]], lr: Any, noise: Noise, *, seed: Any = 0) -> Map:
    r"""Gradient descent with noise of a chosen law, $\theta_{t+1} = \theta_t - \eta(\nabla L(\theta_t) + \sigma z_t)$.

    To train with the noise of real batches, pass `batches` to [`train`][secant.optim.train].

    Args:
        loss: parameters -> scalar.
        lr: the step size $\eta$.
        noise: `(key, params) -> tree`, a draw of $\sigma z_t$; [`noises`][secant.optim.noises] has several.
        seed: seed of the noise; may be an axis of a run.

    Example:
        ```python
        import numpy as np
        import secant as sc

        noise = sc.optim.noises.two_point(1.0, chance=0.1)
        run = sc.simulate(
            lambda seed: sc.optim.noisy(lambda x: x**2 / 2, 0.2, noise, seed=seed),
            0.0,
            steps=60,
            over={"seed": np.arange(4_000)},
        )
        print(abs(run.state.var() - 1 / 9) < 0.01)  # lr/(2 - lr)
        ```
        ```text
        True
        ```
    """
    lr, gradient = positive("noisy", "lr", lr), jax.grad(loss)
    if not callable(noise):
        raise TypeError(
            f"noisy: `noise` must be a function `(key, params) -> tree`, got {type(noise).__name__}. Use one of "
            "secant.optim.noises."
        )

    def init(params: Params | NoisyState) -> NoisyState:
        if isinstance(params, NoisyState):  # goes on where another run stopped
            return params
        return NoisyState(jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.result_type(leaf)), params), jnp.int32(0))

    def step(state: NoisyState) -> NoisyState:
        key = jax.random.fold_in(jax.random.key(seed), state.step)
        moved = jax.tree.map(
            lambda p, g, z: jnp.asarray(p - lr * (g + z), p.dtype),
            state.params,
            gradient(state.params),
            noise(key, state.params),
        )
        return NoisyState(moved, state.step + 1)

    return Map(init, step, shown=lambda state: state.params)


def amplifiers(amplify: Any) -> tuple[Any, Any]:
    r"""The factors of the two gradients of [`svag`][secant.optim.svag], $a, b = \frac{1 \pm \sqrt{2\ell - 1}}2$.

    They satisfy $a + b = 1$, $a^2 + b^2 = \ell$ and $a^3 + b^3 = \frac{3\ell - 1}2$.

    Args:
        amplify: $\ell$, at least 1.
    """
    amplify = positive("amplifiers", "amplify", amplify)
    if not is_traced(amplify) and amplify < 1:
        raise ValueError(f"amplifiers: `amplify` must be at least 1, got {amplify!r}.")
    root = (jnp if is_traced(amplify) else np).sqrt(2 * amplify - 1)
    return (1 + root) / 2, (1 - root) / 2


def svag(problem: Problem, batches: Batches, lr: Any, amplify: Any = 1) -> Map:
    r"""Stochastic gradient descent with amplified noise and small steps, between SGD and its differential equation.

    A step is $\theta \leftarrow \theta - \frac\eta\ell\bigl(a\,g_1 + b\,g_2\bigr)$ with
    $a, b = \frac{1 \pm \sqrt{2\ell - 1}}2$ and the gradients $g_1, g_2$ of two independent batches. The mean step is
    $\ell$ times smaller and the noise's covariance $\ell$ times larger. Every $\ell$ therefore approximates the same
    equation, $dX = -\nabla L\,dt + \sqrt{\eta/B}\,\Sigma^{1/2}dW$, and a larger $\ell$ does so better; $\ell$ steps are
    a time $\eta$. With $\ell = 1$ it is SGD. One backward pass gives the gradients of both batches.

    Args:
        problem: what to train, with a loss that averages over samples.
        batches: the first batch of every step, of a fixed size; the second batch has a seed of its own.
        lr: the step size $\eta$ of SGD.
        amplify: $\ell$, at least 1.

    Example:
        ```python
        import jax.numpy as jnp
        import secant as sc

        problem = sc.Problem(lambda w, x: x * w, jnp.array([1.0, 1.0]), jnp.array([3.0, -3.0]), sc.losses.half_mean)
        rule = lambda amplify: sc.optim.svag(problem, sc.Batches(1, replace=True), 0.2, amplify)
        run = sc.simulate(rule, 1.0, steps=40, over={"amplify": jnp.array([1.0, 4.0])}, probes={"w": lambda w: w})
        print(run.dataset.w.sizes["amplify"])
        ```
        ```text
        2
        ```
    """
    lr = positive("svag", "lr", lr)
    a, b = amplifiers(amplify)
    if batches.sampling != "fixed":
        raise ValueError("svag: `batches` must have a fixed size, got Bernoulli ones. Leave out `sampling`.")
    size = batches.size

    def loss(params: Params, x: Any, y: Any) -> Any:
        """The loss whose gradient is the amplified one."""
        halves = [
            [jax.tree.map(lambda leaf: leaf[part], tree) for tree in (x, y)]  # noqa: B023
            for part in (slice(size), slice(size, None))
        ]
        first, second = (problem.objective_on(params, *half) for half in halves)
        return a * first + b * second

    pairs = _Pairs(size, batches.seed, batches.replace)
    return on_batches(loss, problem.x, problem.y, pairs, lambda of_batch: gradient_descent(of_batch, lr / amplify))


class _Pairs(Batches):
    """Two independent batches a step, one after the other."""

    def indices(self, samples: int, step: Any) -> Int[Array, " two_sizes"]:
        self.check("Batches.indices", samples)
        keys = jnp.stack([jax.random.key(seed) for seed in (self.seed, self.seed ^ SECOND)])
        return jax.vmap(lambda key: self._drawn(key, samples, step))(keys).reshape(-1)
