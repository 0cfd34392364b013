"""Curvature as operators: the Jacobian, the Hessian, the Gauss-Newton matrix, and slices of the second derivative."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from secant import losses
from secant.core.memo import kept
from secant.core.types import Params
from secant.curvature.checks import Function, matching_targets, outputs_of, scalar_loss
from secant.curvature.in_span import has_short_cut, search_in_span
from secant.linalg import Operator
from secant.models.entrance import takes_models

Loss = Callable[[Array, Any], Array]
"""`loss(outputs, targets)`: a scalar."""


def spaces(params: Params) -> Any:
    """Shapes and types of a parameter vector."""
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(jnp.shape(leaf), jnp.result_type(leaf)), params)


@takes_models
def jacobian(f: Function, params: Params, x: Any) -> Operator:
    r"""The Jacobian $J = \partial f / \partial \theta$ over a batch, from parameters to outputs.

    `J.mv(v)` costs one forward pass, `J.T.mv(u)` one backward pass.

    Args:
        f: any `f(params, x)`, or a model, which replaces `f` and `params` ([`model`][secant.models.model]).
        params: the parameters to evaluate at.
        x: the batch, one row a sample.

    Example:
        ```python
        import jax.numpy as jnp
        import secant as sc

        J = sc.jacobian(lambda w, x: x @ w, jnp.ones(3), jnp.eye(2, 3))
        J.shape, J.dense().tolist()
        ```
    """
    outputs = outputs_of("jacobian", f, params, x)
    return Operator(_jacobian(f), (params, x), spaces(params), outputs, False, _transposed_jacobian(f), name="jacobian")


@kept
def _jacobian(f: Function) -> Any:
    return lambda data: jax.linearize(lambda p: f(p, data[1]), data[0])[1]


@kept
def _transposed_jacobian(f: Function) -> Any:
    def bind(data: Any) -> Any:
        pull = jax.vjp(lambda p: f(p, data[1]), data[0])[1]
        return lambda v: pull(v)[0]

    return bind


@takes_models
def hessian(f: Function, params: Params, x: Any, y: Any, loss: Loss | str) -> Operator:
    r"""The Hessian of the loss, $H = \partial^2 L(f(\theta, X), Y) / \partial\theta^2$.

    The gradient is linearised once; each product then costs about one forward and one backward pass. `top` searches in
    the span of the data for Secant's own networks with a dense first layer and fewer samples than features.

    Args:
        f: any `f(params, x)`, or a model, which replaces `f` and `params` ([`model`][secant.models.model]).
        params: the parameters to evaluate at.
        x: inputs, one row a sample.
        y: targets, one row a sample.
        loss: a [`Loss`][secant.losses.Loss], its name, or any scalar function of outputs and targets.

    Example:
        ```python
        import jax.numpy as jnp
        import secant as sc

        x, y = jnp.eye(2, 3), jnp.array([1.0, 2.0])
        H = sc.hessian(lambda w, x: x @ w, jnp.ones(3), x, y, sc.losses.half_sum)
        H.dense().tolist(), H.top(1).values.tolist()
        ```
    """
    outputs = outputs_of("hessian", f, params, x)
    matching_targets("hessian", outputs, y)
    loss = losses.get(loss)
    scalar_loss("hessian", loss, outputs, y)
    space = spaces(params)
    search = search_in_span(f, loss) if has_short_cut(f, x) else None
    return Operator(_hessian(f, loss), (params, x, y), space, space, search=search, name="hessian")


@kept
def _hessian(f: Function, loss: Loss) -> Any:
    def bind(data: Any) -> Any:
        params, x, y = data
        return jax.linearize(jax.grad(lambda p: loss(f(p, x), y)), params)[1]

    return bind


@takes_models
def gauss_newton(f: Function, params: Params, x: Any, y: Any, loss: Loss | str) -> Operator:
    r"""The Gauss-Newton matrix $G = J^\top \nabla_f^2 L\, J$: the Hessian without the network's own curvature.

    For a squared loss with $\nabla_f^2 L = c I$, $G$ has the same non-zero eigenvalues as $c$ times the tangent kernel.
    """
    outputs = outputs_of("gauss_newton", f, params, x)
    matching_targets("gauss_newton", outputs, y)
    loss = losses.get(loss)
    scalar_loss("gauss_newton", loss, outputs, y)
    space = spaces(params)
    return Operator(_gauss_newton(f, loss), (params, x, y), space, space, name="gauss_newton")


@kept
def _gauss_newton(f: Function, loss: Loss) -> Any:
    def bind(data: Any) -> Any:
        params, x, y = data
        outputs, push = jax.linearize(lambda p: f(p, x), params)
        pull = jax.linear_transpose(push, params)
        bend = jax.linearize(jax.grad(lambda o: loss(o, y)), outputs)[1]
        return lambda v: pull(bend(push(v)))[0]

    return bind


@takes_models
def second_derivative(f: Function, params: Params, x: Any, v: Float[Array, "n *k"]) -> Operator:
    r"""The slice $v \cdot Q = \sum_\alpha v_\alpha\, \partial^2 f_\alpha / \partial\theta^2$ of the second derivative.

    The tensor $Q$ of outputs x parameters x parameters is never formed: a product costs what a Hessian product costs.

    Args:
        f: any `f(params, x)`, or a model, which replaces `f` and `params` ([`model`][secant.models.model]).
        params: the parameters to evaluate at.
        x: the batch.
        v: one weight an output, in the shape of `f(params, x)`.
    """
    outputs = outputs_of("second_derivative", f, params, x)
    if jnp.shape(v) != outputs.shape:
        raise ValueError(
            f"second_derivative: `v` has shape {jnp.shape(v)} and the outputs have {outputs.shape}. Use that shape."
        )
    if jnp.iscomplexobj(v):
        raise TypeError(f"second_derivative: `v` must hold real numbers, got {jnp.result_type(v)}.")
    space = spaces(params)
    data = (params, x, jnp.asarray(v, outputs.dtype))
    return Operator(_second_derivative(f), data, space, space, name="second_derivative")


@kept
def _second_derivative(f: Function) -> Any:
    def bind(data: Any) -> Any:
        params, x, v = data
        return jax.linearize(jax.grad(lambda p: jnp.vdot(v, f(p, x))), params)[1]

    return bind


@takes_models
def output_hessian(f: Function, params: Params, x: Any, output: tuple[int, ...] | int = 0) -> Operator:
    r"""The Hessian of one output, $\partial^2 f_\alpha / \partial\theta^2$.

    In networks that become linear with width, its spectral norm falls with width. The norm is
    `output_hessian(...).top(1, which="magnitude")`.

    Args:
        f: any `f(params, x)`, or a model, which replaces `f` and `params` ([`model`][secant.models.model]).
        params: the parameters to evaluate at.
        x: the batch; only the sample asked for is evaluated.
        output: `sample`, or `(sample, component)` for several outputs.
    """
    outputs = outputs_of("output_hessian", f, params, x)
    index = tuple(output) if isinstance(output, (tuple, list)) else (output,)
    whole = all(isinstance(i, (int, np.integer)) and not isinstance(i, bool) for i in index)
    inside = len(index) == outputs.ndim and whole
    if not inside or not all(-size <= i < size for i, size in zip(index, outputs.shape, strict=True)):
        takes = ("a sample", "(sample, component)")[outputs.ndim - 1] if outputs.ndim < 3 else f"{outputs.ndim} numbers"
        raise ValueError(
            f"output_hessian: `output` {output!r} is no index into outputs of shape {outputs.shape}. Pass {takes}, "
            "each below the size of its axis."
        )
    sample = index[0] % outputs.shape[0]
    one = jax.tree.map(lambda a: a[sample : sample + 1], x)
    weight = jnp.zeros((1, *outputs.shape[1:]), outputs.dtype).at[(0, *index[1:])].set(1.0)
    return replace(second_derivative(f, params, one, weight), name="output_hessian")
