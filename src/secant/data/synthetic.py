r"""Synthetic targets whose important directions are known.

For $x \sim N(0, I_d)$ the expected gradient outer product $G^* = \mathbb{E}\,\nabla f^*(x)\,\nabla f^*(x)^\top$
shows which directions a model has to find.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from secant.core.arguments import whole
from secant.core.device import jit
from secant.data.task import Split, Task


@dataclass(frozen=True)
class Target:
    r"""A target function of Gaussian inputs.

    Attributes:
        name: the name of the target.
        function: one input of shape `(d,)` -> scalar.
        egop: `d` -> the expected gradient outer product, shape `(d, d)`, in closed form.
        variance: $\operatorname{Var} f^*(x)$, if it is known in closed form for every `d`.
        least_dim: the smallest input dimension for which the target makes sense.
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
    target: str,
    key: PRNGKeyArray,
    *,
    samples: int,
    test_samples: int,
    validation_samples: int = 0,
    dim: int = 100,
    noise: float = 0.1,
) -> Task:
    r"""Gaussian inputs and noisy values of a target, $y = f^*(x) + \epsilon$, $\epsilon \sim N(0, \text{noise}^2)$.

    Args:
        target: one of `TARGETS`.
        key: random key.
        samples: how many training samples.
        test_samples: how many test samples; they have noise, too.
        validation_samples: how many validation samples; they have noise, too.
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
    samples = whole("regression", "samples", samples, 1)
    test_samples = whole("regression", "test_samples", test_samples, 1)
    validation_samples = whole("regression", "validation_samples", validation_samples, 0)
    if dim < chosen.least_dim:
        raise ValueError(f"regression: {target!r} needs `dim` of at least {chosen.least_dim}, got {dim}.")
    if not (noise >= 0 and np.isfinite(noise)):
        raise ValueError(f"regression: `noise` must be a standard deviation of at least 0, got {noise!r}.")

    def draw(key: PRNGKeyArray, count: int) -> Split:
        x, values, errors = map(np.asarray, _drawn(chosen.function, key, count, dim))
        return Split(x, values + noise * errors)

    of_train, of_test = jax.random.split(key)
    recipe = {
        "data": target,
        "samples": samples,
        "validation_samples": validation_samples,
        "test_samples": test_samples,
        "dim": dim,
        "noise": noise,
        "key": np.asarray(jax.random.key_data(key)).tolist(),
    }
    validation = draw(jax.random.fold_in(key, 2), validation_samples) if validation_samples else None
    return Task(draw(of_train, samples), draw(of_test, test_samples), recipe, validation)


@functools.partial(jit, static_argnums=(0, 2, 3))
def _drawn(function: Callable[[Array], Array], key: PRNGKeyArray, count: int, dim: int) -> tuple[Array, Array, Array]:
    """Inputs, a function's values there, and as many normal errors, from one program for each shape."""
    of_x, of_errors = jax.random.split(key)
    x = jax.random.normal(of_x, (count, dim))
    return x, jax.vmap(function)(x), jax.random.normal(of_errors, (count,))


def two_clusters(key: PRNGKeyArray, *, samples: int = 128, centre: float = 2.0) -> Split:
    r"""Two clusters of scalars, $x \sim N(\pm c, 1)$ with labels $\pm 1$, half of each, as a column of inputs."""
    samples = whole("two_clusters", "samples", samples, 2)
    if samples % 2:
        raise ValueError(f"two_clusters: `samples` must be even, to have as many of each sign; got {samples}.")
    y = jnp.repeat(jnp.array([1.0, -1.0]), samples // 2)
    return Split(np.asarray(centre * y + jax.random.normal(key, (samples,)))[:, None], np.asarray(y))


def sphere(key: PRNGKeyArray, *, samples: int = 100, dim: int = 100, scale: float = 2.0, which: int = 0) -> Split:
    r"""Uniform points on the unit sphere with target 1; one point is longer, in input and target.

    The inputs $x_i$ are uniform on $S^{d-1}$ and $y_i = 1$, but $x_* = s\,x$ and $y_* = s$ for one sample. A model that
    is homogeneous in its input fits the longer sample as it fits the others, but its tangent kernel there is $s^2$
    times as large. A batch of this sample alone therefore has $1/s^2$ of the others' critical step size.

    Args:
        key: random key.
        samples: how many points.
        dim: input dimension $d$.
        scale: $s$; with 1 all points are alike.
        which: the number of the longer point, counted from 0.

    Example:
        ```python
        import jax
        import numpy as np
        import secant as sc

        x, y = sc.data.sphere(jax.random.key(0), samples=5, dim=3)
        np.linalg.norm(x, axis=1), y  # both are 2, 1, 1, 1, 1
        ```
    """
    samples, dim = whole("sphere", "samples", samples, 1), whole("sphere", "dim", dim, 1)
    if not 0 <= whole("sphere", "which", which, 0) < samples:
        raise ValueError(f"sphere: `which` must be one of the {samples} samples, counted from 0; got {which}.")
    if not (scale > 0 and np.isfinite(scale)):
        raise ValueError(f"sphere: `scale` must be a positive number, got {scale!r}.")
    x = jax.random.normal(key, (samples, dim))
    length = jnp.ones(samples).at[which].set(scale)
    return Split(np.asarray(x * (length / jnp.linalg.norm(x, axis=1))[:, None]), np.asarray(length))


def single_sample(key: PRNGKeyArray, *, dim: int = 100, y: float = 0.0) -> Split:
    r"""One Gaussian input, $x \sim N(0, I_d)$, with a target of your choice: shapes `(1, dim)` and `(1,)`."""
    x = jax.random.normal(key, (1, whole("single_sample", "dim", dim, 1)))
    return Split(np.asarray(x), np.full(1, y, x.dtype))


class QuadraticSample(NamedTuple):
    r"""Data for a model quadratic in its parameters, $g_i = w^\top\phi_i + \frac{\gamma}{2} w^\top\Sigma_i w$.

    Attributes:
        features: $\phi_i$, one row a sample.
        second: $\Sigma_i$, symmetric.
        y: targets.
    """

    features: Float[Array, "n p"]
    second: Float[Array, "n p p"]
    y: Float[Array, "n"]


def quadratic_sample(key: PRNGKeyArray, *, dim: int = 100, y: float = 0.0) -> QuadraticSample:
    r"""One sample for a general quadratic model, $g = w^\top\phi + \frac{\gamma}{2} w^\top\Sigma w$.

    $\phi = x/\lVert x\rVert$ with $x \sim N(0, I_d)$, and $\Sigma = \operatorname{diag}(\pm 1)$, each sign with
    probability one half. Then $\Sigma^2 = I$. At $\gamma = 0$ the tangent kernel is 1, and the critical step size for
    the loss $\frac12 (g - y)^2$ is 2.

    Args:
        key: random key.
        dim: $d$, here also the number of parameters.
        y: target.

    Example:
        ```python
        import jax
        import secant as sc
        from secant.theory.regression.quadratic_model import quadratic_output

        features, second, y = sc.data.quadratic_sample(jax.random.key(0))
        w = jax.random.normal(jax.random.key(1), (100,))
        quadratic_output(w, features, second, gamma=1e-3)  # shape (1,)
        ```
    """
    of_x, of_signs = jax.random.split(key)
    x, target = single_sample(of_x, dim=dim, y=y)
    signs = jax.random.rademacher(of_signs, (dim,), x.dtype)
    return QuadraticSample(jnp.asarray(x / np.linalg.norm(x)), jnp.diag(signs)[None], jnp.asarray(target))
