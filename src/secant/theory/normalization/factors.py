r"""A number written as a product of equal factors, $W = w^k$, and gradient descent on the factors.

A step on $\ell(\prod_iw_i)$ moves every factor by $-\eta\,\ell'(W)\,w^{k-1}$: the slope of the loss times a power of
the factor. This power makes deep products explode.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from secant.core.arguments import positive, whole
from secant.core.types import Real


def exploding_lr(product: Real, slope: Real, factors: int) -> float:
    r"""The step size above which a product of equal factors grows for ever, $\frac2{\ell'(W_0)}W_0^{2/k-1}$.

    A step gives $w' = w(1 - \eta\,\ell'(W)w^{k-2})$. If $\eta\,\ell'w^{k-2} > 2$, the factor overshoots zero and ends
    farther away than it started. An even number of factors makes the product positive again, and on a convex loss the
    slope there is larger still.

    Args:
        product: $W_0$, above 0 and above the minimiser.
        slope: $\ell'(W_0)$, above 0.
        factors: $k$, an even number.

    Example:
        ```python
        from secant.theory.normalization.factors import exploding_lr

        print(round(exploding_lr(2.0, 1.4040, 4), 4))
        ```
        ```text
        1.0073
        ```
    """
    k = _even("exploding_lr", factors)
    return 2 / positive("exploding_lr", "slope", slope) * positive("exploding_lr", "product", product) ** (2 / k - 1)


def step(product: Real, slope: Real, factors: int, lr: Real) -> Any:
    r"""The product after one step on all of its equal factors, $(w - \eta\,\ell'(w^k)\,w^{k-1})^k$.

    Args:
        product: $W = w^k$, at least 0.
        slope: $\ell'(W)$.
        factors: $k$, an even number.
        lr: $\eta$.
    """
    k = _even("step", factors)
    w = np.asarray(product, float) ** (1 / k)
    return (w - np.asarray(lr, float) * np.asarray(slope, float) * w ** (k - 1)) ** k


def _even(caller: str, factors: int) -> int:
    k = whole(caller, "factors", factors, least=2)
    if math.fmod(k, 2):
        raise ValueError(
            f"{caller}: `factors` must be even, got {k}. The product of an odd number of factors turns negative when "
            "they overshoot, and the rule does not hold."
        )
    return k
