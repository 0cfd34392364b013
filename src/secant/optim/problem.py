"""A Problem: a function, its data and its loss, as one thing to train and to measure."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
from jaxtyping import Array, Float

from secant.core.device import to_device
from secant.core.types import Params
from secant.curvature.checks import Function, matching_targets, outputs_of
from secant.curvature.tangent.signals import network_of
from secant.losses import get as get_loss
from secant.models.entrance import function_of
from secant.nets.reduction import InputReduction, is_reducible, reduce_inputs


@dataclass(frozen=True, eq=False)
class Problem:
    r"""What gradient descent descends: $L(\theta) = \ell(f(\theta, X), Y)$.

    Compiled code belongs to the object: train and measure with one problem as often as you like, and nothing is
    compiled twice.

    Attributes:
        f: any `f(params, x)`; or a module of Flax or Equinox, or a [`Model`][secant.models.Model]. The attribute then
            holds the function of the model.
        x: inputs, one row a sample.
        y: targets, one row a sample.
        loss: a [`Loss`][secant.losses.Loss], its name, or any scalar function of outputs and targets.
        params: where training starts unless you say otherwise. By default the parameters that a model brings; None for
            a function.

    Example:
        ```python
        import jax
        import secant as sc

        task = sc.data.load("digits", classes=(0, 1), samples=32)
        net = sc.nets.mlp([64], activation="tanh")
        problem = sc.Problem(net.apply, task.train.x, task.train.y, sc.losses.mean_mse)
        params = net.init(jax.random.key(0), task.train.x.shape)
        float(problem.objective(params)) > 0
        ```
    """

    f: Function
    x: Any
    y: Any
    loss: Callable[[Array, Any], Array]
    params: Params | None = None

    def __post_init__(self) -> None:
        function, params = function_of("Problem", self.f)
        object.__setattr__(self, "f", function)
        if self.params is None:
            object.__setattr__(self, "params", params)
        if isinstance(self.loss, str):
            object.__setattr__(self, "loss", get_loss(self.loss))
        # Data move to the device once, not with every call.
        object.__setattr__(self, "x", jax.tree.map(to_device, self.x))
        object.__setattr__(self, "y", jax.tree.map(to_device, self.y))

    def objective(self, params: Params) -> Float[Array, ""]:
        """The loss at these parameters."""
        return self.objective_on(params, self.x, self.y)

    def objective_on(self, params: Params, x: Any, y: Any) -> Float[Array, ""]:
        """The loss on other samples, such as a batch."""
        return self.loss(self.f(params, x), y)

    def start(self, caller: str, params: Params | None) -> Params:
        """The given parameters, or else the parameters that the problem brings."""
        params = self.params if params is None else params
        if params is None:
            raise TypeError(f"{caller}: `params` is missing. Say where to start: a function brings no parameters.")
        return params

    def check(self, caller: str, params: Params) -> None:
        """Refuses parameters, data or a loss that do not fit together, before anything is computed."""
        outputs = outputs_of(caller, self.f, params, self.x)
        matching_targets(caller, outputs, self.y)
        value = jax.eval_shape(self.objective, params)
        if not isinstance(value, jax.ShapeDtypeStruct) or value.shape != ():
            raise ValueError(f"{caller}: `loss` must return one number, it returns {value}.")

    @property
    def is_reducible(self) -> bool:
        """Whether the data has fewer samples than features and a dense layer alone reads them."""
        net = network_of(self.f)
        return net is not None and isinstance(self.x, jax.Array) and is_reducible(net, self.x.shape)

    @functools.cached_property
    def reduced(self) -> tuple[Problem, InputReduction] | None:
        """The same problem in the span of its data, with the change of coordinates; None if it cannot be reduced."""
        net = network_of(self.f)
        found = reduce_inputs(net, self.x) if net is not None and self.is_reducible else None
        return None if found is None else (Problem(self.f, found.x, self.y, self.loss), found)
