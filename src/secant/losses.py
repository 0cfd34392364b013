r"""Losses that know their own scale.

A factor of two in a loss is a factor of two in every critical step size. Each loss here therefore knows how it is
normalised. For squared losses `curvature` gives the number $c$ with $\partial^2 L / \partial f \partial f = c\, I$.
The Gauss-Newton matrix is then $c\, J^\top J$, and the critical step of the linearised model is
$2 / (c\, \lambda_{\max}(J J^\top))$.

With $n$ samples and $k$ outputs a sample:

| name | $L(f, y)$ | $c$ |
|---|---|---|
| `half_sum` | $\tfrac12 \sum_i \lVert f_i - y_i\rVert^2$ | $1$ |
| `mean_mse` | $\tfrac1n \sum_i \lVert f_i - y_i\rVert^2$ | $2/n$ |
| `half_mean` | $\tfrac1{2n} \sum_i \lVert f_i - y_i\rVert^2$ | $1/n$ |
| `entry_mean` | $\tfrac1{nk} \sum_i \lVert f_i - y_i\rVert^2$ | $2/(nk)$ |
| `cross_entropy` | $-\tfrac1n \sum_i \sum_c y_{ic} \log \operatorname{softmax}(f_i)_c$ | not constant |
| `binary_cross_entropy` | $\tfrac1{nk} \sum_{ic} \bigl(\log(1 + e^{f_{ic}}) - y_{ic} f_{ic}\bigr)$ | not constant |
| `exponential`, `exponential_mean` | $\sum_i e^{-m_i}$, and that over $n$ | not constant |
| `logistic`, `logistic_mean` | $\sum_i \log(1 + e^{-m_i})$, and that over $n$ | not constant |

The losses in the last two rows take margins, $m_i = y_if_i$ with labels $y_i = \pm1$ and one output a sample.

Names of other libraries are understood if they have one meaning:

- `'mse'` is `entry_mean`, the mean over samples *and* outputs, as in `MSELoss` of PyTorch, `'mse'` of Keras and
  `mean_squared_error` of scikit-learn. With one output a sample that is `mean_mse`.
- `'ce'` is `cross_entropy` and `'bce'` is `binary_cross_entropy`, both of scores (logits), as in `CrossEntropyLoss` and
  `BCEWithLogitsLoss` of PyTorch.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


@dataclass(frozen=True)
class Loss:
    r"""A loss: `loss(outputs, targets)` is a number.

    Attributes:
        name: the name of the loss.
        function: `(outputs, targets) -> number`.
        weight: for squared losses, `(samples, outputs a sample) -> c/2` with $L = \tfrac c2 \lVert f - y\rVert^2$.
        objection: `(shape of the outputs, targets) -> what is wrong with these targets`, or None.

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
    objection: Callable[[tuple[int, ...], np.ndarray], str | None] | None = None

    def __call__(self, outputs: Float[Array, "n *k"], targets: Any) -> Float[Array, ""]:
        """The loss. Different shapes of outputs and targets are an error; nothing is broadcast."""
        value = self.function(jnp.asarray(outputs), jnp.asarray(targets))
        self.check_targets(jnp.shape(outputs), targets)
        return value

    def check_targets(self, shape: tuple[int, ...], targets: Any) -> None:
        """Raises an error if this loss cannot use the numbers in the targets. Traced targets have no numbers and pass.

        Args:
            shape: the shape of the outputs.
            targets: the targets to check.
        """
        if self.objection is None or isinstance(targets, jax.core.Tracer):
            return
        wrong = self.objection(shape, np.asarray(targets))
        if wrong is not None:
            raise ValueError(f"{self.name}: {wrong}")

    def curvature(self, outputs: Float[Array, "n *k"], targets: Any = None) -> float | None:
        r"""The number $c$ with $\partial^2 L/\partial f \partial f = c\, I$; None if there is no such number."""
        del targets  # a squared loss has the same curvature at every target
        return None if self.weight is None else 2 * self.weight(*_sizes(self.name, jnp.shape(outputs)))


def get(loss: str | Loss | Callable[[Array, Array], Array]) -> Loss:
    """The loss of this name. A `Loss` is returned as it is; any function `(outputs, targets) -> number` becomes a loss.

    Case and punctuation of a name do not matter, and the usual names of other libraries are known.

    Example:
        ```python
        from secant import losses

        print(losses.get("mse").name, losses.get("CrossEntropyLoss").name, losses.get("bce").name)
        ```
        ```text
        entry_mean cross_entropy binary_cross_entropy
        ```
    """
    if isinstance(loss, Loss):
        return loss
    if isinstance(loss, str):
        return _named(loss)
    if callable(loss):
        return Loss(getattr(loss, "__name__", "loss"), loss)
    raise TypeError(f"`loss` must be a name, a Loss or a function of (outputs, targets), got {loss!r}.")


