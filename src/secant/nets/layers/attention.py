"""Self-attention, for samples of shape `(tokens, features)`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from secant.core.types import Params
from secant.nets.layers.checks import at_least_one, one_of
from secant.nets.layers.dense import dense
from secant.nets.network import Layer, Network, Shape, keys_of
from secant.nets.parametrization import Parametrization, parametrized

ROLES = ("query", "key", "value", "output")
"""The dense layers of an attention, by what they give."""


@dataclass(frozen=True)
class Attention(Layer):
    """Several heads of attention; `features` of all heads together, None for as many as the input has."""

    heads: int
    features: int | None
    parametrization: Parametrization
    bias: bool
    scores: Literal["softmax", "identity"] = "softmax"
    scaling: Literal["root", "linear"] = "root"


def attention(
    heads: int = 1,
    features: int | None = None,
    *,
    scores: Literal["softmax", "identity"] = "softmax",
    scaling: Literal["root", "linear"] = "root",
    parametrization: str | Parametrization = "ntk",
    bias: bool = False,
) -> Network:
    r"""Self-attention with several heads.

    Queries, keys and values are dense in the tokens, $q = x W_q$ and so on; each head of $h$ features gives
    $\operatorname{softmax}(q k^\top / \sqrt h)\, v$, and the heads side by side pass a dense output layer.

    With `scores="identity"` a head gives $(q k^\top / \sqrt h)\, v$. Many such wide heads have a limit in closed form;
    with softmax there is none. With `scaling="linear"` the products are divided by $h$, and the limit is zero, because
    queries and keys are independent.

    Args:
        heads: how many heads.
        features: features of queries, keys and values, all heads together; by default those of the input.
        scores: the function of the scaled products of queries and keys.
        scaling: whether these products are divided by the root of the head's size or by the size.
        parametrization: of all four dense layers.
        bias: whether they have biases.

    Returns:
        A layer with `params = {"query": ..., "key": ..., "value": ..., "output": ...}`, each those of a dense layer.
    """
    at_least_one("attention", heads=heads)
    one_of("attention", "scores", scores, ("softmax", "identity"))
    one_of("attention", "scaling", scaling, ("root", "linear"))
    rule = parametrized(parametrization)

    def layer(size: int) -> Network:
        return dense(size, parametrization=rule, bias=bias)

    def new(key: PRNGKeyArray, shape: Shape, dtype: Any) -> tuple[Params, Shape]:
        if len(shape) != 2:
            raise ValueError(f"attention: one sample must have shape (tokens, features), got {shape}.")
        inner = shape[-1] if features is None else features
        if inner % heads:
            raise ValueError(
                f"attention: {inner} features cannot be split over {heads} heads. Take `features` that are a multiple "
                "of `heads`."
            )
        keys = keys_of(key, 4)
        params = {role: layer(inner).new(one, shape, dtype)[0] for role, one in zip(ROLES[:3], keys, strict=False)}
        params["output"] = layer(shape[-1]).new(keys[3], (shape[0], inner), dtype)[0]
        return params, shape

    def run(params: Params, x: Array) -> Array:
        n, tokens = x.shape[:2]

        def project(role: str) -> Array:
            inner = params[role]["weight"].shape[1]
            return layer(inner).run(params[role], x).reshape(n, tokens, heads, -1)

        query, key, value = (project(role) for role in ROLES[:3])
        size = query.shape[-1]
        products = jnp.einsum("nthd,nshd->nhts", query, key) / (math.sqrt(size) if scaling == "root" else size)
        weights = jax.nn.softmax(products) if scores == "softmax" else products
        mixed = jnp.einsum("nhts,nshd->nthd", weights, value)
        return layer(x.shape[-1]).run(params["output"], mixed.reshape(n, tokens, -1))

    return Network(new, run, "attention", layer=Attention(heads, features, rule, bias, scores, scaling), axes=2)
