"""The Model: a module of any library, or any function, with its parameters."""

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
    """A function of `(params, x)` and the parameters it stands at; made by [`model`][secant.models.model].

    Goes wherever a function and its parameters go, in the place of both: `sc.ntk(model, x)` is
    `sc.ntk(model.apply, model.params, x)`.

    Attributes:
        apply: `(params, x) -> outputs`, one row a sample.
        params: its parameters, a pytree of the library's own kind.
        name: what it is called.
        restore: from parameters to the module of its library that has them.
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
        """A module of its library with these parameters; for Flax linen its variables, for a function one of `x`."""
        return self.restore(self.params)

    def __repr__(self) -> str:
        called = f", applied to {self.apply.way}" if isinstance(self.apply, Application) else ""
        return f"Model({self.name}, {count_parameters(self.params):,} parameters{called})"


def model(module: Any, variables: Any = None, *, per_sample: bool | None = None, **options: Any) -> Model:
    """A model of Flax or Equinox, or any function, as `apply(params, x)` with `params`.

    | given | parameters | fixed |
    |---|---|---|
    | an `nnx.Module` | its `nnx.Param`s | all other variables: batch statistics, keys, counts |
    | a `linen.Module` with its variables | the collection `params` | all other collections |
    | an Equinox module, with its `State` if it has one | its floating-point arrays | everything else |
    | one of Secant's networks with its parameters | those | |
    | any `f(params, x)` with its parameters | those | |

    The module evaluates and does not train: `nnx.Module.eval` and `equinox.nn.inference_mode` are applied to a copy,
    and a `__call__` with an argument such as `train` or `deterministic` is told so, unless its default is None.

    Equinox modules are usually written for one sample. Shapes are tried, without computing anything: a module that
    takes batches of any length is given the batch, any other is mapped over the samples, and `repr(model)` says which.
    One that takes both and gives other numbers is refused until `per_sample` is given.

    Args:
        module: what there is.
        variables: of a module of Flax linen; the `State` of an Equinox module; the parameters of a function.
        per_sample: whether `module` takes one sample, without an axis for the batch; by default Flax's do not, and for
            Equinox's it is tried.
        options: what else the module takes, passed on with every call; for Flax linen also `rngs` and `method`.

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
