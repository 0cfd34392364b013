r"""Gradient noise: the covariance of a batch's estimate of the gradient.

A batch of $B$ samples estimates the gradient $\bar g$ of the loss by the mean $g_B$ of its gradients. With
$\Sigma = \frac1n\sum_i (g_i - \bar g)(g_i - \bar g)^\top$ the covariance of $g_B$ is

| batches | covariance of $g_B$ |
|---|---|
| `iid`: $B$ draws with replacement | $\Sigma/B$ |
| `fixed`: $B$ different samples | $\frac1B\frac{n - B}{n - 1}\,\Sigma$ |
| `bernoulli`: every sample with probability $B/n$ | $\frac1B(1 - \frac Bn)\,\frac1n\sum_i g_ig_i^\top$ |

In the last row the sum is divided by $B$ although the size of the batch varies, and the covariance is therefore not
centred. None of these matrices is ever written out. The non-zero eigenvalues of $\Sigma$ are those of the Gram matrix
of the centred gradients over $n$. A product with $\Sigma$ costs a forward and a backward pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from secant import losses
from secant.core.arguments import whole
from secant.core.device import jit, to_device
from secant.core.memo import kept
from secant.core.types import Params
from secant.curvature.checks import (
    Function,
    finite_results,
    matching_targets,
    outputs_of,
    refuse_mixing,
    scalar_loss,
    squared_norm,
)
from secant.curvature.operators import Loss, spaces
from secant.curvature.per_sample import compiled_lengths, gram_matrix, weights
from secant.curvature.tangent.signals import network_of
from secant.curvature.tangent.tangent_kernel import MEMORY
from secant.linalg import Operator
from secant.linalg.operator import DENSE_ENTRIES, Estimate
from secant.linalg.ritz import Ritz
from secant.losses import Loss as NamedLoss
from secant.models.entrance import takes_models
from secant.theory.noise.mean_square import Sampling

AT_ONCE = 400
"""Up to this many samples all eigenvalues of the Gram matrix are computed; beyond, only the largest are searched."""


@dataclass(frozen=True, eq=False)
class GradientNoise(Operator):
    r"""The covariance of a batch gradient, as an [`Operator`][secant.linalg.Operator] on parameters.

    `mv`, `density` and the other methods are those of any operator. `top` and `trace` are exact. They come from
    per-sample gradients, which are never written out.

    Attributes:
        f: the function.
        loss: its loss.
        centred: whether the mean is subtracted; for `bernoulli` batches it is not.
        scale: the factor before $\frac1n\sum$.
    """

    f: Any = None
    loss: Any = None
    centred: bool = True
    scale: float = 1.0

    def trace(self, *, probes: int = 0, key: PRNGKeyArray | None = None) -> Estimate:
        r"""$\mathrm{tr}\,\Sigma = \frac1n\sum_i|g_i - \bar g|^2 = E|g_B - \bar g|^2$, exactly.

        Args:
            probes: not used, because the trace needs no random vectors.
            key: not used either.
        """
        squares, square = self._squares()
        return Estimate(self.scale * max(0.0, float(squares.mean()) - self.centred * square), 0.0)

    def squares(self) -> Float[Array, " n"]:
        """Squared lengths of the per-sample gradients. For Secant's own networks they cost as much as one gradient."""
        return self._lengths().squares

    def mean(self) -> Params:
        """The gradient of the loss, which is the mean of the per-sample gradients."""
        return self._lengths().mean

    def noise_scale(self) -> float:
        r"""The noise scale $\mathrm{tr}\,\Sigma/|\bar g|^2$; infinite where the gradient is zero.

        For `batch=None` it is the batch size at which the noise is as large as the gradient.
        """
        squares, square = self._squares()
        trace = self.scale * max(0.0, float(squares.mean()) - self.centred * square)
        return trace / square if square > 0 else float("inf")

    def sample(self, key: PRNGKeyArray) -> Params:
        r"""An exact draw from $N(0, \Sigma)$: $\frac1{\sqrt n}\sum_i \xi_i(g_i - \bar g)$ with normal $\xi_i$.

        It costs one backward pass and takes no root of a matrix.

        Args:
            key: the random key of the draw.
        """
        return _sampled(self.f, self.loss, self.centred)(self.data, key)

    def _lengths(self) -> Any:
        params, x, y, _ = self.data
        return compiled_lengths(self.f, self.loss)(params, x, y)

    def _squares(self) -> tuple[np.ndarray, float]:
        """Squared lengths of all gradients and of their mean. Lengths that are not finite are an error."""
        found = self._lengths()
        finite_results("gradient_noise", found.squares)
        squares = np.asarray(found.squares, float)
        return squares, squared_norm(found.mean)


