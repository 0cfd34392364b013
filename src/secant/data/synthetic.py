r"""Synthetic targets whose important directions are known.

For $x \sim N(0, I_d)$ the expected gradient outer product $G^* = \mathbb{E}\,\nabla f^*(x)\,\nabla f^*(x)^\top$
says which directions a model has to find.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from secant.data.task import Split, Task


@dataclass(frozen=True)
class Target:
    r"""A target function of Gaussian inputs.

    Attributes:
        name: what it is called.
        function: one input of shape `(d,)` to a scalar.
        egop: `d` to the expected gradient outer product, shape `(d, d)`, in closed form.
        variance: $\operatorname{Var} f^*(x)$, where it is known in closed form for every `d`.
        least_dim: smallest input dimension it makes sense in.
    """

    name: str
    function: Callable[[Float[Array, "d"]], Float[Array, ""]]
    egop: Callable[[int], np.ndarray]
    variance: float | None
    least_dim: int


def _rank_3(x: Float[Array, "d"]) -> Float[Array, ""]:
    return x[0] * x[1] * x[:10].sum()


def _rank_3_egop(dim: int) -> np.ndarray:
    matrix = np.zeros((dim, dim))
    matrix[:10, :10] = 1.0
    matrix[:2, 2:10] = matrix[2:10, :2] = 2.0
    matrix[:2, :2] = [[15.0, 5.0], [5.0, 15.0]]
    return matrix


def _staircase(x: Float[Array, "d"]) -> Float[Array, ""]:
    return jnp.cumprod(x[:4]).sum()


def _diagonal(*entries: float) -> Callable[[int], np.ndarray]:
    return lambda dim: np.diag(np.pad(np.array(entries), (0, dim - len(entries))))


TARGETS = {
    target.name: target
    for target in (
        Target("rank-2", lambda x: x[0] * x[1], _diagonal(1.0, 1.0), 1.0, 2),
        Target("rank-3", _rank_3, _rank_3_egop, 14.0, 10),
        Target("rank-4", _staircase, _diagonal(4.0, 3.0, 2.0, 1.0), 4.0, 4),
        Target(
            "full-rank",
            lambda x: jnp.linalg.norm(x) / jnp.sqrt(x.size),
            lambda dim: np.eye(dim) / dim**2,
            None,
            1,
        ),
    )
}
"""Products of two inputs, of three (one a sum of ten), a staircase of four, and the norm."""


def regression(
    target: str, key: PRNGKeyArray, *, samples: int, test_samples: int, dim: int = 100, noise: float = 0.1
) -> Task:
    r"""Gaussian inputs and noisy values of a target, $y = f^*(x) + \epsilon$, $\epsilon \sim N(0, \text{noise}^2)$.

    Args:
        target: one of `TARGETS`.
        key: randomness.
        samples: how many training samples.
        test_samples: how many test samples; they carry noise too.
        dim: input dimension $d$.
        noise: standard deviation of the noise.

    Example:
        ```python
        import jax
        import secant as sc

        task = sc.data.regression("rank-2", jax.random.key(0), samples=128, test_samples=64)
        sc.data.TARGETS["rank-2"].egop(100)  # diag(1, 1, 0, ...)
        ```
    """
    if target not in TARGETS:
        raise ValueError(f"regression: unknown target {target!r}. There are {', '.join(TARGETS)}.")
    chosen = TARGETS[target]
    if dim < chosen.least_dim:
        raise ValueError(f"regression: {target!r} needs `dim` of at least {chosen.least_dim}, got {dim}.")
    if samples < 1 or test_samples < 1:
        raise ValueError(f"regression: needs at least one sample of each, got {samples} and {test_samples}.")
    splits: list[Split] = []
    for part, count in zip(jax.random.split(key), (samples, test_samples), strict=True):
        of_x, of_noise = jax.random.split(part)
        x = jax.random.normal(of_x, (count, dim))
        y = jax.vmap(chosen.function)(x) + noise * jax.random.normal(of_noise, (count,))
        splits.append(Split(np.asarray(x), np.asarray(y)))
    recipe = {"data": target, "samples": samples, "test_samples": test_samples, "dim": dim, "noise": noise}
    return Task(splits[0], splits[1], recipe)


def two_clusters(key: PRNGKeyArray, *, samples: int = 128, centre: float = 2.0) -> Split:
    r"""Scalars $x \sim N(\pm c, 1)$ with labels $\pm 1$, half of each, as a column of inputs."""
    if samples < 2 or samples % 2:
        raise ValueError(f"two_clusters: `samples` must be even and at least 2, got {samples}.")
    y = jnp.repeat(jnp.array([1.0, -1.0]), samples // 2)
    return Split(np.asarray(centre * y + jax.random.normal(key, (samples,)))[:, None], np.asarray(y))
