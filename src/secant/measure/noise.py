"""Gradient noise along a run: its size, its shape, and the curvature that batches meet."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from secant.core.arguments import whole
from secant.core.types import Params
from secant.curvature.critical_steps.batch_sharpness import quotients
from secant.curvature.per_sample import traced_gram, weights
from secant.dynamics.probes import Probe
from secant.losses import get as get_loss
from secant.optim.measurement import Measurement, measurement
from secant.optim.problem import Problem


def gradient_noise(k: int = 5, *, every: int = 1) -> Measurement:
    r"""The covariance $\Sigma$ of per-sample gradients along a run.

    The measurement records

    - under its own name the trace of $\Sigma$;
    - as `_scale` $\mathrm{tr}\,\Sigma/|\bar g|^2$, the batch size at which the noise is as large as the gradient;
    - as `_top` the share of the largest eigenvalue in the trace;
    - as `_alignment` the cosine between $\Sigma$ and the Hessian, as matrices in the span of the $k$ leading directions
      of the noise. It is 1 if one is a multiple of the other there. Its square is the $R^2$ of the fit
      $\Sigma = \alpha H$.

    The $n \times n$ Gram matrix of all samples is written out and solved. If the function is not one of Secant's
    networks, all gradients are written out, too.

    Args:
        k: directions of the noise in which it is compared with the Hessian. Each costs a Hessian product.
        every: steps between two measurements.

    Example:
        ```python
        import jax
        import secant as sc

        task = sc.data.load("digits", classes=(0, 1), samples=40)
        net = sc.nets.mlp([16], activation="tanh")
        problem = sc.Problem(net.apply, task.train.x, task.train.y, "half_mean")
        params = net.init(jax.random.key(0), task.train.x.shape)
        run = sc.train(problem, params, lr=0.2, steps=20, probes={"noise": sc.measure.gradient_noise(every=20)})
        print(sorted(name for name in run.dataset if name.startswith("noise")))
        ```
        ```text
        ['noise', 'noise_alignment', 'noise_scale', 'noise_top']
        ```
    """
    return measurement(_gradient_noise, k=whole("measure.gradient_noise", "k", k), every=every)


def _gradient_noise(problem: Problem, k: int, every: int) -> Probe:
    loss = get_loss(problem.loss)

    def look(params: Params) -> dict[str, Array]:
        inner = traced_gram(problem.f, loss, params, problem.x, problem.y)
        n = len(inner)
        square = inner.mean()
        rows = inner.mean(1)
        centred = inner - rows[:, None] - rows[None, :] + square
        values, vectors = jnp.linalg.eigh(centred)
        # Centred gradients span at most n - 1 directions, whatever rounding makes of the last eigenvalue.
        count = min(k, max(n - 1, 1))
        values, mixes = jnp.maximum(values[::-1][:count], 0.0), vectors[:, ::-1][:, :count].T
        seen = values > n * jnp.finfo(values.dtype).eps * values[0]
        mixes = jnp.where(seen[:, None], mixes / jnp.sqrt(jnp.where(seen, values, 1.0))[:, None], 0.0)
        trace = jnp.maximum(jnp.trace(centred), 0.0) / n
        return {
            "value": trace,
            "scale": _over(trace, square),
            "top": _over(values[0] / n, trace),
            "alignment": _cosine(problem, loss, params, jnp.where(seen, values, 0.0), mixes),
        }

    return Probe(look, every, label=r"$\mathrm{tr}\,\Sigma$")


def _cosine(problem: Problem, loss: Any, params: Params, values: Array, mixes: Array) -> Array:
    """The cosine between the noise, diagonal with these values, and the Hessian, in the span of gradient mixtures."""
    outputs, pull = jax.vjp(lambda p: problem.f(p, problem.x), params)
    c = weights(loss, outputs, problem.y)
    directions = jax.vmap(lambda mix: pull(c * mix.reshape(-1, *(1,) * (c.ndim - 1)))[0])(mixes)
    bend = jax.linearize(jax.grad(problem.objective), params)[1]
    flat = jax.vmap(lambda v: ravel_pytree(v)[0])
    curvature = flat(directions) @ flat(jax.lax.map(bend, directions)).T
    return _over(values @ jnp.diag(curvature), jnp.linalg.norm(values) * jnp.linalg.norm(curvature))


def _over(a: Array, b: Array) -> Array:
    return jnp.where(b > 0, a / jnp.where(b > 0, b, 1.0), jnp.nan)


def batch_sharpness(size: int, *, draws: int = 16, seed: int = 0, every: int = 1) -> Measurement:
    r"""Batch sharpness $E_b[g_b^\top H_bg_b/|g_b|^2]$: the mean curvature of a batch along its own gradient.

    To second order, a step $\eta$ on a batch lowers the loss of that batch if the quotient is below $2/\eta$. The mean
    is taken over `draws` random batches, the same at every measurement, with its standard error as `_error`. Batches
    whose gradient is zero are left out.

    In a training loop of your own use `batch_sharpness(32).pair(f, loss)`. Its `look` takes the parameters and the data
    from which the batches are drawn ([`Measurement.pair`][secant.optim.measurement.Measurement.pair]).

    Args:
        size: samples a batch.
        draws: how many batches are drawn.
        seed: the seed of their draw.
        every: steps between two measurements.

    Example:
        ```python
        import jax
        import secant as sc

        task = sc.data.load("digits", classes=(0, 1), samples=40)
        net = sc.nets.mlp([16], activation="tanh")
        params = net.init(jax.random.key(0), task.train.x.shape)
        _, look = sc.measure.batch_sharpness(8).pair(net.apply, "half_mean")
        record, _ = jax.jit(look)(params, (task.train.x, task.train.y), None)
        print(bool(record["value"] > 0), bool(record["error"] > 0))
        ```
        ```text
        True True
        ```
    """
    whole("measure.batch_sharpness", "size", size)
    whole("measure.batch_sharpness", "draws", draws)
    whole("measure.batch_sharpness", "seed", seed, 0)
    return measurement(_batch_sharpness, size=size, draws=draws, seed=seed, every=every)


def _batch_sharpness(problem: Problem, size: int, draws: int, seed: int, every: int) -> Probe:
    loss, n = get_loss(problem.loss), len(jax.tree.leaves(problem.x)[0])
    if size > n:
        raise ValueError(
            f"measure.batch_sharpness: a batch of {size} is larger than the data, {n} samples. Take at most {n}."
        )
    random = np.random.default_rng(seed)
    count = draws if size < n else 1
    rows = np.stack([random.permutation(n)[:size] for _ in range(count)]).astype(np.int32)

    def look(params: Params) -> dict[str, Array]:
        found = quotients(problem.f, loss, params, problem.x, problem.y, jnp.asarray(rows))
        there = jnp.maximum(jnp.sum(~jnp.isnan(found)), 1)
        spread = jnp.nanstd(found) / jnp.sqrt(jnp.maximum(there - 1, 1)) if count > 1 else jnp.zeros((), found.dtype)
        return {"value": jnp.nanmean(found), "error": spread}

    return Probe(look, every, label="batch sharpness")
