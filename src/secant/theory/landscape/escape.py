r"""Escape from saddle points: how wide the stuck region is, how likely a push ends in it, how long escape takes.

Near a saddle with curvature $-\gamma$ along $e_1$, gradient descent multiplies the part along $e_1$ by
$1 + \eta\gamma$ per step. Two starts that differ by $\eta\omega$ along $e_1$ are $(1 + \eta\gamma)^t\eta\omega$ apart
after $t$ steps, so at least one of them soon leaves. The set of stuck starts is therefore thin along $e_1$, and a
random push rarely hits it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import special

from secant.core.arguments import at_least_zero, positive, whole
from secant.core.types import Real


def stuck_volume(dim: int) -> float:
    r"""The area of a ball's section through the centre, times the radius, over the volume of the ball.

    It is $\Gamma(\frac d2 + 1)/(\sqrt\pi\,\Gamma(\frac d2 + \frac12))$. A set of width
    $\omega$ along one axis fills at most $\frac\omega r$ times this share of a ball of radius $r$. The number is at
    most $\sqrt{(d + 1)/(2\pi)}$, hence at most $\sqrt{d/\pi}$, and at least $\sqrt{d/(2\pi)}$.

    Args:
        dim: $d$.

    Example:
        ```python
        from secant.theory.landscape import escape

        print([round(escape.stuck_volume(d), 5) for d in (1, 2, 10, 100)])
        ```
        ```text
        [0.5, 0.63662, 1.29345, 3.99941]
        ```
    """
    d = whole("stuck_volume", "dim", dim)
    return math.exp(math.lgamma(d / 2 + 1) - math.lgamma(d / 2 + 0.5)) / math.sqrt(math.pi)


def slab_share(width: Real, dim: int, offset: Real = 0.0) -> Any:
    r"""The share of the unit ball between two planes, exactly.

    One coordinate of a uniform point of the ball has the density $\propto(1 - u^2)^{(d-1)/2}$, so the share is a
    difference of two incomplete beta functions.

    Args:
        width: $w$, the distance of the planes.
        dim: $d$.
        offset: the distance of the middle of the slab from the centre.
    """
    d = whole("slab_share", "dim", dim)
    w, c = np.asarray(width, float), np.asarray(offset, float)
    if not (np.isfinite(w).all() and (w >= 0).all()):
        raise ValueError(f"slab_share: `width` must be a finite number of at least 0, got {width!r}.")
    below = lambda u: special.betainc((d + 1) / 2, (d + 1) / 2, (1 + np.clip(u, -1, 1)) / 2)  # noqa: E731
    return below(c + w / 2) - below(c - w / 2)


def stuck_chance(width: Real, radius: Real, dim: int) -> Any:
    r"""A bound on the chance that a push, uniform in a ball, ends in a set of a given width.

    $\frac\omega r\,\Gamma(\frac d2 + 1)/(\sqrt\pi\,\Gamma(\frac d2 + \frac12))$; at most 1.

    Args:
        width: $\omega$.
        radius: $r$ of the ball.
        dim: $d$.
    """
    r = positive("stuck_chance", "radius", radius)
    return np.minimum(np.asarray(width, float) / r * stuck_volume(dim), 1.0)


def growth(lr: Real, curvature: Real) -> float:
    r"""The factor by which one step grows the distance along the way out, $1 + \eta\gamma$.

    Args:
        lr: $\eta$.
        curvature: $\gamma$, minus the smallest eigenvalue of the Hessian.
    """
    return 1 + positive("growth", "lr", lr) * positive("growth", "curvature", curvature)


def steps_per_decade(lr: Real, curvature: Real) -> float:
    r"""The extra steps after a push ten times smaller, $\ln 10/\ln(1 + \eta\gamma)$; arguments as in `growth`.

    Example:
        ```python
        from secant.theory.landscape import escape

        print(round(escape.steps_per_decade(0.05, 1.0), 2))
        ```
        ```text
        47.19
        ```
    """
    return math.log(10) / math.log(growth(lr, curvature))


def separation(steps: Any, lr: Real, curvature: Real, width: Real) -> Any:
    r"""The distance of two runs on a quadratic that started $\eta\omega$ apart, $(1 + \eta\gamma)^t\eta\omega$.

    Args:
        steps: $t$.
        lr: $\eta$.
        curvature: $\gamma$.
        width: $\omega$.
    """
    return growth(lr, curvature) ** np.asarray(steps) * lr * at_least_zero("separation", "width", width)


def improve_or_localize(lr: Real, steps: Any, decrease: Any) -> Any:
    r"""The farthest that gradient descent can be from its start up to step $t$, $\sqrt{2\eta t\,(f(x_0) - f(x_t))}$.

    It holds for $\eta \le 1/\ell$, with $\ell$ a Lipschitz constant of the gradient. A run that has gained little has
    not gone far.

    Args:
        lr: $\eta$.
        steps: $t$.
        decrease: $f(x_0) - f(x_t)$.
    """
    return np.sqrt(2 * positive("improve_or_localize", "lr", lr) * np.asarray(steps) * np.asarray(decrease))
