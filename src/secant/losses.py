r"""Losses that know their own scale.

A factor of two in a loss is a factor of two in every critical step size. Each loss here says how it is normalised,
and for the squared ones `curvature` gives the number $c$ with
$\partial^2 L / \partial f \partial f = c\, I$, from which the Gauss-Newton matrix is $c\, J^\top J$ and the critical
step of the linearised model is $2 / (c\, \lambda_{\max}(J J^\top))$.

With $n$ samples and $k$ outputs a sample:

| name | $L(f, y)$ | $c$ |
|---|---|---|
| `half_sum` | $\tfrac12 \sum_i \lVert f_i - y_i\rVert^2$ | $1$ |
| `mean_mse` | $\tfrac1n \sum_i \lVert f_i - y_i\rVert^2$ | $2/n$ |
| `half_mean` | $\tfrac1{2n} \sum_i \lVert f_i - y_i\rVert^2$ | $1/n$ |
| `entry_mean` | $\tfrac1{nk} \sum_i \lVert f_i - y_i\rVert^2$ | $2/(nk)$ |
| `cross_entropy` | $-\tfrac1n \sum_i \sum_c y_{ic} \log \operatorname{softmax}(f_i)_c$ | not constant |
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


@dataclass(frozen=True)
class Loss:
    r"""A loss: `loss(outputs, targets)` is a number.

    Attributes:
        name: what it is called.
        function: `(outputs, targets) -> number`.
        weight: for squared losses, `(samples, outputs a sample) -> c/2` with $L = \tfrac c2 \lVert f - y\rVert^2$.

    Example:
        ```python
        import jax.numpy as jnp
        from secant import losses

        outputs, targets = jnp.array([1.0, 3.0]), jnp.array([0.0, 1.0])
        print(losses.half_sum(outputs, targets), losses.half_sum.curvature(outputs))
        print(losses.mean_mse(outputs, targets), losses.mean_mse.curvature(outputs))
        ```
        ```text
        2.5 1.0
        2.5 1.0
        ```
    """

    name: str
    function: Callable[[Array, Array], Array]
    weight: Callable[[int, int], float] | None = None

    def __call__(self, outputs: Float[Array, "n *k"], targets: Any) -> Float[Array, ""]:
        """The loss. Outputs and targets of different shapes are refused, never broadcast."""
        return self.function(jnp.asarray(outputs), jnp.asarray(targets))

    def curvature(self, outputs: Float[Array, "n *k"], targets: Any = None) -> float | None:
        r"""The number $c$ with $\partial^2 L/\partial f \partial f = c\, I$; None where there is no such number."""
        del targets  # a squared loss bends the same way at every target
        return None if self.weight is None else 2 * self.weight(*_sizes(self.name, jnp.shape(outputs)))


def get(loss: str | Loss | Callable[[Array, Array], Array]) -> Loss:
    """A loss by its name; a `Loss` is passed through, and any function `(outputs, targets) -> number` becomes one."""
    if isinstance(loss, Loss):
        return loss
    if isinstance(loss, str):
        if loss in LOSSES:
            return LOSSES[loss]
        close = difflib.get_close_matches(loss, LOSSES, n=1)
        hint = f"Did you mean {close[0]!r}?" if close else f"Known losses: {', '.join(LOSSES)}."
        raise ValueError(f"unknown loss {loss!r}. {hint}")
    if callable(loss):
        return Loss(getattr(loss, "__name__", "loss"), loss)
    raise TypeError(f"`loss` must be a name, a Loss or a function of (outputs, targets), got {loss!r}.")


def _sizes(name: str, shape: tuple[int, ...]) -> tuple[int, int]:
    """Samples, and outputs a sample."""
    if len(shape) not in (1, 2) or 0 in shape:
        raise ValueError(f"{name}: `outputs` must have shape (samples,) or (samples, outputs), got {shape}.")
    return shape[0], shape[1] if len(shape) == 2 else 1


def _squared(name: str, weight: Callable[[int, int], float]) -> Loss:
    def function(outputs: Array, targets: Array) -> Array:
        sizes = _sizes(name, outputs.shape)
        if outputs.shape != targets.shape:
            raise ValueError(
                f"{name}: `outputs` has shape {outputs.shape} but `targets` has shape {targets.shape}. "
                f"Pass targets with shape {outputs.shape}."
            )
        return weight(*sizes) * jnp.sum((outputs - targets) ** 2)

    return Loss(name, function, weight)


def _cross_entropy(outputs: Array, targets: Array) -> Array:
    if outputs.ndim != 2 or 0 in outputs.shape:
        raise ValueError(f"cross_entropy: `outputs` must have shape (samples, classes), got {outputs.shape}.")
    scores = jax.nn.log_softmax(outputs)
    if targets.shape == outputs.shape:
        return -jnp.sum(targets * scores) / len(outputs)
    if targets.shape != outputs.shape[:1]:
        raise ValueError(
            f"cross_entropy: `targets` must hold class numbers, shape {outputs.shape[:1]}, or one row a sample, "
            f"shape {outputs.shape}; got shape {targets.shape}."
        )
    if not jnp.issubdtype(targets.dtype, jnp.integer):
        raise ValueError(f"cross_entropy: class numbers in `targets` must be integers, got {targets.dtype}.")
    return -jnp.sum(jnp.take_along_axis(scores, targets[:, None], axis=1)) / len(outputs)


half_sum = _squared("half_sum", lambda n, k: 0.5)
r"""$L = \tfrac12 \sum_i \lVert f_i - y_i\rVert^2$, with $c = 1$."""

mean_mse = _squared("mean_mse", lambda n, k: 1 / n)
r"""$L = \tfrac1n \sum_i \lVert f_i - y_i\rVert^2$, with $c = 2/n$."""

half_mean = _squared("half_mean", lambda n, k: 0.5 / n)
r"""$L = \tfrac1{2n} \sum_i \lVert f_i - y_i\rVert^2$, with $c = 1/n$."""

entry_mean = _squared("entry_mean", lambda n, k: 1 / (n * k))
r"""$L = \tfrac1{nk} \sum_i \lVert f_i - y_i\rVert^2$, with $c = 2/(nk)$."""

cross_entropy = Loss("cross_entropy", _cross_entropy)
r"""$L = -\tfrac1n \sum_i \log \operatorname{softmax}(f_i)_{y_i}$; targets are class numbers or one-hot rows."""

LOSSES = {loss.name: loss for loss in (half_sum, mean_mse, half_mean, entry_mean, cross_entropy)}
"""Every loss, by name."""

__all__ = [
    "LOSSES",
    "Loss",
    "cross_entropy",
    "entry_mean",
    "get",
    "half_mean",
    "half_sum",
    "mean_mse",
]
