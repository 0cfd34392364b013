"""The decorator `takes_models`: functions of `(f, params, ...)` accept a model in the place of both."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

import jax

from secant.core.types import Params
from secant.models.application import Application, Function
from secant.models.bundle import Model, model
from secant.models.libraries import is_state, library_of
from secant.nets.network import Network

Rest = ParamSpec("Rest")
Result = TypeVar("Result", covariant=True)


class TakesModels(Protocol[Rest, Result]):
    """A function of `(f, params, ...)` that also takes a model in the place of these two."""

    __name__: str

    @overload
    def __call__(self, f: Any, params: Params, /, *rest: Rest.args, **named: Rest.kwargs) -> Result: ...

    @overload
    def __call__(self, f: Any, /, *rest: Rest.args, **named: Rest.kwargs) -> Result: ...


def takes_models(function: Callable[Concatenate[Function, Params, Rest], Result]) -> TakesModels[Rest, Result]:
    """Lets a function of `(f, params, ...)` take models of Flax and Equinox.

    A module that holds its parameters takes the place of both `f` and `params`; so does a
    [`Model`][secant.models.Model]. A Flax linen module is followed by its variables, an Equinox module with a state by
    the state, and one of Secant's networks by its parameters.
    """
    first, second = list(inspect.signature(function).parameters)[:2]

    @functools.wraps(function)
    def entrance(*arguments: Any, **named: Any) -> Any:
        given = list(arguments)
        if not given and first in named:
            given.append(named.pop(first))
        if given and not inspect.isfunction(given[0]):
            given = _resolved(function.__name__, second, given, named)
        return function(*given, **named)

    return entrance


def function_of(caller: str, f: Any) -> tuple[Function, Params | None]:
    """The function of a model, a module, a network or a function, and the parameters if it brings any."""
    found = _carried(f)
    if found is not None:
        return found.apply, found.params
    if library_of(f) == "linen":
        raise TypeError(
            f"{caller}: a module of Flax linen has its variables outside. Pass `secant.model(module, variables)`."
        )
    if isinstance(f, Network):
        return f.apply, None
    if not callable(f):
        raise TypeError(
            f"{caller}: `f` must be a function of (params, x), a module of Flax or Equinox, or a `secant.model`, got "
            f"{type(f).__name__}."
        )
    return f, None


def settle(f: Any, params: Params, x: Any) -> None:
    """Raises an error if a module can be called in two ways with two results, before it is called."""
    if isinstance(f, Application):
        f.settle(params, x)


def _carried(f: Any, state: Any = None) -> Model | None:
    if isinstance(f, Model):
        return f
    library = library_of(f)
    inside = library in ("nnx", "equinox") or (library == "linen" and f.scope is not None)
    return model(f, state) if inside else None


def _resolved(caller: str, second: str, given: list[Any], named: dict[str, Any]) -> list[Any]:
    """The arguments with `f` and `params` in the first two places."""
    f, *rest = given
    state = rest.pop(0) if library_of(f) == "equinox" and rest and is_state(rest[0]) else None
    found = _carried(f, state)
    if found is not None:
        _refuse_parameters(caller, second, found, rest, named)
        return [found.apply, found.params, *rest]
    if library_of(f) == "linen":
        variables = rest.pop(0) if rest else named.pop(second, None)
        found = model(f, variables)
        return [found.apply, found.params, *rest]
    _refuse_collections(caller, f, rest[0] if rest else named.get(second))
    return [function_of(caller, f)[0], *rest]


def _refuse_parameters(caller: str, second: str, found: Model, rest: list[Any], named: dict[str, Any]) -> None:
    """Raises an error if parameters are given beside a model that has its own."""
    structure: Any = jax.tree.structure(found.params)
    leaf: Any = jax.tree.structure(0)
    twice = bool(rest) and structure != leaf and jax.tree.structure(rest[0]) == structure
    if second in named or twice:
        raise TypeError(
            f"{caller}: {found.name} brings its parameters; leave `{second}` out. For other parameters pass "
            f"`secant.model(...).at({second})` in its place."
        )


def _refuse_collections(caller: str, f: Any, variables: Any) -> None:
    """Raises an error if the statistics of a Flax module would be taken for parameters."""
    method = getattr(f, "func", f)
    owner = getattr(method, "__self__", None)
    if library_of(owner) != "linen" or not isinstance(variables, Mapping):
        return
    others = [name for name in variables if name != "params"]
    if "params" in variables and others:
        raise TypeError(
            f"{caller}: {', '.join(map(repr, others))} in the variables of {type(owner).__name__} would be taken for "
            "parameters. Pass the module itself, followed by its variables: only 'params' are parameters then."
        )
