"""The Model: a module of Flax or Equinox, or any function, together with its parameters."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from secant.core.types import Params
from secant.models.application import Application, Function, only
from secant.models.libraries import library_of, read
from secant.nets.network import Network, count_parameters


@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """A function of `(params, x)` together with its current parameters; made by [`model`][secant.models.model].

    A model takes the place of a function and its parameters: `sc.ntk(model, x)` is
    `sc.ntk(model.apply, model.params, x)`.

    Attributes:
        apply: `(params, x) -> outputs`, one row a sample.
        params: its parameters, a pytree of the library's own kind.
        name: the name of the model.
        restore: parameters -> the module of its library with these parameters.
    """

    apply: Function
    params: Params
    name: str
    restore: Callable[[Params], Any] = field(repr=False)

    def at(self, params: Params) -> Model:
        """The same model at other parameters, such as the `state` of a run."""
        return replace(self, params=params)

    @property
    def module(self) -> Any:
        """The library's module with these parameters; for Flax linen its variables; else a function of `x`."""
        return self.restore(self.params)

    def __repr__(self) -> str:
        called = f", applied to {self.apply.way}" if isinstance(self.apply, Application) else ""
        return f"Model({self.name}, {count_parameters(self.params):,} parameters{called})"


def model(module: Any, variables: Any = None, *, per_sample: bool | None = None, **options: Any) -> Model:
    """Turns a module of Flax or Equinox, or any function, into `apply(params, x)` with `params`.

    | given | parameters | fixed |
    |---|---|---|
    | an `nnx.Module` | its `nnx.Param`s | all other variables: batch statistics, keys, counts |
    | a `linen.Module` with its variables | the collection `params` | all other collections |
    | an Equinox module, with its `State` if it has one | its floating-point arrays | everything else |
    | one of Secant's networks with its parameters | these parameters | |
    | any `f(params, x)` with its parameters | these parameters | |

    The module is set to evaluation, not training. `nnx.Module.eval` and `equinox.nn.inference_mode` are applied to a
    copy. A `__call__` with an argument such as `train` or `deterministic` gets the value for evaluation, unless its
    default is None.

    Equinox modules are usually written for one sample. The shapes are tried without computing anything. A module that
    takes batches of any length gets the batch; any other module is mapped over the samples. `repr(model)` shows which
    way was chosen. If a module takes both and the numbers differ, an error asks for `per_sample`.

    Args:
        module: the module, the network or the function.
        variables: the variables of a Flax linen module; the `State` of an Equinox module; the parameters of a function.
        per_sample: whether `module` takes one sample, without an axis for the batch. By default Flax modules take
            batches, and for Equinox modules both ways are tried.
        options: other arguments of the module, passed on with every call; for Flax linen also `rngs` and `method`.

    Example:
        ```python
        import equinox as eqx
        import jax
        import secant as sc

        net = eqx.nn.MLP(in_size=3, out_size=2, width_size=8, depth=1, key=jax.random.key(0))
        model = sc.model(net)
        x = jax.random.normal(jax.random.key(1), (5, 3))
        print(model.apply(model.params, x).shape, model)
        ```
        ```text
        (5, 2) Model(Equinox MLP, 50 parameters, applied to each sample)
        ```
    """
    if per_sample not in (None, True, False):
        raise ValueError(f"model: `per_sample` must be True, False or None, got {per_sample!r}.")
    if library_of(module) is not None:
        reading = read(module, variables, per_sample, options)
        application = only(reading.application)
        return Model(application, reading.params, application.name, reading.restore)
    if options or per_sample is not None:
        given = sorted(options) if options else ["per_sample"]
        raise TypeError(f"model: {given[0]!r} is for modules of Flax and Equinox, got {type(module).__name__}.")
    if isinstance(module, Model):
        return module if variables is None else module.at(variables)
    if not callable(module) and not isinstance(module, Network):
        raise TypeError(
            "model: `module` must be a module of Flax or Equinox, one of Secant's networks or a function of "
            f"(params, x), got {type(module).__name__}."
        )
    if variables is None:
        raise TypeError("model: a function has its parameters outside. Pass them, too: `secant.model(f, params)`.")
    apply = module.apply if isinstance(module, Network) else module
    name = module.name if isinstance(module, Network) else getattr(module, "__qualname__", type(module).__name__)
    return Model(apply, variables, name, lambda at: functools.partial(apply, at))
