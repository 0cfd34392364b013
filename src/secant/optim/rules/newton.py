"""Newton's method as a Map: steps that are scaled by the inverse Hessian."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float

from secant.core.arguments import at_least_zero, is_traced, positive, whole
from secant.core.device import jit
from secant.core.types import Params
from secant.dynamics.map import Map

DENSE = 256
"""Up to this many parameters the Hessian is written out."""


def newton(
    loss: Callable[[Params], Float[Array, ""]],
    lr: Any = 1.0,
    *,
    ridge: Any = 0.0,
    dense: int = DENSE,
    products: int | None = None,
) -> Map:
    r"""Newton's method, $\theta_{t+1} = \theta_t - \eta\,(\nabla^2L(\theta_t) + \rho)^{-1}\nabla L(\theta_t)$.

    On a quadratic with $\eta = 1$ the method arrives in one step, whatever the condition number. Near a minimum with an
    invertible Hessian, each step squares the error. The method goes to the next stationary point, which may be a saddle
    or a maximum.

    - With few parameters the Hessian is written out, and its eigenvectors solve for the step. Eigenvalues below
      rounding are left out, so that a loss with flat directions gets the shortest of its Newton steps.
    - With many parameters conjugate gradients find the step from Hessian products, each about two gradients.

    A step is taken only if it solves $\nabla^2L\,\delta = \nabla L$ to a fourth root of rounding. A Hessian that is
    singular where the gradient points, or on which conjugate gradients do not arrive, raises a `ValueError`; in a
    compiled run JAX raises a `RuntimeError` with the same words. If the gradient is zero the run stays where it is. If
    the gradient is not finite the run has diverged, and its parameters become infinite.

    Args:
        loss: parameters -> scalar, twice differentiable.
        lr: the step size $\eta$.
        ridge: $\rho$, added to the Hessian's diagonal; at least 0.
        dense: up to this many parameters the Hessian is written out.
        products: the most Hessian products of a step of conjugate gradients; by default the number of parameters, and
            at most a thousand.

    Example:
        ```python
        import jax.numpy as jnp
        import secant as sc

        scales = jnp.array([1.0, 1e3])
        run = sc.simulate(sc.optim.newton(lambda w: (scales * w**2).sum() / 2), jnp.array([3.0, -4.0]), steps=1)
        print(run.state)
        ```
        ```text
        [0. 0.]
        ```
    """
    lr, ridge = positive("newton", "lr", lr), at_least_zero("newton", "ridge", ridge)
    dense = whole("newton", "dense", dense, 0)
    if products is not None:
        products = whole("newton", "products", products)

    # Compiled as a whole: run one by one, the operations of a step would take forty programs.
    @functools.partial(jit, quick=True)
    def solve(params: Params) -> tuple[Params, Array, Array]:
        """The parameters after the step, whether its equations are solved, and whether the gradient is finite."""
        flat, restore = ravel_pytree(params)
        gradient, product = jax.linearize(jax.grad(lambda w: loss(restore(w))), flat)
        rounding = float(jnp.finfo(flat.dtype).eps)

        def bend(v: Array) -> Array:
            return product(v) + ridge * v

        if flat.size <= dense:
            move = _by_eigenvectors(bend, gradient, rounding)
        else:
            most = min(flat.size, 1000) if products is None else products
            move, _ = jax.scipy.sparse.linalg.cg(bend, gradient, tol=rounding**0.75, maxiter=most)
        move = jnp.where(jnp.isfinite(move), move, 0.0)
        left = jnp.linalg.norm(bend(move) - gradient)
        size = jnp.linalg.norm(gradient)
        # If the gradient is not finite the run has diverged, which is an outcome and not an error.
        solved = ~(left > rounding**0.25 * size) | ~jnp.isfinite(size)
        return restore((flat - lr * move).astype(flat.dtype)), solved, jnp.isfinite(size)

    def step(params: Params) -> Params:
        moved, solved, finite = solve(params)
        going = _certain(solved) & finite
        return jax.tree.map(lambda leaf: jnp.where(going, leaf, jnp.inf), moved)

    return Map(init=lambda params: jax.tree.map(jnp.asarray, params), step=step)


def _by_eigenvectors(product: Callable[[Array], Array], gradient: Array, rounding: float) -> Array:
    """The shortest solution of those equations that rounding leaves intact."""
    finite = jnp.isfinite(gradient).all()
    matrix = jax.vmap(product)(jnp.eye(gradient.size, dtype=gradient.dtype))
    values, vectors = jnp.linalg.eigh(jnp.where(finite, (matrix + matrix.T) / 2, 0.0))
    kept = jnp.abs(values) > gradient.size * rounding * jnp.abs(values).max(initial=0.0)
    return vectors @ jnp.where(kept, vectors.T @ gradient / jnp.where(kept, values, 1.0), 0.0)


def _certain(solved: Bool[Array, ""]) -> Bool[Array, ""]:
    """Raises an error if the step is not solved. In a compiled run the host raises it, and is called only then."""
    if not is_traced(solved):
        return jnp.asarray(_refuse(solved))
    shape = jax.ShapeDtypeStruct((), bool)
    tell = lambda: jax.pure_callback(_refuse, shape, solved, vmap_method="expand_dims")  # noqa: E731
    return jax.lax.cond(solved, lambda: True, tell)


def _refuse(solved: Any) -> np.ndarray:
    if not np.all(solved):
        raise ValueError(
            "newton: the Hessian is singular where the gradient points, or conjugate gradients did not arrive, so that "
            "there is no Newton step. Start elsewhere, give a `ridge` above 0, or, with many parameters, more "
            "`products` or a larger `dense`."
        )
    return np.asarray(solved)
