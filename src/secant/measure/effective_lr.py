"""Weights followed by a normalisation layer: their length, the angle of a step, and the effective step size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from secant.core.arguments import positive, whole
from secant.core.types import Params
from secant.dynamics.probes import Probe
from secant.measure.batch import seen
from secant.optim.measurement import Measurement
from secant.optim.problem import Problem

Grouping = Callable[[str], str | None]
"""From the path of an array in `params`, such as `[0]['weight']`, to the name of its group; None leaves it out."""


def effective_lr(lr: float, *, groups: Grouping | None = None, batch: bool = False, every: int = 1) -> Measurement:
    r"""The step size on the sphere, $\eta/|w|^2$, of every group of weights $w$, by default every array.

    If outputs do not depend on the length of $w$, as before a normalisation layer, a step of size $\eta$ moves the
    direction $\bar w = w/|w|$ as a step of size $\eta/|w|^2$ would move unit weights. The measurement also records

    - `_norm`: $|w|$;
    - `_gradient`: $|\nabla L(\bar w)| = |w|\,|\nabla L(w)|$;
    - `_angle`: the angle in radians between $w$ and its value at the last record, with `every=1` the angle of a step.

    The first angle is NaN. All records of a group are NaN where its weights are zero.

    Args:
        lr: $\eta$.
        groups: from the path of an array in `params`, such as `[0]['weight']`, to the name of its group, or None to
            leave it out: `lambda path: "all"` takes all weights as one group. The groups have the order of
            [`group_names`][secant.measure.group_names].
        batch: whether the gradient is taken on the next step's batch instead of on all data.
        every: steps between two measurements.

    Example:
        ```python
        import jax
        import numpy as np
        import secant as sc

        task = sc.data.load("digits", samples=64)
        net = sc.nets.scale_invariant([16, 16], outputs=10)
        params = net.init(jax.random.key(0), task.train.x.shape)
        problem = sc.Problem(net.apply, *task.train, "mean_mse")
        run = sc.train(problem, params, lr=0.5, steps=3, probes={"pace": sc.measure.effective_lr(0.5)})
        print(sc.measure.group_names(params), run["pace"].shape)
        length = run["pace_norm"].values
        print(bool(np.allclose(run["pace"], 0.5 / length**2)), bool((length[1:] > length[:-1]).all()))
        ```
        ```text
        ["[0]['weight']", "[3]['weight']"] (4, 2)
        True True
        ```
    """
    positive("measure.effective_lr", "lr", lr)
    whole("measure.effective_lr", "every", every)
    options = (("lr", float(lr)), ("groups", groups), ("batch", bool(batch)), ("every", every))
    # In the span of the data the first layer's weights would look shorter than they are.
    return Measurement(_effective_lr, options, inputs=True)


def group_names(params: Params, groups: Grouping | None = None) -> list[str]:
    """The groups of [`effective_lr`][secant.measure.effective_lr], in the order of its records.

    Args:
        params: the parameters.
        groups: as for `effective_lr`.
    """
    return list(_members(params, groups))


def _members(params: Params, groups: Grouping | None) -> dict[str, list[int]]:
    """Name of a group -> the numbers of the arrays that belong to it."""
    found: dict[str, list[int]] = {}
    for index, (path, _) in enumerate(jax.tree.leaves_with_path(params)):
        where = jax.tree_util.keystr(path)
        name = where if groups is None else groups(where)
        if name is not None:
            found.setdefault(str(name), []).append(index)
    if not found:
        raise ValueError("measure.effective_lr: `groups` leaves out every parameter. Name at least one group.")
    return found


def _effective_lr(problem: Problem, lr: float, groups: Grouping | None, batch: bool, every: int) -> Probe:
    def parts(params: Params, tree: Params) -> list[Array]:
        leaves = [jnp.ravel(leaf) for leaf in jax.tree.leaves(tree)]
        return [jnp.concatenate([leaves[i] for i in own]) for own in _members(params, groups).values()]

    def look(state: Any, before: list[Array]) -> tuple[dict[str, Array], list[Array]]:
        if batch:
            params, x, y = seen("effective_lr", problem, state)
            gradient = jax.grad(problem.objective_on)(params, x, y)
        else:
            params = state
            gradient = jax.grad(problem.objective)(params)
        weights = parts(params, params)
        length = jnp.stack([jnp.linalg.norm(w) for w in weights])
        length = jnp.where(length > 0, length, jnp.nan)
        slope = jnp.stack([jnp.linalg.norm(g) for g in parts(params, gradient)])
        now = [w / size for w, size in zip(weights, length, strict=True)]
        record = {
            "value": lr / length**2,
            "norm": length,
            "gradient": length * slope,
            # The angle follows from the chord, because the arc cosine of a number near 1 would be rounding.
            "angle": 2 * jnp.arcsin(jnp.stack([jnp.linalg.norm(a - b) for a, b in zip(now, before, strict=True)]) / 2),
        }
        return record, now

    def first(state: Any) -> list[Array]:
        params = seen("effective_lr", problem, state)[0] if batch else state
        return [jnp.full_like(w, np.nan) for w in parts(params, params)]

    return Probe(look, every, label=r"$\eta/|w|^2$", dims=("group",), memory=first, whole=batch)
