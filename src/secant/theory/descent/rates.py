r"""Rates of first-order methods, with their constants.

Every bound is a function of what a run can measure. The loss is $\beta$-smooth, $w_1, \dots, w_{T+1}$ are the points of
$T$ steps, $\nabla_t$ is the gradient at $w_t$, and $M \ge f(w_1) - f(w_{T+1})$ is the drop. A step $\eta$ along minus
the gradient lowers the loss by at least $(\eta - \beta\eta^2/2)|\nabla_t|^2$; the bounds sum this inequality.

Example:
    ```python
    from secant.theory.descent import rates

    print(rates.gradient_descent(drop=1.0, smooth=2.0, steps=100))  # of the mean squared gradient
    print(rates.least_gradient(drop=1.0, smooth=2.0, steps=100))  # of the least of them
    print(rates.stochastic(drop=1.0, smooth=2.0, second_moment=4.0, steps=100))
    ```
    ```text
    0.04
    0.026755852842809364
    0.4
    ```
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from secant.core.arguments import at_least_zero, positive, whole
from secant.core.types import Real


def descent(lr: Real, smooth: Real) -> Any:
    r"""The least decrease of the loss in a step, over $|\nabla|^2$: $\eta - \beta\eta^2/2$.

    It is positive below $2/\beta$, at least $\eta/2$ up to $1/\beta$, and exact on a parabola of curvature $\beta$.

    Args:
        lr: $\eta$, the step size.
        smooth: $\beta$.
    """
    lr = np.asarray(lr, float)
    return lr - np.asarray(smooth, float) * lr**2 / 2


def gradient_descent(drop: Real, smooth: Real, steps: Real) -> Any:
    r"""Gradient descent with $\eta = 1/\beta$: $\frac1T\sum_t|\nabla_t|^2 \le 2\beta M/T$.

    A parabola attains the bound: the first step ends the run, and lowers the loss by $|\nabla_1|^2/2\beta$.

    Args:
        drop: $M$.
        smooth: $\beta$.
        steps: $T$.
    """
    return 2 * np.asarray(smooth, float) * drop / np.asarray(steps, float)


def least_gradient(drop: Real, smooth: Real, steps: Real) -> Any:
    r"""The least gradient with $\eta = 1/\beta$: $\min_{t\le T}|\nabla_t|^2 \le 4\beta M/(3T - 1)$, the best bound.

    Two neighbours of the run have $f_t - f_{t+1} \ge (\frac12|\nabla_t|^2 + \frac14|\nabla_{t+1}|^2)/\beta$, whether
    the loss is convex or not. Summed, the gradients $1, \dots, T$ have the weights $\frac12, \frac34, \dots, \frac34$.
    The [`staircase`][secant.theory.descent.rates.staircase] attains the bound.

    Args:
        drop: $M$.
        smooth: $\beta$.
        steps: $T$.
    """
    return 4 * np.asarray(smooth, float) * drop / (3 * np.asarray(steps, float) - 1)


def staircase(w: Real, steps: int, smooth: float = 1.0) -> tuple[Any, Any]:
    r"""The loss on which gradient descent with $\eta = 1/\beta$ is slowest, and its derivative.

    The run starts at $w = 0$ and moves left in steps of $1/\beta$. Within each step the slope falls from 1 to
    $\frac12$ and rises again, always with curvature $\pm\beta$. After the last step it falls to zero and stays there.
    Every gradient of the run is 1, and the drop is $(3T - 1)/4\beta$.

    Args:
        w: points, an array of any shape.
        steps: $T$.
        smooth: $\beta$.
    """
    steps, smooth = whole("staircase", "steps", steps), positive("staircase", "smooth", smooth)
    went = -np.asarray(w, float) * smooth  # in steps
    inside = np.clip(went, 0, steps - 1)
    stairs = np.floor(inside)
    u = inside - stairs
    lost = np.where(u < 0.5, u - u**2 / 2, 0.25 + u**2 / 2)  # the integral of the slope over a part of a step
    last = np.clip(went - (steps - 1), 0, 1)
    value = -(0.75 * stairs + lost + last - last**2 / 2 + np.minimum(went, 0)) / smooth
    return value, np.where(went > steps - 1, 1 - last, np.where(u < 0.5, 1 - u, u))


def stochastic(drop: Real, smooth: Real, second_moment: Real, steps: Real, lr: Real | None = None) -> Any:
    r"""Stochastic gradients: $\mathbb E\frac1T\sum_t|\nabla_t|^2 \le \frac M{T\eta} + \frac{\eta\beta\sigma^2}2$.

    With $\eta = \sqrt{M/\beta\sigma^2T}$ this is $\frac32\sqrt{M\beta\sigma^2/T}$. With the best step size, the
    default, it is $\sqrt{2M\beta\sigma^2/T}$.

    Args:
        drop: $M$, of the expected loss.
        smooth: $\beta$.
        second_moment: $\sigma^2 \ge \mathbb E|\hat\nabla_t|^2$ of the estimated gradient; this is not a variance.
        steps: $T$.
        lr: $\eta$; by default the best one.
    """
    if lr is None:
        lr = stochastic_step(drop, smooth, second_moment, steps)
    lr = np.asarray(lr, float)
    return drop / (np.asarray(steps, float) * lr) + lr * smooth * second_moment / 2


def stochastic_step(drop: Real, smooth: Real, second_moment: Real, steps: Real) -> Any:
    r"""The step size $\eta = \sqrt{2M/\beta\sigma^2T}$ at which [`stochastic`][secant.theory.descent.rates.stochastic]
    is least.
    """
    return np.sqrt(2 * np.asarray(drop, float) / (np.asarray(smooth, float) * second_moment * steps))


def batches(drop: Real, smooth: Real, variance: Real, batch: Real, steps: Real, lr: Real) -> Any:
    r"""Batches: $\mathbb E\frac1T\sum_t|\nabla_t|^2 \le \frac{2M}{T\eta} + \frac{\beta\eta\gamma^2}B$ for
    $\eta \le 1/\beta$.

    Args:
        drop: $M$.
        smooth: $\beta$.
        variance: $\gamma^2 \ge \mathbb E|\hat\nabla - \nabla|^2$ of one sample.
        batch: $B$, samples of a step, drawn with replacement.
        steps: $T$.
        lr: $\eta$.
    """
    lr = np.asarray(lr, float)
    return 2 * drop / (np.asarray(steps, float) * lr) + smooth * lr * variance / np.asarray(batch, float)


class Plan(NamedTuple):
    """A step size, and the number of steps to take with it.

    Attributes:
        lr: the step size.
        steps: a sufficient number of steps.
    """

    lr: Any
    steps: Any


def batch_plan(drop: Real, smooth: Real, variance: Real, batch: Real, accuracy: Real) -> Plan:
    r"""The step size and number of steps that bring the mean squared gradient to $\epsilon^2$ with batches of $B$.

    Both terms of [`batches`][secant.theory.descent.rates.batches] get half of $\epsilon^2$:
    $\eta = \min(1/\beta, B\epsilon^2/2\beta\gamma^2)$ and $T = 4M/\eta\epsilon^2$. Up to $B = 2\gamma^2/\epsilon^2$
    twice the batch halves the steps; larger batches save none.

    Args:
        drop: $M$.
        smooth: $\beta$.
        variance: $\gamma^2$, of one sample.
        batch: $B$.
        accuracy: $\epsilon$.
    """
    batch, squared = np.asarray(batch, float), np.asarray(accuracy, float) ** 2
    lr = np.minimum(1.0, batch * squared / (2 * np.asarray(variance, float))) / smooth
    return Plan(lr, 4 * drop / (lr * squared))


def harmonic(squares: Sequence[float] | Float[np.ndarray, "steps"]) -> tuple[float, float]:
    r"""The sum $\sum_t a_t/A_t$ with $A_t = a_1 + \dots + a_t$, and its bound $1 + \log(A_T/A_1)$.

    Args:
        squares: $a_t$, the first above 0 and the others at least 0.
    """
    a = np.asarray(squares, float)
    totals = np.cumsum(a)
    if not totals.size or not totals[0] > 0 or (a < 0).any():
        raise ValueError("harmonic: `squares` must begin above 0 and never be below 0. Pass squared gradients.")
    return float((a / totals).sum()), 1 + math.log(totals[-1] / totals[0])


def adagrad_norm(drop: Real, smooth: Real, total: Real, first: Real, steps: Real, lr: Real = 1.0) -> Any:
    r"""AdaGrad with one step size for all coordinates: $\frac1T\sum_t|\nabla_t|^2 \le S\sqrt{A_T}/T$ with
    $S = M/\eta + \frac{\beta\eta}2(1 + \log(A_T/A_1))$.

    The steps are $\eta\nabla_t/\sqrt{A_t}$, $A_t = \sum_{i\le t}|\nabla_i|^2$, with exact gradients. With noise, the
    step size would depend on the noise that the step should average out. Because $A_T$ is itself the bounded sum, the
    bound also gives $\sum_t|\nabla_t|^2 \le S^2$.

    Args:
        drop: $M$.
        smooth: $\beta$.
        total: $A_T$.
        first: $A_1$.
        steps: $T$.
        lr: $\eta$.
    """
    total, lr = np.asarray(total, float), np.asarray(lr, float)
    weighted = drop / lr + smooth * lr / 2 * (1 + np.log(total / np.asarray(first, float)))
    return weighted * np.sqrt(total) / steps


def delayed_harmonic(squares: Sequence[float] | Float[np.ndarray, "steps *d"], sigma: float) -> tuple[Any, Any]:
    r"""The sum $\sum_t a_t/(A_{t-1} + \sigma^2)$, and its bound $\log_2(1 + A_T/\sigma^2)$ for
    $0 \le a_t \le \sigma^2$.

    Every term is at most $\log_2(1 + a_t/(A_{t-1} + \sigma^2))$, because $x \le \log_2(1 + x)$ up to 1.

    Args:
        squares: $a_t$, along the first axis.
        sigma: $\sigma$.
    """
    a, floor = np.asarray(squares, float), positive("delayed_harmonic", "sigma", sigma) ** 2
    if (a < 0).any() or (a > floor * (1 + 1e-12)).any():
        raise ValueError(
            f"delayed_harmonic: `squares` must lie between 0 and sigma^2 = {floor:g}, got {a.min():g} to {a.max():g}. "
            "Give a `sigma` that no entry of a gradient exceeds."
        )
    totals = np.cumsum(a, 0)
    return (a / (totals - a + floor)).sum(0), np.log2(1 + totals[-1] / floor)


def adagrad_delayed(
    drop: Real, smooth: Real, squares: Float[np.ndarray, "steps d"], sigma: float, lr: Real = 1.0
) -> Any:
    r"""AdaGrad with a step size for each coordinate, from past gradients only:
    $\frac1T\sum_t|\nabla_t|^2 \le S\max_j\sqrt{A_{T-1}(j) + \sigma^2}/T$ with
    $S = M/\eta + \frac{\beta\eta}2\sum_j\log_2(1 + A_T(j)/\sigma^2) \le M/\eta + \frac{d\beta\eta}2\log_2(1 + T)$.

    The steps are $\eta\nabla_t(j)/\sqrt{A_{t-1}(j) + \sigma^2}$, $A_t(j) = \sum_{i\le t}\nabla_i(j)^2$, with no entry
    of a gradient above $\sigma$. The step size does not depend on the gradient that it multiplies. So with noise, too,
    $\mathbb E\sum_{t,j}\nabla_t(j)^2/\sqrt{A_{t-1}(j) + \sigma^2} \le \mathbb E S$.

    Args:
        drop: $M$.
        smooth: $\beta$.
        squares: $\nabla_t(j)^2$.
        sigma: $\sigma$.
        lr: $\eta$.
    """
    squares, lr = np.asarray(squares, float), np.asarray(lr, float)
    weighted = drop / lr + smooth * lr / 2 * delayed_harmonic(squares, sigma)[1].sum()
    return weighted * np.sqrt(squares[:-1].sum(0).max() + sigma**2) / len(squares)


def polyak_lojasiewicz(mu: Real, smooth: Real) -> Any:
    r"""The factor $1 - \mu/2L$ of the excess loss in a step of size $1/L$, if $|\nabla f|^2 \ge \mu(f - f_*)$.

    In formulas, $f_{t+1} - f_* \le (1 - \mu/2L)(f_t - f_*)$. A parabola of curvature $c$ has $\mu = 2c$. For a
    condition of the form $\frac12|\nabla f|^2 \ge c(f - f_*)$ pass $\mu = 2c$.

    Args:
        mu: $\mu$, at most $2L$.
        smooth: $L$.
    """
    return 1 - np.asarray(mu, float) / (2 * np.asarray(smooth, float))


def restricted_secant(tau: Real, smooth: Real, lr: Real | None = None) -> Any:
    r"""The factor of $|w - w_*|^2$ in a step, if $\nabla f\cdot(w - w_*) \ge \tau|w - w_*|^2$.

    In formulas, $|w_{t+1} - w_*|^2 \le (1 - 2\eta\tau + \eta^2L^2)|w_t - w_*|^2$. The factor is least at
    $\eta = \tau/L^2$, the default, where it is $1 - \tau^2/L^2$.

    Args:
        tau: $\tau$, at most $L$.
        smooth: $L$.
        lr: $\eta$.
    """
    tau, smooth = np.asarray(tau, float), np.asarray(smooth, float)
    lr = tau / smooth**2 if lr is None else np.asarray(lr, float)
    return 1 - 2 * lr * tau + lr**2 * smooth**2


def weakly_quasi_convex(tau: Real, weak_smooth: Real, distance: Real, steps: Real, lr: Real | None = None) -> Any:
    r"""The least excess loss if $\nabla f\cdot(w - w_*) \ge \tau(f - f_*)$ and $|\nabla f|^2 \le \Gamma(f - f_*)$.

    In formulas, $\min_{t<T}f(w_t) - f_* \le |w_0 - w_*|^2/(T\eta(2\tau - \eta\Gamma))$. At $\eta = \tau/\Gamma$, the
    default, the bound is $\Gamma|w_0 - w_*|^2/\tau^2T$. The rate is not geometric: on $w^4$ the loss falls as $1/t^2$.

    Args:
        tau: $\tau$.
        weak_smooth: $\Gamma$; $2L$ for an $L$-smooth loss.
        distance: $|w_0 - w_*|$.
        steps: $T$.
        lr: $\eta$, below $2\tau/\Gamma$.
    """
    tau, weak_smooth = np.asarray(tau, float), np.asarray(weak_smooth, float)
    lr = tau / weak_smooth if lr is None else np.asarray(lr, float)
    return np.asarray(distance, float) ** 2 / (np.asarray(steps, float) * lr * (2 * tau - lr * weak_smooth))


class Momentum(NamedTuple):
    r"""Step size and momentum of a heavy ball, and the factor by which a step shrinks the error in the long run.

    Attributes:
        lr: $\eta$.
        beta: $\beta$.
        factor: factor of the distance from the minimum.
    """

    lr: float
    beta: float
    factor: float


def heavy_ball(low: float, high: float) -> Momentum:
    r"""The best momentum for curvatures between $\mu$ and $L$: $\eta = 4/(\sqrt L + \sqrt\mu)^2$ and
    $\sqrt\beta = (\sqrt L - \sqrt\mu)/(\sqrt L + \sqrt\mu)$, which is its factor.

    Every curvature between the two has a pair of complex roots of modulus $\sqrt\beta$, see
    [`stability`][secant.theory.edge.stability.LinearRule]. On a parabola no gradient method is faster. On other losses
    the heavy ball may not converge at all.

    Args:
        low: $\mu$, above 0.
        high: $L$, at least $\mu$.
    """
    low, high = positive("heavy_ball", "low", low), positive("heavy_ball", "high", high)
    if high < low:
        raise ValueError(f"heavy_ball: `high` must be at least `low`, got high {high!r} and low {low!r}.")
    total = math.sqrt(low) + math.sqrt(high)
    factor = (high - low) / total**2  # without the cancellation of the roots
    return Momentum(4 / total**2, factor**2, factor)


def convex_descent(distance: Real, smooth: Real, steps: Real) -> Any:
    r"""The exact worst case of gradient descent with $\eta = 1/L$ on convex losses,
    $f(w_N) - f_* \le L|w_0 - w_*|^2/(4N + 2)$.
    """
    return np.asarray(smooth, float) * np.asarray(distance, float) ** 2 / (4 * np.asarray(steps, float) + 2)


def optimised_theta(steps: int) -> Float[np.ndarray, "n"]:
    r"""The parameters $\theta_i$ of the optimised gradient method.

    $\theta_0 = 1$, $\theta_{i+1} = \frac12(1 + \sqrt{1 + 4\theta_i^2})$, and at the end
    $\theta_N = \frac12(1 + \sqrt{1 + 8\theta_{N-1}^2})$.
    """
    steps = whole("optimised_theta", "steps", steps, least=0)
    theta = [1.0]
    for step in range(1, steps + 1):
        theta.append((1 + math.sqrt(1 + (8 if step == steps else 4) * theta[-1] ** 2)) / 2)
    return np.array(theta)


def optimised(distance: Real, smooth: Real, steps: int) -> Any:
    r"""The exact worst case of the optimised gradient method on convex losses, $L|w_0 - w_*|^2/2\theta_N^2$.

    No method that uses $N$ gradients has a better worst case, if the dimension is large enough.
    """
    at_least_zero("optimised", "steps", steps)
    return np.asarray(smooth, float) * np.asarray(distance, float) ** 2 / (2 * optimised_theta(steps)[-1] ** 2)
