"""The Optimiser: an update rule with a memory, and what is known about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp

from secant.core.arguments import positive
from secant.core.types import Params
from secant.dynamics.map import Map
from secant.optim.control import check_order

if TYPE_CHECKING:
    import optax

Scale = Callable[[Any, Params], Params]
"""`(inner state, parameters) -> P`, the diagonal by which the step that led to this inner state was divided."""


class OptimiserState(NamedTuple):
    """The state of an optimiser's Map.

    Attributes:
        params: the parameters, which is all that a run shows.
        inner: what the optimiser remembers: averages of gradients, the number of steps.
    """

    params: Params
    inner: Any


@dataclass(frozen=True)
class Optimiser:
    """An update rule with a memory, `loss -> Map`.

    Two of them with the same name and settings are equal, and share compiled code.

    Attributes:
        name: what it is called.
        settings: step size and the rest, by name.
        transformation: the optax transformation that makes the step of the gradient.
        edge: computes the `threshold`, where it is known.
        scale: `(inner state, parameters) -> P`, where it is known by what the steps are divided.
        rotates: whether rotated parameters give the rotated run, so that training in the span of the data is exact.

    Example:
        ```python
        import secant as sc

        adam = sc.optimisers.adam(0.1)
        run = sc.simulate(adam(lambda x: x**2 / 2), 1.0, steps=3, probes={"x": lambda x: x})
        run.dataset.x.values  # 1, 0.9, 0.8, 0.7: at first a step of Adam is as long as its step size
        adam.threshold  # 380
        ```
    """

    name: str
    settings: tuple[tuple[str, Any], ...]
    transformation: optax.GradientTransformation = field(compare=False, repr=False)
    edge: Callable[[], float] | None = field(default=None, compare=False, repr=False)
    scale: Scale | None = field(default=None, compare=False, repr=False)
    rotates: bool = field(default=False, compare=False, repr=False)

    def __call__(self, loss: Callable[[Params], Any]) -> Map:
        """The Map of this optimiser on a loss; its state is an `OptimiserState`, of which it shows the parameters."""
        import optax

        transformation = optax.with_extra_args_support(self.transformation)

        def init(params: Params | OptimiserState) -> OptimiserState:
            if isinstance(params, OptimiserState):  # goes on where another run stopped
                return params
            params = jax.tree.map(jnp.asarray, params)
            return OptimiserState(params, self.transformation.init(params))

        def step(state: OptimiserState) -> OptimiserState:
            value, gradient = jax.value_and_grad(loss)(state.params)
            # What line searches of optax and the controllers ask for; where nobody does, the value is not computed.
            seen = {"value": value, "grad": gradient, "value_fn": loss}
            updates, inner = transformation.update(gradient, state.inner, state.params, **seen)
            moved = jax.tree.map(lambda p, u: jnp.asarray(p + u, p.dtype), state.params, updates)
            return OptimiserState(moved, inner)

        return Map(init, step, shown=lambda state: state.params)

    @property
    def threshold(self) -> float:
        r"""The largest eigenvalue of $P^{-1/2}HP^{-1/2}$ at which it is stable on a quadratic."""
        if self.edge is None:
            raise ValueError(
                f"{self.name}: its `threshold` is not known. Use a constructor of secant.optimisers, or "
                "`from_optax(..., threshold=...)`."
            )
        return self.edge()

    def preconditioner(self, state: OptimiserState, gradient: Params | None = None) -> Params:
        """The diagonal $P$ by which the last step was divided or, given the gradient here, the next one will be."""
        if self.scale is None:
            raise ValueError(
                f"{self.name}: it is not known by what it divides its steps. Use a constructor of secant.optimisers, "
                "or `from_optax(..., scale=...)`."
            )
        inner = state.inner
        if gradient is not None:
            _, inner = self.transformation.update(gradient, inner, state.params)
        return self.scale(inner, state.params)

    def check(self, caller: str, state: Any) -> None:
        """Refuses the state of another rule."""
        if isinstance(state, OptimiserState):
            expected: Any = jax.tree.structure(jax.eval_shape(self.transformation.init, state.params))
            if jax.tree.structure(state.inner) == expected:
                return
        raise ValueError(
            f"{caller}: `optimiser` is {self.name}, and the run is not one of {self.name}. Pass it as `rule`, too."
        )


def from_optax(
    transformation: optax.GradientTransformation,
    *,
    threshold: float | None = None,
    scale: Scale | None = None,
    rotates: bool = False,
) -> Optimiser:
    """Any transformation of optax as an optimiser, with what is known about it.

    Args:
        transformation: such as `optax.lion(1e-4)`; [`train`][secant.optim.train] takes it as it is, too.
        threshold: the largest stable curvature.
        scale: `(inner state, parameters) -> P`, the diagonal by which the step that led to this inner state was
            divided.
        rotates: whether rotated parameters give the rotated run.
    """
    if not _is_transformation(transformation):
        raise TypeError(
            "from_optax: `transformation` must have the two functions `init` and `update`, got "
            f"{type(transformation).__name__}. Pass what optax makes, such as optax.adam(1e-3)."
        )
    check_order(transformation)
    edge = None if threshold is None else positive("from_optax", "threshold", threshold)
    return Optimiser(
        "optax",
        (("transformation", transformation), ("threshold", edge), ("scale", scale), ("rotates", rotates)),
        transformation,
        None if edge is None else lambda: edge,
        scale,
        rotates,
    )


def as_rule(rule: Any) -> Any:
    """A rule, or a transformation of optax made one."""
    if rule is None or callable(rule):
        return rule
    if _is_transformation(rule):
        return from_optax(rule)
    raise TypeError(
        f"train: `rule` must be an optimiser, a transformation of optax or a function `loss -> Map`, got "
        f"{type(rule).__name__}. Use for example secant.optimisers.adam(1e-3)."
    )


def _is_transformation(value: Any) -> bool:
    return callable(getattr(value, "init", None)) and callable(getattr(value, "update", None))
