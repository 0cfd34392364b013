"""How convex the landscape looks along a run: ratios of gradient, loss and distance to a given minimum."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from secant.core.arguments import whole
from secant.core.types import Params
from secant.dynamics.probes import Probe
from secant.optim.measurement import Measurement
from secant.optim.problem import Problem


def landscape(reference: Params, *, every: int = 1) -> Measurement:
    r"""Ratios along the run that bound how fast gradient descent gets to a minimum $\theta^*$.

    The least value of each ratio is the constant of an inequality:

    - under the measurement's own name $|\nabla L|^2/(L - L^*)$, for the inequality of Polyak and Łojasiewicz;
    - as `_quasi_convexity` $\langle\nabla L, \theta - \theta^*\rangle/(L - L^*)$, for weak quasi-convexity;
    - as `_secant` $\langle\nabla L, \theta - \theta^*\rangle/|\theta - \theta^*|^2$, for the restricted secant
      inequality.

    A negative ratio means that the step leads away. Once the run has reached $\theta^*$, or its loss $L^*$, the ratios
    are NaN.

    Args:
        reference: $\theta^*$, parameters such as the end of a longer run; $L^*$ is their loss.
        every: steps between two measurements.

    Example:
        ```python
        import jax.numpy as jnp
        import secant as sc

        problem = sc.Problem(lambda w, x: x @ w, jnp.diag(jnp.array([3.0, 1.0])), jnp.zeros(2), sc.losses.half_sum)
        probes = {"pl": sc.measure.landscape(jnp.zeros(2))}
        run = sc.train(problem, jnp.ones(2), lr=0.1, steps=50, probes=probes).dataset
        print([round(float(run[name].min()), 3) for name in ("pl", "pl_quasi_convexity", "pl_secant")])
        ```
        ```text
        [2.0, 2.0, 1.0]
        ```
    """
    whole("measure.landscape", "every", every)
    leaves: list[Any] = jax.tree.leaves(reference)
    if not leaves:
        raise ValueError("measure.landscape: `reference` holds no array. Pass the parameters where the run should end.")
    arrays = [np.asarray(leaf) for leaf in leaves]
    if not all(np.issubdtype(a.dtype, np.floating) and np.isfinite(a).all() for a in arrays):
        raise ValueError("measure.landscape: `reference` must hold finite real numbers, as the parameters do.")
    content = tuple((a.tobytes(), a.shape, a.dtype.str) for a in arrays)
    options = ("reference", _Point(content, jax.tree.structure(reference))), ("every", every)
    # The reference has all input features, so that the parameters compared with it need them too.
    return Measurement(_landscape, options, inputs=True)


class _Point(NamedTuple):
    """Parameters that can be compared and looked up."""

    content: tuple[tuple[bytes, tuple[int, ...], str], ...]
    structure: Any

    def tree(self) -> Params:
        leaves = [np.frombuffer(data, kind).reshape(shape) for data, shape, kind in self.content]
        return jax.tree.unflatten(self.structure, leaves)


def _landscape(problem: Problem, reference: _Point, every: int) -> Probe:
    goal = reference.tree()

    def look(params: Params) -> dict[str, Array]:
        there, here = (jax.tree.map(jnp.shape, tree) for tree in (goal, params))
        if there != here:
            raise ValueError(
                f"measure.landscape: `reference` has shapes {there} and the parameters {here}. They must agree."
            )
        value, gradient = jax.value_and_grad(problem.objective)(params)
        slope, away = (ravel_pytree(tree)[0] for tree in (gradient, jax.tree.map(jnp.subtract, params, goal)))
        # Both losses are computed in the same way; otherwise the difference would in the end be rounding alone.
        excess = value - problem.objective(jax.tree.map(lambda g, p: jnp.asarray(g, p.dtype), goal, params))
        toward = slope @ away
        return {
            "value": _over(slope @ slope, excess),
            "quasi_convexity": _over(toward, excess),
            "secant": _over(toward, away @ away),
        }

    return Probe(look, every, label=r"$|\nabla L|^2/(L - L^*)$")


def _over(a: Array, b: Array) -> Array:
    return jnp.where(b > 0, a / jnp.where(b > 0, b, 1.0), jnp.nan)
