r"""Weak errors: the difference of two random processes in the mean of a test function, $\mathbb Eg(x) - \mathbb Eg(X)$.

A process approximates another at weak order $\alpha$ if for every smooth test function $g$ the largest such difference
up to a time is at most $C_g\eta^\alpha$. Differences are small compared with the spread of $g$ itself. Samples of both
processes are therefore drawn with the same random numbers and compared pair by pair.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from secant.core.arguments import whole

Test = Callable[[np.ndarray], np.ndarray]
"""A function of points `(..., d)` that gives one number per point."""


class WeakError(NamedTuple):
    r"""A difference of means, with its standard error.

    Attributes:
        value: estimate of $\mathbb Eg(x) - \mathbb Eg(X)$.
        error: its standard error, from the paired differences.
    """

    value: float
    error: float


class Order(NamedTuple):
    """A slope of log errors over log sizes, with its standard error; both are NaN if there is no slope."""

    value: float
    error: float


def bank(dim: int, loss: Test | None = None) -> dict[str, Test]:
    r"""A set of test functions by name: the first coordinate, squares, a product, a cosine, and the loss.

    Args:
        dim: number of coordinates of a point.
        loss: a loss as a function of points, to add to the set.
    """
    whole("bank", "dim", dim, 1)
    found: dict[str, Test] = {"x": lambda x: x[..., 0], "x^2": lambda x: x[..., 0] ** 2}
    if dim > 1:
        found["xy"] = lambda x: x[..., 0] * x[..., 1]
        found["|x|^2"] = lambda x: (x**2).sum(-1)
    found["cos"] = lambda x: np.cos(x.sum(-1))
    if loss is not None:
        found["loss"] = loss
    return found


def coupled(
    random: np.random.Generator, shape: tuple[int, ...], parts: int
) -> tuple[Float[np.ndarray, "..."], Float[np.ndarray, "parts ..."]]:
    r"""Standard normals for one coarse step and for its fine steps, $\xi = \sum_j\xi_j/\sqrt{parts}$.

    Args:
        random: source of randomness.
        shape: shape of the coarse normals.
        parts: number of fine steps in a coarse step.
    """
    fine = random.standard_normal((whole("coupled", "parts", parts, 1), *shape))
    return fine.sum(0) / np.sqrt(parts), fine


def weak_errors(tests: Mapping[str, Test], x: np.ndarray, X: np.ndarray) -> dict[str, WeakError]:
    r"""The weak errors $\mathbb Eg(x) - \mathbb Eg(X)$ of paired samples, for every test function.

    Args:
        tests: test functions by name.
        x: samples of one process, `(samples, d)`.
        X: samples of the other process, row by row with the same random numbers.

    Example:
        ```python
        import numpy as np
        from secant.theory.noise import weak_error

        x = np.random.default_rng(0).normal(size=(1_000, 1))
        found = weak_error.weak_errors(weak_error.bank(1), x, 1.01 * x)
        print(abs(found["x^2"].value + 0.0201) < 5 * found["x^2"].error < 0.01)
        ```
        ```text
        True
        ```
    """
    if np.shape(x) != np.shape(X) or len(x) < 2:
        raise ValueError(
            f"weak_errors: `x` and `X` must have the same number of samples, at least 2, got shapes {np.shape(x)} and "
            f"{np.shape(X)}."
        )
    found = {}
    for name, test in tests.items():
        apart = test(x) - test(X)
        found[name] = WeakError(float(apart.mean()), float(apart.std(ddof=1) / np.sqrt(len(apart))))
    return found


def order(sizes: ArrayLike, errors: ArrayLike, noise: ArrayLike | None = None) -> Order:
    r"""The exponent $\alpha$ of $|e| = C\eta^\alpha$, by least squares in logarithms.

    With standard errors the points have the weights $(e/s)^2$, and the error of the slope follows from them. A point
    with a relative error above one third has no weight.

    Args:
        sizes: $\eta$.
        errors: $e$ at each, of any sign.
        noise: $s$, their standard errors.
    """
    log, e = np.log(np.asarray(sizes, float)), np.abs(np.asarray(errors, float))
    s = np.zeros_like(e) if noise is None else np.asarray(noise, float)
    kept = (e > 3 * s) & (e > 0)
    if kept.sum() < 2:
        return Order(np.nan, np.nan)
    weight = np.ones(kept.sum()) if noise is None else (e[kept] / s[kept]) ** 2
    place = log[kept] - weight @ log[kept] / weight.sum()
    spread = weight @ place**2
    return Order(float(weight * place @ np.log(e[kept]) / spread), 0.0 if noise is None else float(spread**-0.5))


def telescoped(
    step: np.ndarray, reference: np.ndarray, start: np.ndarray, test: np.ndarray, steps: int
) -> Float[np.ndarray, " steps"]:
    r"""The error of $k$ steps, split into the errors of the single steps.

    The moments obey linear laws, $P$ for a step and $Q$ for the reference over the same time. With a test function $g$
    of the moments $g\cdot P^kz - g\cdot Q^kz = \sum_{j<k}g\cdot Q^{k-1-j}(P - Q)P^jz$. The result has the terms of this
    sum: term $j$ is the error of step $j$ alone, carried on by the reference.

    Args:
        step: $P$.
        reference: $Q$.
        start: $z$.
        test: $g$.
        steps: $k$, at least 1.
    """
    steps = whole("telescoped", "steps", steps, 1)
    ahead = [np.asarray(test, float)]
    for _ in range(steps - 1):
        ahead.append(ahead[-1] @ reference)
    z, terms = np.asarray(start, float), np.empty(steps)
    for j in range(steps):
        terms[j] = ahead[steps - 1 - j] @ ((step - reference) @ z)
        z = step @ z
    return terms
