r"""First-order methods of fixed steps, written as lower triangular matrices.

A first-order method has fixed steps if these do not depend on the gradients. Such a method is a lower triangular matrix
$H$: with $g_j$ the gradient at $x_j$,

$$x_{i+1} = x_i - \sum_{j\le i}H_{ij}\,g_j, \qquad i = 0, \dots, N - 1 .$$

Gradient descent has its step sizes on the diagonal and zeros elsewhere; momentum fills the triangle. The last row leads
to the point that the method returns, where the method takes no gradient.

Example:
    ```python
    from secant.theory.descent import step_matrices
    from secant.theory.edge import stability

    print(step_matrices.of(stability.heavy_ball(lr=0.1, beta=0.5), steps=3))
    ```
    ```text
    [[0.1   0.    0.   ]
     [0.05  0.1   0.   ]
     [0.025 0.05  0.1  ]]
    ```
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from secant.core.arguments import positive, whole
from secant.theory.descent.rates import optimised_theta
from secant.theory.edge.stability import LinearRule

Steps = Float[np.ndarray, "steps steps"]


def gradient(sizes: Sequence[float] | Float[np.ndarray, "steps"]) -> Steps:
    """The matrix of gradient descent with the given step sizes, one after the other."""
    found = np.asarray(sizes, float)
    if found.ndim != 1 or not found.size or not np.isfinite(found).all():
        raise ValueError(f"gradient: `sizes` must be a list of finite step sizes, got {sizes!r}.")
    return np.diag(found)


def silver(steps: int, smooth: float = 1.0) -> Steps:
    r"""Gradient descent with the long steps $(1 + (1 + \sqrt2)^{\nu(i) - 1})/L$, the silver schedule.

    Here $\nu(i)$ counts how often 2 divides $i = 1, 2, \dots$ Every second step is $\sqrt2/L$, and some are longer than
    any constant step may be. After $N = 2^k - 1$ steps the guarantee falls as $N^{-1.27}$; constant steps have
    $N^{-1}$.

    Args:
        steps: $N$.
        smooth: $L$.
    """
    steps, smooth = whole("silver", "steps", steps), positive("silver", "smooth", smooth)
    powers = np.array([(i & -i).bit_length() - 2 for i in range(1, steps + 1)])
    return np.diag((1 + (1 + math.sqrt(2)) ** powers) / smooth)


def accelerated(steps: int, smooth: float = 1.0) -> Steps:
    r"""Nesterov's method for convex losses: $y_{i+1} = x_i - g_i/L$ and
    $x_{i+1} = y_{i+1} + \frac{\theta_i - 1}{\theta_{i+1}}(y_{i+1} - y_i)$, which returns $y_N$.

    Args:
        steps: $N$.
        smooth: $L$.
    """
    return _two_sequences("accelerated", steps, smooth, False)


def optimised(steps: int, smooth: float = 1.0) -> Steps:
    r"""The optimised gradient method, whose worst case on convex losses no method can improve:
    $x_{i+1} = y_{i+1} + \frac{\theta_i - 1}{\theta_{i+1}}(y_{i+1} - y_i) + \frac{\theta_i}{\theta_{i+1}}(y_{i+1} -
    x_i)$ with $\theta$ of [`optimised_theta`][secant.theory.descent.rates.optimised_theta].

    Args:
        steps: $N$.
        smooth: $L$.
    """
    return _two_sequences("optimised", steps, smooth, True)


def _two_sequences(caller: str, steps: int, smooth: float, best: bool) -> Steps:
    steps, smooth = whole(caller, "steps", steps), positive(caller, "smooth", smooth)
    theta = optimised_theta(steps)
    x, y = np.zeros((steps + 1, steps)), np.zeros((steps + 1, steps))
    for i, (now, then) in enumerate(itertools.pairwise(theta)):
        y[i + 1] = x[i]
        y[i + 1, i] += 1 / smooth
        x[i + 1] = y[i + 1] + (now - 1) / then * (y[i + 1] - y[i]) + best * now / then * (y[i + 1] - x[i])
    if not best:
        x[-1] = y[-1]
    return np.diff(x, axis=0)


def of(method: Any, steps: int | None = None) -> Steps:
    """The matrix of a method of fixed steps.

    Args:
        method: a matrix of steps, which is cut to its upper left corner; a
            [`LinearRule`][secant.theory.edge.stability.LinearRule]; or one of
            [`secant.optimisers`][secant.optim.optimisers] or a transformation of optax, with fixed steps.
        steps: number of steps; by default all rows of a matrix.

    Raises:
        ValueError: if the steps depend on the gradients, or on where the method starts.
    """
    if isinstance(method, LinearRule):
        return _of_rule(method, _number("LinearRule", steps))
    transformation = getattr(method, "transformation", method)
    if callable(getattr(transformation, "init", None)) and callable(getattr(transformation, "update", None)):
        name = str(getattr(method, "name", "the transformation"))
        return _of_transformation(name, transformation, _number(name, steps))
    return _of_matrix(method, steps)


def _number(name: str, steps: int | None) -> int:
    if steps is None:
        raise ValueError(f"steps: the number of steps of {name} is missing. Give a whole number of at least 1.")
    return whole("of", "steps", steps)


def _of_matrix(method: Any, steps: int | None) -> Steps:
    try:
        found = np.asarray(method, float)
    except (TypeError, ValueError):
        raise TypeError(
            f"method: {type(method).__name__} is no method of fixed steps. Use a lower triangular matrix of steps, a "
            "secant.theory.edge.stability.LinearRule, or an optimiser such as secant.optimisers.gd(0.1)."
        ) from None
    if found.ndim != 2 or found.shape[0] != found.shape[1] or not found.size:
        raise ValueError(f"method: a matrix of steps must be square, one row per step; got shape {found.shape}.")
    if not np.isfinite(found).all() or np.triu(found, 1).any():
        raise ValueError("method: a matrix of steps must be finite, and zero above its diagonal.")
    if steps is None:
        return found
    if whole("of", "steps", steps) > len(found):
        raise ValueError(f"steps: the matrix has {len(found)} steps, but {steps} were requested. Use at most its own.")
    return found[:steps, :steps]


def _of_rule(rule: LinearRule, steps: int) -> Steps:
    (p1, p2), (q1, q2) = rule.position, rule.gradient
    if abs(p1 + p2 - 1) > 1e-12:
        raise ValueError(
            f"method: the rule's positions have the weights {p1:g} and {p2:g}. They must sum to 1, or the rule pulls "
            "to the origin whatever the loss is. Leave out weight decay."
        )
    found = np.zeros((steps, steps))
    for i in range(steps):
        if i:
            found[i] = -p2 * found[i - 1]
            found[i, i - 1] += q2
        found[i, i] += q1
    return found


def _of_transformation(name: str, transformation: Any, steps: int) -> Steps:
    """The matrix of a transformation: on unit vectors as gradients, it moves by minus the rows of its matrix."""
    import jax

    refusal = (
        f"method: the steps of {name} depend on the gradients or on where it is, and have no worst case of this kind. "
        "Use gd, momentum or nesterov of secant.optimisers, a matrix of steps, or for Adam at a fixed preconditioner "
        "secant.theory.edge.stability.adam."
    )
    random = np.random.default_rng(0)
    units, others = np.eye(steps), random.standard_normal((steps, 3))
    try:
        with jax.enable_x64(True):
            found = -_moves(transformation, units, np.zeros(steps))
            seen = -_moves(transformation, others, random.standard_normal(3))
    except (TypeError, ValueError) as error:
        raise ValueError(refusal) from error
    if not np.allclose(seen, found @ others, rtol=1e-9, atol=1e-9 * np.abs(seen).max()):
        raise ValueError(refusal)
    return found


def _moves(transformation: Any, gradients: np.ndarray, x: np.ndarray) -> np.ndarray:
    state, moves = transformation.init(x), []
    for gradient in gradients:
        move, state = transformation.update(gradient, state, x)
        moves.append(np.asarray(move, float))
        x = x + moves[-1]
    return np.stack(moves)