def _named(name: str) -> Loss:
    key, unclear = _key(name), {_key(other): meanings for other, meanings in _UNCLEAR.items()}
    if name.lower() in _UNCLEAR or (key in unclear and key not in _USUAL):
        raise ValueError(f"loss {name!r} has more than one meaning. {unclear[key]}")
    if key in _USUAL:
        return LOSSES[_USUAL[key]]
    known = {_key(other): other for other in (*_UNCLEAR, *LOSSES, *_SHORT)}
    close = difflib.get_close_matches(key, known, n=1)
    hint = f"Did you mean {known[close[0]]!r}? " if close else ""
    raise ValueError(
        f"unknown loss {name!r}. {hint}Known losses: {', '.join((*LOSSES, *_SHORT))}; or pass any function of "
        "(outputs, targets)."
    )


def _key(name: str) -> str:
    """A name without case, punctuation and a `loss` at its end."""
    return re.sub(r"[^a-z0-9]", "", name.lower()).removesuffix("loss")


def _sizes(name: str, shape: tuple[int, ...]) -> tuple[int, int]:
    """The number of samples, and the number of outputs a sample."""
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


def _unknown_classes(shape: tuple[int, ...], targets: np.ndarray) -> str | None:
    if targets.ndim != 1 or not targets.size or (targets.min() >= 0 and targets.max() < shape[1]):
        return None
    return (
        f"class numbers in `targets` must be from 0 to {shape[1] - 1}, since there are {shape[1]} outputs, got numbers "
        f"from {targets.min()} to {targets.max()}."
    )


def _binary_cross_entropy(outputs: Array, targets: Array) -> Array:
    _sizes("binary_cross_entropy", outputs.shape)
    if outputs.shape != targets.shape:
        raise ValueError(
            f"binary_cross_entropy: `outputs` has shape {outputs.shape} but `targets` has shape {targets.shape}. "
            f"Pass targets with shape {outputs.shape}."
        )
    return jnp.mean(jax.nn.softplus(outputs) - targets * outputs)


def _no_probabilities(shape: tuple[int, ...], targets: np.ndarray) -> str | None:
    if not targets.size or (targets.min() >= 0 and targets.max() <= 1):
        return None
    return (
        f"`targets` must be from 0 to 1, got numbers from {targets.min():g} to {targets.max():g}. For labels -1 and 1 "
        "pass (targets + 1) / 2."
    )


def margins(outputs: Float[Array, "n *k"], targets: Any) -> Float[Array, "n"]:
    r"""The margin of each sample, which tells how surely it is classified; positive if the class is right.

    With one output a sample and labels $\pm1$ the margin is $y_if_i$. With several outputs, and class numbers or
    one-hot rows as targets, it is the output of the right class minus the largest other output.

    Args:
        outputs: the outputs of the network.
        targets: labels -1 and 1, class numbers, or one-hot rows.

    Example:
        ```python
        import jax.numpy as jnp
        from secant import losses

        print(losses.margins(jnp.array([2.0, 1.0]), jnp.array([1.0, -1.0])))
        print(losses.margins(jnp.array([[2.0, 1.0, 0.0]]), jnp.array([1])))
        ```
        ```text
        [ 2. -1.]
        [-1.]
        ```
    """
    outputs, targets = jnp.asarray(outputs), jnp.asarray(targets)
    _, k = _sizes("margins", outputs.shape)
    if k == 1:
        if outputs.shape != targets.shape:
            raise ValueError(
                f"margins: `targets` must have shape {outputs.shape}, one label -1 or 1 a sample, got shape "
                f"{targets.shape}."
            )
        return (outputs * targets).reshape(-1)
    if targets.shape == outputs.shape[:1] and jnp.issubdtype(targets.dtype, jnp.integer):
        targets = jax.nn.one_hot(targets, k, dtype=outputs.dtype)
    if targets.shape != outputs.shape:
        raise ValueError(
            f"margins: `targets` must be class numbers, shape {outputs.shape[:1]}, or one-hot rows, shape "
            f"{outputs.shape}; got shape {targets.shape}."
        )
    chosen = targets > 0.5
    right = jnp.sum(jnp.where(chosen, outputs, 0.0), axis=1)
    return right - jnp.max(jnp.where(chosen, -jnp.inf, outputs), axis=1)


def _of_margins(name: str, of: Callable[[Array], Array], mean: bool) -> Loss:
    def function(outputs: Array, targets: Array) -> Array:
        n, k = _sizes(name, outputs.shape)
        if k != 1:
            raise ValueError(
                f"{name}: `outputs` must have one output a sample, got shape {outputs.shape}. For classes take "
                "'cross_entropy'."
            )
        return of(-margins(outputs, targets)) / (n if mean else 1)

    return Loss(name, function, objection=_no_signs)


def _no_signs(shape: tuple[int, ...], targets: np.ndarray) -> str | None:
    if np.isin(targets, (-1, 1)).all():
        return None
    return (
        f"`targets` must be -1 or 1, got numbers from {targets.min():g} to {targets.max():g}. For 0 and 1 pass "
        "2 * targets - 1."
    )


