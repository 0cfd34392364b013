"""The two-layer network of chapter 3 with its linear and its quadratic model, for gradient descent."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PRNGKeyArray

from secant.dynamics import Map
from secant.optim import gradient_descent
from secant.theory.regression.quadratic_model import (
    TwoLayer,
    gated_bilinear,
    gated_curvature,
    gates,
    two_layer,
    two_layer_init,
)

Kind = Literal["linear", "quadratic", "network"]
KINDS: tuple[Kind, ...] = ("linear", "quadratic", "network")


class Sample(NamedTuple):
    r"""An untrained network and one sample with $\|x\|^2 = d$.

    Attributes:
        params: weights at initialisation.
        on: gates at initialisation.
        x: the input.
        output: $g_0$.
        curvature: $\lambda_0$.
    """

    params: TwoLayer
    on: Float[Array, "m"]
    x: Float[Array, "d"]
    output: Float[Array, ""]
    curvature: Float[Array, ""]


@partial(jax.jit, static_argnums=(1, 2))
def one_sample(key: PRNGKeyArray, width: int, dim: int) -> Sample:
    r"""A random network and a random input of squared norm $d$, which means size one."""
    data, weights = jax.random.split(key)
    x = jax.random.normal(data, (dim,))
    x = x * jnp.sqrt(dim) / jnp.linalg.norm(x)
    params = two_layer_init(weights, width, dim)
    on = gates(params.u, x)
    return Sample(params, on, x, gated_bilinear(params, on, x), gated_curvature(params, on, x))


def model(kind: Kind, start: TwoLayer, x: Float[Array, "*n d"]) -> Callable[[TwoLayer], Float[Array, "*n"]]:
    r"""Outputs on `x` as a function of the weights: the network, or its Taylor model of order one or two at `start`."""
    if kind == "network":
        return lambda params: two_layer(params, x)
    if kind == "quadratic":
        on = gates(start.u, x)
        return lambda params: gated_bilinear(params, on, x)

    def linear(params: TwoLayer) -> Array:
        change = jax.tree.map(jnp.subtract, params, start)
        value, slope = jax.jvp(lambda p: two_layer(p, x), (start,), (change,))
        return value + slope

    return linear


def descent(
    kind: Kind, start: TwoLayer, x: Float[Array, "*n d"], y: ArrayLike, lr: ArrayLike, scale: float = 0.5
) -> Map:
    r"""Gradient descent on `scale` $\cdot\sum_i (f_i - y_i)^2$, by automatic differentiation."""
    outputs = model(kind, start, x)
    return gradient_descent(lambda params: scale * jnp.sum((outputs(params) - y) ** 2), lr)


def distance(params: TwoLayer, start: TwoLayer) -> Float[Array, ""]:
    r"""Euclidean distance from the start."""
    return jnp.sqrt(sum(jnp.sum((p - q) ** 2) for p, q in zip(params, start, strict=True)))


@partial(jax.jit, static_argnums=0)
def tangent_kernel(kind: Kind, start: TwoLayer, x: Float[Array, "n d"], params: TwoLayer) -> Float[Array, "n n"]:
    r"""Tangent kernel $JJ^\top$ of a model at some weights, dense."""
    jacobian = jax.jacobian(model(kind, start, x))(params)
    flat = jnp.concatenate([leaf.reshape(x.shape[0], -1) for leaf in jax.tree.leaves(jacobian)], axis=1)
    return flat @ flat.T
