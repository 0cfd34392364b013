"""The loss split over the eigendirections of the tangent kernel, and what the kernel guarantees about convergence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from secant.core.device import jit
from secant.core.memo import kept
from secant.core.types import Params
from secant.curvature.checks import Function, finite_results, matching_targets, outputs_of, squared_curvature
from secant.curvature.tangent.tangent_kernel import kernel_matrix
from secant.losses import Loss
from secant.models.entrance import takes_models


class LossSplit(NamedTuple):
    r"""A squared loss over the kernel's eigendirections, $L = \sum_i \frac c2 \langle f - y, u_i\rangle^2$.

    Attributes:
        eigenvalues: eigenvalues of the kernel, largest first.
        directions: eigenvectors $u_i$ of the kernel as columns, in the same order.
        parts: the loss along each eigenvector; the parts add up to the loss.
    """

    eigenvalues: Float[Array, " m"]
    directions: Float[Array, "m m"]
    parts: Float[Array, " m"]

    def within(self, s: int) -> Float[Array, ""]:
        """The loss in the first `s` directions."""
        return _added(self.parts, *slice(None, s).indices(len(self.parts))[:2])

    def beyond(self, s: int) -> Float[Array, ""]:
        """The loss in all directions but the first `s`."""
        return _added(self.parts, *slice(s, None).indices(len(self.parts))[:2])


@takes_models
def loss_split(f: Function, params: Params, x: Any, y: Any, loss: Loss | str) -> LossSplit:
    r"""Splits a squared loss over the eigendirections of the current tangent kernel.

    Args:
        f: any `f(params, x)` that treats each sample alone.
        params: the parameters to evaluate at.
        x: inputs, one row a sample.
        y: targets.
        loss: a squared [`Loss`][secant.losses.Loss], or its name.
    """
    residual, c = _residual("loss_split", f, params, x, y, loss)
    return _split(kernel_matrix(f, params, x), residual, c)


class Convergence(NamedTuple):
    r"""What the tangent kernel guarantees for gradient descent on a squared loss.

    For $L = \frac c2 \|r\|^2$ the gradient obeys $\|\nabla L\|^2 = c^2\, r^\top K r \ge 2 c\,\lambda_{\min}(K)\, L$:
    the Polyak-Lojasiewicz inequality with $\mu = c\,\lambda_{\min}(K)$.

    Attributes:
        smallest: $\lambda_{\min}(K)$.
        largest: $\lambda_{\max}(K)$.
        mu: $c\,\lambda_{\min}(K)$.
        ratio: $\|\nabla L\|^2 / (2 L)$, which is at least `mu`; NaN at zero loss.
        rate: with a fixed kernel, a step of size $1/(c\,\lambda_{\max})$ multiplies the loss by at most this factor.
    """

    smallest: Float[Array, ""]
    largest: Float[Array, ""]
    mu: Float[Array, ""]
    ratio: Float[Array, ""]
    rate: Float[Array, ""]


@takes_models
def convergence(f: Function, params: Params, x: Any, y: Any, loss: Loss | str) -> Convergence:
    """The Polyak-Lojasiewicz constant of a squared loss at these parameters, from the tangent kernel's spectrum.

    Args:
        f: any `f(params, x)` that treats each sample alone.
        params: the parameters to evaluate at.
        x: inputs, one row a sample.
        y: targets.
        loss: a squared [`Loss`][secant.losses.Loss], or its name.
    """
    residual, c = _residual("convergence", f, params, x, y, loss)
    return _converging(kernel_matrix(f, params, x), residual, c)


def kernel_drift(start: Float[Array, "m m"], now: Float[Array, "m m"]) -> Float[Array, ""]:
    r"""How far a kernel has moved, $\|K_t - K_0\| / \|K_0\|$ in the spectral norm."""
    shape = jnp.shape(start)
    if shape != jnp.shape(now) or len(shape) != 2 or shape[0] != shape[1]:
        raise ValueError(
            f"kernel_drift: `start` and `now` must be square matrices of one size, got {shape} and {jnp.shape(now)}."
        )
    return _drift(start, now)


def _residual(caller: str, f: Function, params: Params, x: Any, y: Any, loss: Loss | str) -> tuple[Array, float]:
    outputs = outputs_of(caller, f, params, x)
    matching_targets(caller, outputs, y)
    if jnp.shape(y) != outputs.shape:
        raise ValueError(
            f"{caller}: `y` has shape {jnp.shape(y)} and the outputs have {outputs.shape}. Pass targets of that shape."
        )
    c = squared_curvature(caller, loss, np.zeros(outputs.shape))
    residual = _compiled_residual(f)(params, x, y)
    finite_results(caller, residual)
    return residual, c


# Each function below is compiled as a whole. Run one by one, all its operations would be compiled for every size.


@kept
def _compiled_residual(f: Function) -> Callable[..., Array]:
    return jit(lambda params, x, y: (f(params, x) - y).reshape(-1), quick=True)


def _split_of(kernel: Array, residual: Array, c: Any) -> LossSplit:
    values, vectors = jnp.linalg.eigh(kernel)
    values, vectors = values[::-1], vectors[:, ::-1]
    return LossSplit(values, vectors, c / 2 * (vectors.T @ residual) ** 2)


def _convergence_of(kernel: Array, residual: Array, c: Any) -> Convergence:
    values = jnp.linalg.eigvalsh(kernel)
    smallest, largest = jnp.maximum(values[0], 0.0), values[-1]
    ratio = c * (residual @ kernel @ residual) / (residual @ residual)
    return Convergence(smallest, largest, c * smallest, ratio, (1 - smallest / largest) ** 2)


def _drift_of(start: Array, now: Array) -> Array:
    difference = jnp.linalg.eigvalsh((now - start + (now - start).T) / 2)
    return jnp.max(jnp.abs(difference)) / jnp.max(jnp.abs(jnp.linalg.eigvalsh(start)))


def _sum_between(parts: Array, start: Any, stop: Any) -> Array:
    places = jnp.arange(len(parts))
    return jnp.sum(jnp.where((places >= start) & (places < stop), parts, 0.0))


_split, _converging = jit(_split_of), jit(_convergence_of)
_drift, _added = jit(_drift_of), jit(_sum_between)
