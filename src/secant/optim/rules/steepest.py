"""Steepest descent in any norm, as a Map."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from secant.core.arguments import is_traced, positive
from secant.core.types import Params
from secant.dynamics.map import Map
from secant.theory.bias.potentials import steepest

Norm = Any
"""A number from 1 to infinity, a positive definite matrix, or `"spectral"`."""


def steepest_descent(loss: Callable[[Params], Float[Array, ""]], norm: Norm, lr: Any) -> Map:
    r"""Steepest descent, $\theta_{t+1} = \theta_t + \eta\,\operatorname{argmin}_v(\nabla L\cdot v + \tfrac12\|v\|^2)$.

    With $g = \nabla L$ and $q$ the dual exponent of $p$, the direction $v$ is

    - in $\ell_2$: $-g$;
    - in $\ell_1$: $-g_je_j$ at the largest entry of $g$, the first of several;
    - in $\ell_\infty$: $-\|g\|_1\operatorname{sign} g$;
    - in $\ell_p$: $-\|g\|_q^{2-q}\operatorname{sign}(g)|g|^{q-1}$;
    - for $\|v\|^2 = v\cdot Dv$: $-D^{-1}g$.

    In each norm $-g\cdot v = \|v\|^2 = \|g\|_*^2$. The parameters count as one long vector, whatever their tree.
    `"spectral"` instead takes the leaves as matrices, by their last axis; vectors count as one column. Its norm is the
    largest singular value of all leaves, and a leaf with gradient $G = USV^\top$ moves by
    $-(\sum\|G\|_{\rm nuc})\,UV^\top$.

    Args:
        loss: parameters -> scalar.
        norm: $p$ from 1 to infinity; a symmetric positive definite matrix with a row a parameter; or `"spectral"`.
        lr: the step size $\eta$. A step of $\eta$ on $\log L$ is a step of $\eta/L$ on $L$; with $\log L$ the method
            can descend losses below the smallest number.

    Example:
        ```python
        import secant as sc

        rule = sc.steepest_descent(lambda w: w["a"] ** 2 + w["b"] ** 2 / 2, 1, lr=0.5)
        run = sc.simulate(rule, {"a": 1.0, "b": 1.0}, steps=2, probes={"a": lambda w: w["a"], "b": lambda w: w["b"]})
        run.dataset.a.values  # 1, 0, 0: the steepest coordinate first
        run.dataset.b.values  # 1, 1, 0.5
        ```
    """
    direction = _direction(norm)
    lr = positive("steepest_descent", "lr", lr)
    gradient = jax.grad(loss)

    def step(params: Params) -> Params:
        return jax.tree.map(lambda p, v: p + lr * v, params, direction(gradient(params)))

    return Map(init=lambda params: params, step=step)


def _direction(norm: Norm) -> Callable[[Params], Params]:
    if isinstance(norm, str):
        if norm != "spectral":
            raise ValueError(f"steepest_descent: `norm` must be a number, a matrix or 'spectral', got {norm!r}.")
        return _spectral
    if np.ndim(norm) == 2:
        return _in_metric(norm)
    if not is_traced(norm):
        try:
            norm = float(norm)
        except (TypeError, ValueError):
            raise TypeError(
                f"steepest_descent: `norm` must be a number, a matrix or 'spectral', got {norm!r}."
            ) from None
        if not norm >= 1:
            raise ValueError(
                f"steepest_descent: `norm` must be from 1 to infinity, got {norm!r}. Below 1 it is no norm."
            )
        if norm == 2:
            return lambda g: jax.tree.map(jnp.negative, g)

    def along(tree: Params) -> Params:
        g, back = ravel_pytree(tree)
        return back(steepest(g, norm))

    return along


def _in_metric(matrix: Any) -> Callable[[Params], Params]:
    D = jnp.asarray(matrix, float)
    if D.shape[0] != D.shape[1]:
        raise ValueError(f"steepest_descent: a matrix as `norm` must be square, got shape {D.shape}.")
    if not is_traced(matrix):
        found = np.asarray(D)
        if not np.allclose(found, found.T) or not np.linalg.eigvalsh((found + found.T) / 2)[0] > 0:
            raise ValueError("steepest_descent: a matrix as `norm` must be symmetric and positive definite.")

    def along(tree: Params) -> Params:
        g, back = ravel_pytree(tree)
        if len(g) != len(D):
            raise ValueError(
                f"steepest_descent: the matrix `norm` has {len(D)} rows, and there are {len(g)} parameters. Give it "
                "one row a parameter."
            )
        return back(-jnp.linalg.solve(D.astype(g.dtype), g))

    return along


def _spectral(tree: Params) -> Params:
    leaves, structure = jax.tree.flatten(tree)
    parts = [jnp.linalg.svd(_matrix(leaf), full_matrices=False) for leaf in leaves]
    total = sum(jnp.sum(values) for _, values, _ in parts)
    moved = []
    for leaf, (u, values, v) in zip(leaves, parts, strict=True):
        # Along the kernel of the gradient any choice is steepest; this one does not move there.
        there = values > jnp.finfo(values.dtype).eps * max(u.shape[0], v.shape[1]) * values[0]
        moved.append((-total * (u * there) @ v).reshape(leaf.shape))
    return jax.tree.unflatten(structure, moved)


def _matrix(leaf: Array) -> Array:
    return leaf.reshape(-1, leaf.shape[-1]) if jnp.ndim(leaf) > 1 else jnp.reshape(leaf, (-1, 1))
