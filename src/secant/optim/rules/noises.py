r"""Laws of gradient noise: what a gradient oracle adds to $\nabla L(\theta)$, for [`noisy`][secant.optim.noisy].

Each constructor makes a function `(key, params) -> tree`, one draw of $\sigma z$ with mean zero. For losses that
average over samples, $\Sigma(\theta) = \frac1n\sum_i(g_i - \bar g)(g_i - \bar g)^\top$ is the covariance of per-sample
gradients. A batch of $B$ independent samples then has noise of covariance $\Sigma/B$, which means $\sigma = 1/\sqrt B$.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.flatten_util import ravel_pytree

from secant.core.arguments import at_least_zero, share, whole
from secant.core.types import Params
from secant.optim.batches import sample_losses
from secant.optim.problem import Problem

Noise = Callable[[Any, Params], Params]
"""`(key, params) -> tree`, a draw of the noise at these parameters."""

BLOCK = 64
"""How many samples' gradients are held at a time."""


def isotropic(scale: Any) -> Noise:
    r"""Isotropic Gaussian noise, $\sigma z$ with $z \sim N(0, I)$.

    Args:
        scale: $\sigma$ of every entry.
    """
    scale = at_least_zero("isotropic", "scale", scale)
    return _entries(scale, jax.random.normal)


def two_point(scale: Any, chance: Any = 0.1) -> Noise:
    r"""Skewed noise $\sigma z$: an entry of $z$ is $\sqrt{(1 - p)/p}$ with chance $p$, else $-\sqrt{p/(1 - p)}$.

    The entries of $z$ have mean 0 and variance 1. Their third moment, $(1 - 2p)/\sqrt{p(1 - p)}$, is $8/3$ at
    $p = 1/10$.

    Args:
        scale: $\sigma$ of every entry.
        chance: $p$, the chance of the first value.
    """
    scale, p = at_least_zero("two_point", "scale", scale), share("two_point", "chance", chance)

    def draw(key: Any, shape: tuple[int, ...], dtype: Any) -> Any:
        rare = jax.random.bernoulli(key, p, shape)
        return jnp.where(rare, jnp.sqrt((1 - p) / p), -jnp.sqrt(p / (1 - p))).astype(dtype)

    return _entries(scale, draw)


def student(scale: Any, freedom: float = 3.0) -> Noise:
    r"""Noise with heavy tails, $\sigma z$: entries of $z$ have Student's distribution, scaled to standard deviation 1.

    With $\nu$ degrees of freedom, moments of order $\nu$ and higher are infinite.

    Args:
        scale: $\sigma$ of every entry.
        freedom: $\nu$, above 2 so that the variance is finite.
    """
    scale, freedom = at_least_zero("student", "scale", scale), at_least_zero("student", "freedom", freedom)
    if not freedom > 2:
        raise ValueError(f"student: `freedom` must be above 2, where the variance is finite, got {freedom!r}.")
    spread = math.sqrt(freedom / (freedom - 2))
    return _entries(scale, lambda key, shape, dtype: jax.random.t(key, freedom, shape, dtype) / spread)


def gaussian(problem: Problem, batch: int) -> Noise:
    r"""Gaussian noise with the covariance of a batch of independent samples, $N(0, \Sigma(\theta)/B)$.

    A draw costs one gradient, that of $\frac1{\sqrt{nB}}\sum_i(\xi_i - \bar\xi)\,\ell_i(\theta)$ with
    $\xi \sim N(0, I_n)$. No covariance is formed and no root taken.

    Args:
        problem: what is trained, with a loss that averages over samples.
        batch: $B$, at most the samples.
    """
    samples = _samples("gaussian", problem, batch)

    def draw(key: Any, params: Params) -> Params:
        return _gaussian(key, params, problem, samples, batch)

    return draw


def matched(problem: Problem, batch: int) -> Noise:
    r"""Isotropic noise with the total size of a batch's noise, $N(0, \frac{\operatorname{tr}\Sigma(\theta)}{BP}I)$.

    A draw costs the gradients of all samples, computed some at a time.

    Args:
        problem: what is trained, with a loss that averages over samples.
        batch: $B$, at most the samples.
    """
    samples = _samples("matched", problem, batch)

    def squares(params: Params, x: Any, y: Any) -> Any:
        gradient = jax.grad(lambda p: problem.objective_on(p, *(jax.tree.map(lambda a: a[None], t) for t in (x, y))))
        flat = ravel_pytree(gradient(params))[0]
        return flat @ flat

    def draw(key: Any, params: Params) -> Params:
        each = lax.map(lambda row: squares(params, *row), (problem.x, problem.y), batch_size=min(BLOCK, samples))
        mean = ravel_pytree(jax.grad(problem.objective)(params))[0]
        trace = jnp.maximum(each.mean() - mean @ mean, 0.0)
        return _entries(jnp.sqrt(trace / (batch * mean.size)), jax.random.normal)(key, params)

    return draw


def _entries(scale: Any, draw: Callable[..., Any]) -> Noise:
    """Independent entries."""

    def drawn(key: Any, params: Params) -> Params:
        flat, back = ravel_pytree(params)
        return back(jnp.asarray(scale * draw(key, flat.shape, flat.dtype), flat.dtype))

    return drawn


def _gaussian(key: Any, params: Params, problem: Problem, samples: int, batch: int) -> Params:
    xi = jax.random.normal(key, (samples,), jnp.result_type(float, *jax.tree.leaves(params)))
    weights = (xi - xi.mean()) / math.sqrt(samples * batch)
    return jax.grad(lambda p: weights @ sample_losses(problem.objective_on, p, problem.x, problem.y))(params)


def _samples(caller: str, problem: Problem, batch: int) -> int:
    """The number of samples. A batch that exceeds it is an error."""
    samples = len(jax.tree.leaves(problem.x)[0])
    if whole(caller, "batch", batch, 1) > samples:
        raise ValueError(
            f"{caller}: `batch` is larger than the data, {batch} of {samples} samples. Take at most {samples}."
        )
    return samples
