"""The Optimiser: an update rule with a memory, its stability threshold and its preconditioner."""

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
        params: the parameters, all that a run shows of the state.
        inner: what the optimiser remembers: averages of gradients, the number of steps.
    """

    params: Params
    inner: Any


@dataclass(frozen=True)
class Optimiser:
    """An update rule with a memory, `loss -> Map`.

    Two optimisers with the same name and settings are equal, and share compiled code.

    Attributes:
        name: the name of the rule.
        settings: step size and other settings, by name.
        transformation: the optax transformation that turns the gradient into the step.
        edge: computes the `threshold`; None if it is not known.
        scale: `(inner state, parameters) -> P`, the diagonal that divides the steps; None if it is not known.
        rotates: whether a rotation of the first parameters only rotates the run. Training in the span of the data is
            then exact.

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
        """The Map of this optimiser on a loss. Its state is an `OptimiserState`, and it shows the parameters."""
        import optax

        transformation = optax.with_extra_args_support(self.transformation)

        def init(params: Params | OptimiserState) -> OptimiserState:
            if isinstance(params, OptimiserState):  # goes on where another run stopped
                return params
            params = jax.tree.map(jnp.asarray, params)
            return OptimiserState(params, self.transformation.init(params))

        def step(state: OptimiserState) -> OptimiserState:
            value, gradient = jax.value_and_grad(loss)(state.params)
            # Line searches of optax and the controllers ask for these; if nobody does, the value is not computed.
            seen = {"value": value, "grad": gradient, "value_fn": loss}
            updates, inner = transformation.update(gradient, state.inner, state.params, **seen)
            moved = jax.tree.map(lambda p, u: jnp.asarray(p + u, p.dtype), state.params, updates)
            return OptimiserState(moved, inner)

        return Map(init, step, shown=lambda state: state.params)

    @property
    def threshold(self) -> float:
        r"""The largest eigenvalue of $P^{-1/2}HP^{-1/2}$ at which the optimiser is stable on a quadratic."""
        if self.edge is None:
            raise ValueError(
                f"{self.name}: its `threshold` is not known. Use a constructor of secant.optimisers, or "
                "`from_optax(..., threshold=...)`."
            )
        return self.edge()

    def preconditioner(self, state: OptimiserState, gradient: Params | None = None) -> Params:
        """The diagonal $P$ that divided the last step or, given the gradient here, will divide the next one."""
        if self.scale is None:
            raise ValueError(
                f"{self.name}: its preconditioner is not known. Use a constructor of secant.optimisers, "
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
            f"{caller}: `optimiser` is {self.name}, but the run does not use {self.name}. Pass it as `rule`, too."
        )


def from_optax(
    transformation: optax.GradientTransformation,
    *,
    threshold: float | None = None,
    scale: Scale | None = None,
    rotates: bool = False,
) -> Optimiser:
    """Turns any transformation of optax into an optimiser, together with what you know about it.

    Args:
        transformation: such as `optax.lion(1e-4)`; [`train`][secant.optim.train] also takes it directly.
        threshold: the largest stable curvature.
        scale: `(inner state, parameters) -> P`, the diagonal by which the step that led to this inner state was
            divided.
        rotates: whether a rotation of the first parameters only rotates the run.
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
    """The rule itself, or a transformation of optax turned into a rule."""
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
