"""The margin along a run, and how near the weights are to a stationary point of the largest margin."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from secant.dynamics.probes import Probe
from secant.losses import margins
from secant.optim.measurement import Measurement, measurement
from secant.optim.problem import Problem


def margin(*, every: int = 1) -> Measurement:
    r"""The normalised margin $\min_i m_i/\|\theta\|^\alpha$; `_smallest` is $\min_i m_i$, and `_degree` is $\alpha$.

    The margin of a sample is $m_i = y_if_i$ with labels $\pm1$, or the output of the right class minus the largest
    other output. Euler's identity at the sample of least margin gives the degree. For a homogeneous model this is the
    degree of homogeneity.

    Args:
        every: steps between two measurements.

    Example:
        ```python
        import numpy as np
        import secant as sc

        x, y = np.array([[2.0, 1.0], [1.0, 2.0], [-3.0, -3.0]], np.float32), np.array([1, 1, -1], np.float32)
        problem = sc.Problem(lambda w, x: x @ w, x, y, sc.losses.exponential)
        seen = {"margin": sc.measure.margin(), "kkt": sc.measure.kkt()}
        run = sc.train(problem, np.array([1.0, 0.0], np.float32), lr=0.1, steps=2_000, probes=seen)
        print(f"{float(run['margin'][-1]):.2f} {float(run['margin_degree'][-1]):.2f}")
        ```
        ```text
        2.03 1.00
        ```
    """
    return measurement(_margin, every=every)


def _margin(problem: Problem, every: int) -> Probe:
    def look(params: Any) -> dict[str, Array]:
        m, along = jax.jvp(lambda p: margins(problem.f(p, problem.x), problem.y), (params,), (params,))
        least = jnp.argmin(m)
        degree = along[least] / m[least]
        return {
            "value": m[least] / jnp.linalg.norm(ravel_pytree(params)[0]) ** degree,
            "smallest": m[least],
            "degree": degree,
        }

    return Probe(look, every, label=r"$\min_i m_i/\|\theta\|^\alpha$")


def kkt(*, every: int = 1) -> Measurement:
    r"""How far the weights are from a stationary point of the margin problem, $\min\|\theta\|^2$ with $m_i \ge 1$.

    At a stationary point $\theta = \sum_i\lambda_i\nabla m_i$ with $\lambda_i \ge 0$, and $\lambda_i = 0$ if $m_i$ is
    not the least. The measurement uses the weights of the exponential loss, $p_i \propto e^{-m_i}$. It records
    $1 - \cos(\theta, \sum_ip_i\nabla m_i)$, and as `_slack` $\sum_ip_im_i/\min_im_i - 1$; both go to zero on the way.
    `_slack` is NaN until all samples are classified.

    Args:
        every: steps between two measurements.
    """
    return measurement(_kkt, every=every)


def _kkt(problem: Problem, every: int) -> Probe:
    def look(params: Any) -> dict[str, Array]:
        m, pull = jax.vjp(lambda p: margins(problem.f(p, problem.x), problem.y), params)
        p = jax.nn.softmax(-m)
        force, theta = (ravel_pytree(tree)[0] for tree in (pull(p)[0], params))
        a, b = force / jnp.linalg.norm(force), theta / jnp.linalg.norm(theta)
        least = jnp.min(m)
        # 1 - cos, computed without subtracting nearly equal numbers.
        return {
            "value": jnp.sum((a - b) ** 2) / 2,
            "slack": jnp.where(least > 0, jnp.vdot(p, m - least) / least, jnp.nan),
        }

    return Probe(look, every, label=r"$1 - \cos(\theta, \sum_i p_i\nabla m_i)$")