@takes_models
def gradient_noise(
    f: Function,
    params: Params,
    x: Any,
    y: Any,
    loss: Loss | str,
    *,
    batch: int | None = None,
    sampling: Sampling = "iid",
    memory: int = MEMORY,
) -> GradientNoise:
    r"""The covariance $\Sigma$ of per-sample gradients, or the covariance of the gradient of a batch.

    The gradient of a sample is $g_i = n\,\partial L/\partial f_i\cdot\partial f_i/\partial\theta$, so that their mean
    is the gradient of the loss, for losses that sum and for losses that average.

    - `top(k)` is exact. It uses the $n \times n$ Gram matrix, which for Secant's own networks is a sum over layers.
    - `trace()` costs one gradient.
    - `mv(v)` and `sample(key)` cost a pass or two.

    Memory holds $n^2$ numbers and the parameters, never $n$ gradients.

    Args:
        f: any `f(params, x)` that treats each sample alone, or a model, which replaces `f` and `params`
            ([`model`][secant.models.model]).
        params: the parameters to evaluate at.
        x: inputs, one row a sample.
        y: targets, one row a sample.
        loss: a [`Loss`][secant.losses.Loss], its name, or any scalar function of outputs and targets that is a sum over
            samples.
        batch: samples a batch; by default one, with covariance $\Sigma$ itself.
        sampling: `iid` (with replacement), `fixed` (without) or `bernoulli` (every sample by itself).
        memory: bytes that a Gram matrix may take beside itself.

    Example:
        ```python
        import jax.numpy as jnp
        import secant as sc

        x, y = jnp.array([[1.0], [2.0], [3.0]]), jnp.zeros(3)
        noise = sc.gradient_noise(lambda w, x: x @ w, jnp.ones(1), x, y, "half_mean")
        print(noise.squares(), round(noise.trace().value, 4))
        one = sc.gradient_noise(lambda w, x: x @ w, jnp.ones(1), x, y, "half_mean", batch=2, sampling="fixed")
        print(round(one.trace().value / noise.trace().value, 4))
        ```
        ```text
        [ 1. 16. 81.] 10.8889
        0.25
        ```
    """
    outputs = outputs_of("gradient_noise", f, params, x)
    matching_targets("gradient_noise", outputs, y)
    loss = losses.get(loss)
    scalar_loss("gradient_noise", loss, outputs, y)
    if network_of(f) is None:
        refuse_mixing("gradient_noise", f, params, x)
    scale, centred = batch_law("gradient_noise", outputs.shape[0], batch, sampling)
    space = spaces(params)
    return GradientNoise(
        _product(f, loss, centred),
        (params, x, y, scale),
        space,
        space,
        matrix=_dense(f, loss, centred),
        search=_search(f, loss, centred, memory),
        name="gradient_noise",
        f=f,
        loss=loss,
        centred=centred,
        scale=scale,
    )


def batch_law(caller: str, n: int, batch: int | None, sampling: str) -> tuple[float, bool]:
    """The factor of the covariance of a batch gradient, and whether the covariance is centred.

    Args:
        caller: the name that errors begin with.
        n: samples.
        batch: samples a batch; None for one sample.
        sampling: `iid`, `fixed` or `bernoulli`.
    """
    if sampling not in ("iid", "fixed", "bernoulli"):
        raise ValueError(f"{caller}: `sampling` must be 'iid', 'fixed' or 'bernoulli', got {sampling!r}.")
    if batch is None:
        if sampling != "iid":
            raise ValueError(f"{caller}: `sampling` {sampling!r} needs a `batch`, its number of samples.")
        return 1.0, True
    whole(caller, "batch", batch, 1)
    if batch > n:
        raise ValueError(f"{caller}: a `batch` of {batch} is larger than the data, {n} samples. Take at most {n}.")
    if sampling == "iid":
        return 1 / batch, True
    if sampling == "fixed":
        return ((n - batch) / (n - 1) if n > 1 else 0.0) / batch, True
    return (1 - batch / n) / batch, False


def _less_mean(values: Array, centred: bool) -> Array:
    return values - values.mean() if centred else values


def _spread(c: Array, values: Array) -> Array:
    """One number for each sample, times the weights of the sample's outputs."""
    return c * values.reshape(-1, *(1,) * (c.ndim - 1))


@kept
def _product(f: Function, loss: NamedLoss, centred: bool) -> Any:
    def bind(data: Any) -> Any:
        params, x, y, scale = data
        outputs, push = jax.linearize(lambda p: f(p, x), params)
        pull = jax.linear_transpose(push, params)
        c = weights(loss, outputs, y)

        def product(v: Any) -> Any:
            along = jnp.sum((c * push(v)).reshape(len(c), -1), axis=1)
            return pull(_spread(c, _less_mean(along, centred) * (scale / len(c))))[0]

        return product

    return bind


