"""Whether a function is homogeneous in its parameters, and its degree."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from secant.core.device import jit
from secant.core.types import Params


class Homogeneity(NamedTuple):
    r"""The degree of homogeneity of a function at one point, by Euler's identity, and how well it fits.

    Attributes:
        degree: the $\alpha$ that fits $\nabla f\cdot\theta = \alpha f$ best.
        residual: the largest $|\nabla f\cdot\theta - \alpha f|$ over the largest of $|f|$ and $|\nabla f\cdot\theta|$.
            It is rounding where $f(c\,\theta) = c^\alpha f(\theta)$ holds near the point, and not small elsewhere.
    """

    degree: Array
    residual: Array


def homogeneity(f: Callable[[Params, Any], Array], params: Params, x: Any) -> Homogeneity:
    r"""The degree of homogeneity of $f$ in its parameters, by Euler's identity $\nabla f\cdot\theta = \alpha f$.

    It costs one derivative, along the parameters themselves. A network of $L$ layers without biases and with ReLU has
    degree $L$; biases beyond the first layer or another activation leave a residual.

    Args:
        f: any `f(params, x)`.
        params: the point.
        x: the inputs.

    Example:
        ```python
        import jax
        import secant as sc

        x = jax.random.normal(jax.random.key(0), (5, 3))
        for activation in ("relu", "tanh"):
            net = sc.nets.mlp([8, 8], activation=activation)
            found = sc.nets.homogeneity(net.apply, net.init(jax.random.key(1), x.shape), x)
            print(round(float(found.degree), 1), bool(found.residual < 1e-5))
        ```
        ```text
        3.0 True
        2.4 False
        ```
    """
    return Homogeneity(*_fitted(*jax.jvp(lambda p: f(p, x), (params,), (params,))))


@functools.partial(jit, quick=True)
def _fitted(outputs: Array, along: Array) -> tuple[Array, Array]:
    """The factor between two arrays, and what is left."""
    outputs, along = outputs.reshape(-1), along.reshape(-1)
    square = jnp.vdot(outputs, outputs)
    degree = jnp.vdot(outputs, along) / jnp.where(square > 0, square, 1.0)
    scale = jnp.maximum(jnp.max(jnp.abs(outputs)), jnp.max(jnp.abs(along)))
    residual = jnp.max(jnp.abs(along - degree * outputs)) / jnp.where(scale > 0, scale, 1.0)
    return degree, residual
