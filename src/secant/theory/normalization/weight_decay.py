r"""Weight decay on scale-invariant losses: how soon gradients are small, and where the length of the weights settles.

One step is $w' = (1 - \eta\lambda)w - \eta\nabla L(w)$. Let $\bar w = w/|w|$ and
$\rho = \max_{|w|=1}\|\nabla^2L(w)\|_2$. By Pythagoras
$|w'|^2 = (1 - \eta\lambda)^2|w|^2 + \eta^2|\nabla L(\bar w)|^2/|w|^2$, and a step turns the weights by $\theta$ with
$\cos\theta = (1 - \eta\lambda)|w|/|w'|$. Along any run, with or without batches,

$$\sum_{t<T}\ln\cos\theta_t = T\ln(1 - \eta\lambda) - \ln(|w_T|/|w_0|) ,$$

so a run with bounded weights has $\cos\theta = 1 - \eta\lambda$ in the geometric mean. It turns by
$\sqrt{2\eta\lambda}$ per step, whatever the loss.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from secant.core.arguments import at_least_zero, positive
from secant.core.types import Real
from secant.theory.normalization.scale_invariance import _shrinkage

CEILING = math.pi**2 / 4
"""The largest range of a loss on the sphere over its smoothness; the slope is zero at both ends of a half circle."""


def turning_norm(lr: Real, smoothness: Real) -> float:
    r"""The value $\pi^2\rho\eta$ of $|w|^2$: above it a step descends.

    Below it large gradients make the weights longer.
    """
    return math.pi**2 * positive("turning_norm", "smoothness", smoothness) * positive("turning_norm", "lr", lr)


def gradient_floor(lr: Real, decay: Real, smoothness: Real) -> float:
    r"""The level $8\pi^4\rho^2\lambda\eta$ that $|\nabla L(\bar w)|^2$ reaches within a known time.

    No gradient on the sphere is larger than $\pi\rho$, so the level means something only if $\eta\lambda < 1/(8\pi^2)$.

    Args:
        lr: $\eta$.
        decay: $\lambda$, with $\eta\lambda$ below 1/2.
        smoothness: $\rho$.
    """
    product = _half("gradient_floor", lr, decay)
    return 8 * math.pi**4 * positive("gradient_floor", "smoothness", smoothness) ** 2 * product


def hitting_time(start: Real, lr: Real, decay: Real, smoothness: Real) -> int:
    r"""The number of steps within which $|\nabla L(\bar w_t)|^2$ falls below the floor at least once.

    It is $\frac1{2\eta\lambda}\Bigl(\Bigl|\ln\frac{|w_0|^2}{\pi^2\rho\eta}\Bigr| + 3\Bigr)$, rounded up, and so grows
    as the logarithm of $|w_0|$.

    Args:
        start: $|w_0|$.
        lr: $\eta$.
        decay: $\lambda$, with $\eta\lambda$ below 1/2.
        smoothness: $\rho$.

    Example:
        ```python
        from secant.theory.normalization.weight_decay import hitting_time

        print([hitting_time(start, 0.01, 0.01, 15.934578) for start in (1e-3, 10.0, 1e3)])
        ```
        ```text
        [86342, 35762, 81814]
        ```
    """
    ratio = _ratio("hitting_time", start, lr, smoothness)
    return math.ceil((abs(math.log(ratio)) + 3) / (2 * _half("hitting_time", lr, decay)))


def rising_time(lr: Real, decay: Real) -> int:
    r"""Steps within which short weights become long or a gradient is small, $1/(6\eta\lambda)$ rounded up.

    Long means $|w|^2 \ge \pi^2\rho\eta$, and small means below the floor.

    Args:
        lr: $\eta$.
        decay: $\lambda$, with $\eta\lambda$ below 1/2.
    """
    return math.ceil(1 / (6 * _half("rising_time", lr, decay)))


def falling_time(start: Real, lr: Real, decay: Real, smoothness: Real) -> int:
    r"""Steps from long weights to small gradients, $\frac1{2\eta\lambda}\ln\frac{2|w_0|^2}{\pi^2\rho\eta}$ rounded up.

    Args:
        start: $|w_0|$, with $|w_0|^2 > \pi^2\rho\eta$.
        lr: $\eta$.
        decay: $\lambda$, with $\eta\lambda$ below 1/2.
        smoothness: $\rho$.
    """
    ratio = _ratio("falling_time", start, lr, smoothness)
    if ratio <= 1:
        raise ValueError(
            f"falling_time: `start` squared must be above pi^2 rho lr = {turning_norm(lr, smoothness):g}, got "
            f"{float(start) ** 2:g}. For shorter weights use `rising_time`."
        )
    return math.ceil(math.log(2 * ratio) / (2 * _half("falling_time", lr, decay)))


def _ratio(caller: str, start: Any, lr: Any, smoothness: Any) -> float:
    if float(start) == 0:
        raise ValueError(f"{caller}: `start` is 0, and weights of length 0 have no direction. Use a length above 0.")
    return positive(caller, "start", start) ** 2 / turning_norm(lr, smoothness)


def _half(caller: str, lr: Any, decay: Any) -> float:
    product = _shrinkage(caller, lr, decay)[2]
    if product >= 0.5:
        raise ValueError(f"{caller}: `lr` times `decay` must be below 1/2, got {product:g}. Use a smaller one of them.")
    return product


class Equilibrium(NamedTuple):
    r"""The length at which scale-invariant weights settle, and the size of steps there.

    Attributes:
        norm: $\langle|w|^4\rangle^{1/4} = \bigl(\eta\langle|g(\bar w)|^2\rangle/(2\lambda)\bigr)^{1/4}$.
        angle: the angle of one step, in radians: $\arccos(1 - \eta\lambda) \approx \sqrt{2\eta\lambda}$.
        effective_lr: $\eta/|w|^2 = \sqrt{2\eta\lambda/\langle|g(\bar w)|^2\rangle}$, the step size on the sphere.
        time: steps in which the distance of $|w|^4$ from its equilibrium shrinks by $e$, $1/(4\eta\lambda)$. Weights
            that are far too long take $1/(2\eta\lambda)$ steps for every factor $e$ of $|w|^2$.
    """

    norm: Any
    angle: float
    effective_lr: Any
    time: float


def equilibrium(lr: Real, decay: Real, gradient: Real) -> Equilibrium:
    r"""The equilibrium of steps $w' = (1 - \eta\lambda)w - \eta g$ with $g \perp w$, $|g| = |g(\bar w)|/|w|$.

    To leading order in $\eta\lambda$ a step changes the mean of $|w|^4$ by
    $-4\eta\lambda\langle|w|^4\rangle + 2\eta^2\langle|g(\bar w)|^2\rangle$.

    Args:
        lr: $\eta$.
        decay: $\lambda$, with $\eta\lambda$ below 1.
        gradient: the root of the mean square of $|g(\bar w)| = |w|\,|g(w)|$, noise included; may be an array.

    Example:
        ```python
        from secant.theory.normalization.weight_decay import equilibrium

        found = equilibrium(lr=0.1, decay=5e-4, gradient=2.0)
        print(f"{found.norm:.3f} {found.angle:.5f} {found.effective_lr:.5f} {found.time:.0f}")
        ```
        ```text
        4.472 0.01000 0.00500 5000
        ```
    """
    eta, decays, product = _shrinkage("equilibrium", lr, decay)
    size = np.asarray(gradient, float)
    if not (np.isfinite(size) & (size > 0)).all():
        raise ValueError(f"equilibrium: `gradient` must be finite and above 0, got {gradient!r}.")
    norm = (eta * size**2 / (2 * decays)) ** 0.25
    return Equilibrium(norm, math.acos(1 - product), math.sqrt(2 * product) / size, 1 / (4 * product))


def norm_after(steps: Real, start: Real, lr: Real, decay: Real, gradient: Real) -> Any:
    r"""The length $|w_t|$ on its way to equilibrium, for gradients of one size.

    To leading order in the angle of a step $|w_t|^4 = v + (|w_0|^4 - v)(1 - \eta\lambda)^{4t}$, where $v$ is the
    equilibrium of $|w|^4$.

    Args:
        steps: $t$, a number or an array.
        start: $|w_0|$, above 0.
        lr: $\eta$.
        decay: $\lambda$, with $\eta\lambda$ below 1.
        gradient: $|g(\bar w)|$.
    """
    end = equilibrium(lr, decay, gradient).norm ** 4
    kept = 1 - _shrinkage("norm_after", lr, decay)[2]
    return (end + (positive("norm_after", "start", start) ** 4 - end) * kept ** (4 * np.asarray(steps))) ** 0.25


def decay_for_angle(lr: Real, angle: Real) -> float:
    r"""The decay with which a step turns scale-invariant weights by a given angle at equilibrium.

    It is $(1 - \cos\theta)/\eta$.

    Args:
        lr: $\eta$.
        angle: $\theta$ in radians, above 0 and below $\pi/2$.
    """
    eta, turn = positive("decay_for_angle", "lr", lr), positive("decay_for_angle", "angle", angle)
    if turn >= math.pi / 2:
        raise ValueError(f"decay_for_angle: `angle` must be below pi/2, got {turn:g}. No decay gives a larger angle.")
    return 2 * math.sin(turn / 2) ** 2 / eta


def least_descent(norm: Real, gradient: Real, lr: Real, decay: Real, smoothness: Real) -> Any:
    r"""The least decrease of the loss in a step.

    It is $\eta|g|^2\Bigl(\frac1{1-\eta\lambda} - \frac{\rho\eta}{2(1-\eta\lambda)^2|w|^2}\Bigr)$, and for
    $\eta\lambda \le 1/2$ at least $\eta|g|^2(1 - 2\rho\eta/|w|^2)$.

    Args:
        norm: $|w|$, above 0.
        gradient: $|g| = |\nabla L(w)|$ at $w$ itself.
        lr: $\eta$.
        decay: $\lambda$, at least 0.
        smoothness: $\rho$.
    """
    eta = positive("least_descent", "lr", lr)
    kept = 1 - eta * at_least_zero("least_descent", "decay", decay)
    size = np.asarray(norm, float)
    if not (size > 0).all():
        raise ValueError("least_descent: `norm` must be above 0, because weights of length 0 have no direction.")
    curved = eta * positive("least_descent", "smoothness", smoothness) / (2 * kept**2 * size**2)
    return eta * np.asarray(gradient, float) ** 2 * (1 / kept - curved)