@kept
def _mixed(f: Function, loss: NamedLoss) -> Callable[..., Params]:
    r"""`(params, x, y, mix) -> sum_i mix_i g_i`, compiled."""

    def run(params: Params, x: Any, y: Any, mix: Array) -> Params:
        outputs, pull = jax.vjp(lambda p: f(p, x), params)
        return pull(_spread(weights(loss, outputs, y), mix.astype(outputs.dtype)))[0]

    return jit(run)


@kept
def _mixed_each(f: Function, loss: NamedLoss) -> Callable[..., Params]:
    """As `_mixed`, for every row of a table of `mix`."""
    mixed = _mixed(f, loss)
    return jit(lambda params, x, y, rows: jax.vmap(lambda mix: mixed(params, x, y, mix))(rows))


@kept
def _sampled(f: Function, loss: NamedLoss, centred: bool) -> Callable[..., Params]:
    def run(data: Any, key: PRNGKeyArray) -> Params:
        params, x, y, scale = data
        n = len(jax.tree.leaves(x)[0])
        normal = _less_mean(jax.random.normal(key, (n,)), centred)
        return _mixed(f, loss)(params, x, y, normal * jnp.sqrt(scale / n))

    return jit(run)


@kept
def _dense(f: Function, loss: NamedLoss, centred: bool) -> Callable[[Any], Array]:
    def matrix(data: Any) -> Array:
        p = sum(jnp.size(leaf) for leaf in jax.tree.leaves(data[0]))
        if p * p > DENSE_ENTRIES:
            raise ValueError(
                f"gradient_noise.dense: a matrix of {p:,} x {p:,} has more than {DENSE_ENTRIES:,} entries. "
                "Use mv, top, density, trace or to_scipy, which never build it."
            )
        space = spaces(data[0])
        found = Operator(_product(f, loss, centred), data, space, space, name="gradient_noise").dense()
        return _symmetric(found)

    return matrix


_symmetric = jit(lambda matrix: (matrix + matrix.T) / 2, quick=True)


@kept
def _search(f: Function, loss: NamedLoss, centred: bool, memory: int) -> Callable[..., Any]:
    def search(data: Any, k: int, tol: float, key: PRNGKeyArray) -> tuple[Ritz, Callable[[Array], Params]]:
        del key  # nothing is random
        params, x, y, scale = data
        matrix = gram_matrix(f, loss, params, x, y, memory)
        finite_results("gradient_noise.top", matrix)
        inner = np.asarray(matrix)
        values, vectors = gram_top(inner, k, centred, tol)
        # If fewer directions have noise than are asked for, products find the others.
        rounding = 10 * float(np.finfo(inner.dtype).eps) * float(values[0])
        found = len(values) == k and bool(values[-1] > len(inner) * rounding)
        # The vectors that result have length 1.
        rows = vectors / np.sqrt(np.maximum(values, np.finfo(float).tiny))[:, None]
        error = to_device(np.full(len(values), scale * rounding / len(inner)))
        values = to_device(np.asarray(scale * values / len(inner)))
        spent, converged = to_device(np.zeros((), np.int32)), to_device(np.asarray(found))
        ritz = Ritz(values, to_device(rows), error, error, spent, converged)
        return ritz, lambda rows: _mixed_each(f, loss)(params, x, y, rows)

    return search


def gram_top(inner: Float[np.ndarray, "n n"], k: int, centred: bool, tol: float) -> tuple[np.ndarray, np.ndarray]:
    """The `k` largest eigenvalues of a Gram matrix, centred or not, falling, and their eigenvectors as rows.

    Args:
        inner: the inner products of some vectors.
        k: how many eigenvalues; at most as many as there are vectors.
        centred: whether the mean of the vectors is subtracted first.
        tol: relative error, if the eigenvalues are searched.
    """
    import scipy.linalg
    import scipy.sparse.linalg

    n = len(inner)
    k = min(k, n)
    matrix = np.asarray(inner, float)
    if centred:
        rows = matrix.mean(1)
        matrix = matrix - rows[:, None] - rows[None, :] + rows.mean()
    if n <= AT_ONCE or 4 * k > n:
        values, vectors = scipy.linalg.eigh(matrix, subset_by_index=[n - k, n - 1])
    else:
        start = np.random.default_rng(0).normal(size=n)
        values, vectors = scipy.sparse.linalg.eigsh(matrix, k=k, which="LA", tol=tol / 10, v0=start)
    order = np.argsort(values)[::-1]
    vectors = vectors[:, order].T
    return np.maximum(values[order], 0.0), cast(np.ndarray, vectors - vectors.mean(1, keepdims=True) * centred)
