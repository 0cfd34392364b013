r"""What training a network of infinite width does to its outputs.

Under gradient flow or descent on $\tfrac12\sum_i (f(x_i) - y_i)^2$ the outputs on the samples move by
$\dot f = -\Theta (f - y)$ with a tangent kernel $\Theta$ that stays: every eigenvector of it decays by itself, and what
happens anywhere else follows from the kernel between there and the samples.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float
from scipy import linalg

from secant.core.device import to_device
from secant.kernels.infinite_width import Kernel


class SingularKernelError(ValueError):
    """A kernel that cannot be inverted in its precision."""

    def __init__(self, function: str, smallest: float, largest: float, ridge: float, precision: str) -> None:
        condition = largest / smallest if smallest > 0 else math.inf
        super().__init__(
            f"{function}: the kernel is singular in {precision}: its condition number is {condition:.1e}. Two samples "
            f"may be the same, or the network too simple. Use a ridge of {ridge:.1e} or more, or float64."
        )
        self.condition, self.ridge = condition, ridge


class Gaussian(NamedTuple):
    """Mean and covariance of outputs.

    Attributes:
        mean: shape `(n,)` or `(n, outputs)`.
        covariance: of one output among the samples, shape `(n, n)`; outputs are independent and alike.
    """

    mean: Array
    covariance: Float[Array, "n n"]


@dataclass(frozen=True, eq=False)
class Training:
    r"""Training on a kernel, as a decay of its eigenvectors.

    Attributes:
        eigenvalues: of the kernel, rising, shape `(n,)`.
        eigenvectors: in columns, shape `(n, n)`.
        y: targets, shape `(n,)` or `(n, outputs)`.
        step: step size of gradient descent, or None for gradient flow.
    """

    eigenvalues: Float[Array, " n"]
    eigenvectors: Float[Array, "n n"]
    y: Array
    step: float | None

    @property
    def largest_step(self) -> float:
        r"""$2/\lambda_{\max}$, beyond which gradient descent diverges."""
        return 2 / float(self.eigenvalues[-1])

    def left(self, time: Any) -> Array:
        r"""What is left of every eigenvector: $e^{-\lambda t}$ of flow, $(1 - \eta\lambda)^t$ of descent."""
        return _left(self.eigenvalues, self.step, time)

    def train(self, time: Any, start: Any = 0.0) -> Array:
        """Outputs on the samples at a time, or after so many steps, from outputs `start`."""
        self._check(time)
        return _trained(self.eigenvalues, self.eigenvectors, self.y, self.step, time, start)

    def test(self, time: Any, between: Float[Array, "m n"], start: Any = 0.0, start_test: Any = 0.0) -> Array:
        r"""Outputs elsewhere, $f_0(x) + \Theta(x, X)\,\Theta^{-1}(1 - e^{-\Theta t})(y - f_0(X))$.

        Args:
            time: time of gradient flow, or number of steps; `math.inf` for the end.
            between: kernel between the other inputs and the samples.
            start: outputs on the samples at the start.
            start_test: outputs elsewhere at the start.
        """
        self._check(time)
        spectrum = self.eigenvalues, self.eigenvectors
        return _tested(*spectrum, self.y, self.step, time, between, start, start_test, _is_end(time))

    def ensemble(self, time: Any, train: Kernel, between: Kernel, test: Kernel) -> Gaussian:
        """Outputs elsewhere over random networks, each trained on its own outputs at the start.

        Args:
            time: as for `test`.
            train: kernels among the samples.
            between: kernels between the other inputs and the samples.
            test: kernels among the other inputs.
        """
        self._check(time)
        kernels = train.nngp, between.nngp, between.ntk, test.nngp
        covariance = _spread(self.eigenvalues, self.eigenvectors, self.step, time, *kernels, _is_end(time))
        return Gaussian(self.test(time, between.ntk), covariance)

    def _check(self, time: Any) -> None:
        if not _is_end(time):
            return
        if self.step is not None and self.step >= self.largest_step:
            raise ValueError(
                f"Training: gradient descent with step {self.step:g} diverges; use one below {self.largest_step:.3g}."
            )
        _check_spectrum("Training", self.eigenvalues)


def _is_end(time: Any) -> bool:
    return isinstance(time, float) and math.isinf(time)


def _rows(factors: Array, vectors: Array) -> Array:
    return factors[:, None] * vectors if vectors.ndim == 2 else factors * vectors


def training(kernel: ArrayLike, y: Any, *, step: float | None = None, ridge: float = 0.0) -> Training:
    r"""Gradient flow, or gradient descent, of a wide network on $\tfrac12\sum_i (f(x_i) - y_i)^2$.

    Args:
        kernel: tangent kernel among the samples, shape `(n, n)`.
        y: targets, shape `(n,)` or `(n, outputs)`.
        step: step size of gradient descent; without one it is gradient flow.
        ridge: added to the diagonal.

    Example:
        ```python
        import math
        import jax
        import secant as sc
        from secant.kernels import training

        net = sc.nets.mlp([64, 64], activation="relu", bias=True)
        x = jax.random.normal(jax.random.key(0), (8, 3))
        y = x[:, 0] * x[:, 1]
        run = training(sc.kernel(net, x[:6]).ntk, y[:6])
        print(bool(abs(run.train(math.inf) - y[:6]).max() < 1e-4))  # all samples are learnt
        print(run.test(math.inf, sc.kernel(net, x[6:], x[:6]).ntk).shape)
        ```
        ```text
        True
        (2,)
        ```
    """
    theta, y = checked_pair("training", kernel, y)
    if step is not None and not (math.isfinite(step) and step > 0):
        raise ValueError(f"training: `step` must be a number above 0, or None, got {step!r}.")
    values, vectors = _decomposed(theta, _ridge("training", ridge))
    return Training(values, vectors, y, step)


def posterior(
    train: ArrayLike, between: Float[Array, "m n"], test: Float[Array, "m m"], y: Any, *, noise: float = 0.0
) -> Gaussian:
    r"""Mean and covariance of the outputs of random networks given noisy targets.

    The outputs are a Gaussian process with kernel $K$. Its mean given the targets is $K_{*}(K + s^2)^{-1}y$, as in
    kernel ridge regression, and its covariance is $K_{**} - K_*(K + s^2)^{-1}K_*^\top$.

    Args:
        train: kernel among the samples, shape `(n, n)`.
        between: kernel between the other inputs and the samples.
        test: kernel among the other inputs.
        y: targets.
        noise: variance $s^2$ of the noise, which is also the ridge.
    """
    train, y = checked_pair("posterior", train, y)
    return _conditioned(_factor("posterior", train, noise), between, test, y)


def log_evidence(train: ArrayLike, y: Any, *, noise: float = 0.0) -> Array:
    r"""Logarithm of the density of the targets under a Gaussian process,
    $-\tfrac12 y^\top (K + s^2)^{-1} y - \tfrac12 \log\det 2\pi(K + s^2)$, summed over outputs."""
    train, y = checked_pair("log_evidence", train, y)
    return _log_density(_factor("log_evidence", train, noise), y)


def label_complexity(kernel: ArrayLike, y: Any) -> float:
    r"""$\sqrt{2\, y^\top \Theta^{-1} y\,\operatorname{tr}\Theta}\,/\,n$, which bounds the error on new samples of a
    wide network that has learnt these labels."""
    kernel, y = checked_pair("label_complexity", kernel, y)
    weight = float(_fit(_factor("label_complexity", kernel, 0.0), y))
    return math.sqrt(2 * weight * float(np.trace(kernel))) / len(y)


def checked_pair(function: str, kernel: Any, y: Any) -> tuple[Array, Array]:
    """Kernel and targets, checked."""
    kernel, y = to_device(kernel), to_device(y)
    if kernel.ndim != 2 or kernel.shape[0] != kernel.shape[1] or not len(kernel):
        raise ValueError(f"{function}: the kernel must have shape (n, n) with n of at least 1, got {kernel.shape}.")
    if y.ndim not in (1, 2) or len(y) != len(kernel):
        raise ValueError(f"{function}: `y` must have one row for each of {len(kernel)} samples, got shape {y.shape}.")
    for name, part in (("the kernel", kernel), ("`y`", y)):
        if not isinstance(part, jax.core.Tracer) and not np.isfinite(np.asarray(part)).all():
            raise ValueError(f"{function}: {name} must hold finite numbers.")
    return kernel, y.astype(kernel.dtype)


def _ridge(function: str, ridge: Any) -> Any:
    if isinstance(ridge, int | float) and not (math.isfinite(ridge) and ridge >= 0):
        raise ValueError(f"{function}: a ridge, or the variance of noise, must be a number of at least 0, got {ridge}.")
    return ridge


def _factor(function: str, kernel: Array, ridge: Any) -> Array:
    """The Cholesky factor, a lower triangle, of a kernel and a ridge; a singular kernel raises an error."""
    factor, diagonal = _factored(kernel, _ridge(function, ridge))
    if isinstance(factor, jax.core.Tracer):
        return factor
    pivots = np.asarray(diagonal) ** 2
    least = len(kernel) * float(jnp.finfo(kernel.dtype).eps)
    if not np.isfinite(pivots).all() or pivots.min() <= least * pivots.max():
        _check_spectrum(function, np.asarray(_decomposed(kernel, ridge)[0]))
    return factor


# What follows is compiled as a whole: operation by operation, each would be compiled for every size.


def _with_ridge(kernel: Array, ridge: Any) -> Array:
    return kernel + ridge * jnp.eye(len(kernel), dtype=kernel.dtype)


def _left(values: Array, step: Any, time: Any) -> Array:
    return jnp.exp(-values * time) if step is None else (1 - step * values) ** time


def _pull(values: Array, vectors: Array, step: Any, time: Any, apart: Array, end: bool) -> Array:
    r"""$\Theta^{-1}(1 - e^{-\Theta t})$ times a vector."""
    if end:
        factors = 1 / values
    elif step is None:
        small = values * time < 1e-6
        safe = jnp.where(small, 1.0, values)
        factors = jnp.where(small, time * (1 - values * time / 2), -jnp.expm1(-safe * time) / safe)
    else:
        safe = jnp.where(values > 0, values, 1.0)
        # The sum of the powers: the difference from 1 would lose digits for small eigenvalues.
        factors = jnp.where(values > 0, -jnp.expm1(time * jnp.log1p(-step * safe)) / safe, time * step)
        factors = jnp.where(step * values < 1, factors, (1 - _left(values, step, time)) / safe)
    return vectors @ _rows(factors, vectors.T @ apart)


@jax.jit
def _trained(values: Array, vectors: Array, y: Array, step: Any, time: Any, start: Any) -> Array:
    return y - vectors @ _rows(_left(values, step, time), vectors.T @ (y - start))


@functools.partial(jax.jit, static_argnums=8)
def _tested(
    values: Array, vectors: Array, y: Array, step: Any, time: Any, between: Array, start: Any, own: Any, end: bool
) -> Array:
    return own + between @ _pull(values, vectors, step, time, y - start, end)


@functools.partial(jax.jit, static_argnums=8)
def _spread(
    values: Array, vectors: Array, step: Any, time: Any, train: Array, cross: Array, ntk: Array, test: Array, end: bool
) -> Array:
    """Covariance of outputs elsewhere, given kernels of outputs and, between the two sets, the tangent kernel."""
    pull = ntk @ _pull(values, vectors, step, time, jnp.eye(len(values), dtype=values.dtype), end)
    mixed = pull @ cross.T
    return test + pull @ train @ pull.T - mixed - mixed.T


@jax.jit
def _decomposed(kernel: Array, ridge: Any) -> tuple[Array, Array]:
    values, vectors = jnp.linalg.eigh(_with_ridge(kernel, ridge))
    return values, vectors


@jax.jit
def _factored(kernel: Array, ridge: Any) -> tuple[Array, Array]:
    factor = jnp.linalg.cholesky(_with_ridge(kernel, ridge))
    return factor, jnp.diagonal(factor)


@jax.jit
def _fit(factor: Array, y: Array) -> Array:
    r"""$y^\top K^{-1} y$, summed over outputs."""
    columns = y.reshape(len(y), -1)
    return jnp.sum(columns * jax.scipy.linalg.cho_solve((factor, True), columns))


@jax.jit
def _log_density(factor: Array, y: Array) -> Array:
    volume = jnp.sum(jnp.log(jnp.diagonal(factor))) + len(y) / 2 * math.log(2 * math.pi)
    return -_fit(factor, y) / 2 - y.reshape(len(y), -1).shape[1] * volume


@jax.jit
def _conditioned(factor: Array, between: Array, test: Array, y: Array) -> Gaussian:
    columns = y.reshape(len(y), -1)
    outputs = columns.shape[1]
    solved = jax.scipy.linalg.cho_solve((factor, True), jnp.concatenate([columns, between.T], axis=1))
    mean = (between @ solved[:, :outputs]).reshape(len(between), *y.shape[1:])
    return Gaussian(mean, test - between @ solved[:, outputs:])


def cholesky(function: str, kernel: np.ndarray, ridge: float) -> tuple[np.ndarray, bool]:
    """The factor of a kernel and a ridge on the host, for SciPy's solvers; a singular kernel raises an error."""
    added = kernel + ridge * np.eye(len(kernel), dtype=kernel.dtype)
    try:
        factor: tuple[np.ndarray, bool] = linalg.cho_factor(added)
    except linalg.LinAlgError:
        values = linalg.eigvalsh(added)
        least = len(values) * float(np.finfo(added.dtype).eps) * float(values[-1])
        ends = float(values[0]), float(values[-1])
        raise SingularKernelError(function, ends[0], ends[1], 10 * least, str(added.dtype)) from None
    pivots = np.diagonal(factor[0]) ** 2
    if pivots.min() <= len(kernel) * float(np.finfo(kernel.dtype).eps) * pivots.max():
        _check_spectrum(function, linalg.eigvalsh(added))
    return factor


def _check_spectrum(function: str, values: Any) -> None:
    """Raises where the smallest eigenvalue is lost in the rounding of the largest."""
    if isinstance(values, jax.core.Tracer):
        return
    smallest, largest = float(values[0]), float(values[-1])
    least = len(values) * float(jnp.finfo(values.dtype).eps) * largest
    if smallest <= least:
        raise SingularKernelError(function, smallest, largest, 10 * least, str(values.dtype))


__all__ = [
    "Gaussian",
    "SingularKernelError",
    "Training",
    "label_complexity",
    "log_evidence",
    "posterior",
    "training",
]