half_sum = _squared("half_sum", lambda n, k: 0.5)
r"""$L = \tfrac12 \sum_i \lVert f_i - y_i\rVert^2$, with $c = 1$."""

mean_mse = _squared("mean_mse", lambda n, k: 1 / n)
r"""$L = \tfrac1n \sum_i \lVert f_i - y_i\rVert^2$, with $c = 2/n$."""

half_mean = _squared("half_mean", lambda n, k: 0.5 / n)
r"""$L = \tfrac1{2n} \sum_i \lVert f_i - y_i\rVert^2$, with $c = 1/n$."""

entry_mean = _squared("entry_mean", lambda n, k: 1 / (n * k))
r"""$L = \tfrac1{nk} \sum_i \lVert f_i - y_i\rVert^2$, with $c = 2/(nk)$."""

cross_entropy = Loss("cross_entropy", _cross_entropy, objection=_unknown_classes)
r"""$L = -\tfrac1n \sum_i \log \operatorname{softmax}(f_i)_{y_i}$; targets are class numbers or one-hot rows."""

binary_cross_entropy = Loss("binary_cross_entropy", _binary_cross_entropy, objection=_no_probabilities)
r"""$L = -\tfrac1{nk} \sum_{ic} \bigl(y_{ic} \log s(f_{ic}) + (1 - y_{ic}) \log(1 - s(f_{ic}))\bigr)$, $s$ the logistic
function; targets are from 0 to 1, in the shape of the outputs."""

exponential = _of_margins("exponential", lambda minus: jnp.exp(jax.nn.logsumexp(minus)), False)
r"""$L = \sum_i e^{-y_if_i}$ with labels $\pm1$, computed from its logarithm."""

exponential_mean = _of_margins("exponential_mean", lambda minus: jnp.exp(jax.nn.logsumexp(minus)), True)
r"""$L = \tfrac1n \sum_i e^{-y_if_i}$ with labels $\pm1$."""

logistic = _of_margins("logistic", lambda minus: jnp.sum(jnp.logaddexp(minus, 0.0)), False)
r"""$L = \sum_i \log(1 + e^{-y_if_i})$ with labels $\pm1$."""

logistic_mean = _of_margins("logistic_mean", lambda minus: jnp.sum(jnp.logaddexp(minus, 0.0)), True)
r"""$L = \tfrac1n \sum_i \log(1 + e^{-y_if_i})$ with labels $\pm1$; `binary_cross_entropy` with labels 0 and 1."""

_SQUARED = (half_sum, mean_mse, half_mean, entry_mean)
_OF_MARGINS = (exponential, exponential_mean, logistic, logistic_mean)
LOSSES = {loss.name: loss for loss in (*_SQUARED, cross_entropy, binary_cross_entropy, *_OF_MARGINS)}
"""Every loss, by name."""

_SHORT = {"mse": "entry_mean", "ce": "cross_entropy", "bce": "binary_cross_entropy"}
_OTHERS = {
    "mean_squared_error": "entry_mean",
    "softmax_cross_entropy": "cross_entropy",
    "softmax_cross_entropy_with_logits": "cross_entropy",
    "softmax_cross_entropy_with_integer_labels": "cross_entropy",
    "bce_with_logits": "binary_cross_entropy",
    "binary_cross_entropy_with_logits": "binary_cross_entropy",
    "sigmoid_binary_cross_entropy": "binary_cross_entropy",
}
_USUAL = {_key(name): ours for name, ours in ({name: name for name in LOSSES} | _SHORT | _OTHERS).items()}

_SQUARES = (
    "With n samples of k outputs: 'half_sum' is 1/2 of the sum of squares, 'half_mean' that over n, 'mean_mse' the sum "
    "over n, 'entry_mean' (or 'mse') the sum over n k. The critical step size follows the factor: choose one."
)
_PROBABILITIES = (
    "Where it takes probabilities, leave out the softmax or sigmoid that makes them and choose {}, which takes the "
    "scores (logits)."
)
_UNCLEAR = dict.fromkeys(("l2", "squared_error", "squared", "quadratic", "least_squares", "sse"), _SQUARES) | {
    "categorical_crossentropy": _PROBABILITIES.format("'cross_entropy'"),
    "sparse_categorical_crossentropy": _PROBABILITIES.format("'cross_entropy'"),
    "binary_crossentropy": _PROBABILITIES.format("'binary_cross_entropy'"),
    "nll": _PROBABILITIES.format("'cross_entropy'"),
    "log_loss": _PROBABILITIES.format("'cross_entropy' for classes or 'binary_cross_entropy' for targets 0 and 1"),
}

__all__ = [
    "LOSSES",
    "Loss",
    "binary_cross_entropy",
    "cross_entropy",
    "entry_mean",
    "exponential",
    "exponential_mean",
    "get",
    "half_mean",
    "half_sum",
    "logistic",
    "logistic_mean",
    "margins",
    "mean_mse",
]
