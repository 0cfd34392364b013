"""Mirror descent, as a Map."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from secant.core.arguments import is_traced, positive
from secant.core.types import Params
from secant.dynamics.map import Map
from secant.theory.bias.potentials import Potential


def mirror_descent(loss: Callable[[Params], Float[Array, ""]], potential: Potential, lr: Any) -> Map:
    r"""Mirror descent, $\nabla R(\theta_{t+1}) = \nabla R(\theta_t) - \eta\nabla L(\theta_t)$.

    With the entropy as potential, it multiplies weights by $e^{-\eta\nabla L}$. With $\frac12\theta\cdot D\theta$ it is
    gradient descent preconditioned by $D^{-1}$. The parameters count as one long vector, whatever their tree; a
    potential of matrices takes every leaf as a matrix. On linear data
    [`bregman_projection`][secant.theory.bias.interpolants.bregman_projection] gives the point where the method ends.

    Args:
        loss: parameters -> scalar.
        potential: $R$, one of [`potentials`][secant.theory.bias.potentials].
        lr: the step size $\eta$.

    Example:
        ```python
        import secant as sc
        from secant.theory.bias import potentials

        rule = sc.mirror_descent(lambda w: w["a"] + 2 * w["b"], potentials.entropy(), lr=0.5)
        run = sc.simulate(rule, {"a": 1.0, "b": 1.0}, steps=2, probes={"a": lambda w: w["a"], "b": lambda w: w["b"]})
        run.dataset.a.values  # 1, 0.6065, 0.3679: powers of exp(-1/2)
        run.dataset.b.values  # 1, 0.3679, 0.1353
        ```
    """
    lr = positive("mirror_descent", "lr", lr)
    gradient = jax.grad(loss)

    def init(params: Params) -> Params:
        leaves = jax.tree.leaves(params) if potential.axes == 2 else [ravel_pytree(params)[0]]
        if not is_traced(params) and not all(potential.inside(leaf) for leaf in leaves):
            raise ValueError(
                f"mirror_descent: the {potential.name} is defined on {potential.domain}. Start from parameters there."
            )
        return params

    def moved(w: Any, g: Any) -> Any:
        return potential.inverse(potential.gradient(w) - lr * g)

    def step(params: Params) -> Params:
        if potential.axes == 2:
            return jax.tree.map(lambda w, g: moved(w, (g + g.swapaxes(-1, -2)) / 2), params, gradient(params))
        flat, back = ravel_pytree(params)
        return back(moved(flat, ravel_pytree(gradient(params))[0]))

    return Map(init=init, step=step)
