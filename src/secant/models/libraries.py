"""Modules of Flax and Equinox, read as a function, its parameters, and everything else.

No library is imported that is not in use: a module of a library exists only if the library is loaded already.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from secant.core.types import Params
from secant.models.application import Application

EVALUATION = {
    "train": False,
    "training": False,
    "is_training": False,
    "deterministic": True,
    "use_running_average": True,
    "inference": True,
}
"""Arguments that switch a module from training to evaluation, and their values for evaluation."""


class Reading(NamedTuple):
    """A module as a function.

    Attributes:
        application: `(params, x) -> outputs`.
        params: its parameters.
        restore: parameters -> what the user gave: a module, or the variables of a module.
    """

    application: Application
    params: Params
    restore: Callable[[Params], Any]


def library_of(module: Any) -> str | None:
    """The library whose module this is: `nnx`, `linen` or `equinox`; None for anything else."""
    for library, path in (("nnx", "flax.nnx"), ("linen", "flax.linen"), ("equinox", "equinox")):
        kind = getattr(sys.modules.get(path), "Module", None)
        if kind is not None and isinstance(module, kind):
            return library if library != "equinox" or _holds_numbers(module) else None
    return None


def read(module: Any, variables: Any, per_sample: bool | None, options: dict[str, Any]) -> Reading:
    """Reads a module of a library that `library_of` knows."""
    reader = {"nnx": _read_nnx, "linen": _read_linen, "equinox": _read_equinox}[library_of(module) or ""]
    return reader(module, variables, per_sample, options)


def is_state(value: Any) -> bool:
    """Whether this is the state of an Equinox module, such as the statistics of batch normalisation."""
    kind = getattr(getattr(sys.modules.get("equinox"), "nn", None), "State", None)
    return kind is not None and isinstance(value, kind)


def _holds_numbers(module: Any) -> bool:
    """Whether a module has parameters: functions wrapped by Equinox are modules without any."""
    import equinox

    return any(equinox.is_inexact_array(leaf) for leaf in jax.tree.leaves(module))


def _read_nnx(module: Any, variables: Any, per_sample: bool | None, options: dict[str, Any]) -> Reading:
    from flax import nnx

    if variables is not None:
        raise TypeError("model: a module of nnx has its variables inside. Pass it alone.")
    name, options = f"Flax nnx {type(module).__name__}", _evaluating(module, options)
    given, trained, others = nnx.split(module, nnx.Param, ...)
    # A new module with the user's arrays but not the user's variables: nothing done here reaches the user's module.
    own = nnx.merge(given, _copied(trained), _copied(others))
    own.eval()
    graph, params, rest = nnx.split(own, nnx.Param, ...)
    _refuse_none(name, params, "nnx.Param")
    application = Application(name, _call_nnx, graph, rest, options, per_sample or False)
    kept = _copied(others)
    return Reading(application, params, lambda at: nnx.merge(given, _copied(at), _copied(kept)))


def _call_nnx(graph: Any, params: Params, rest: Any, x: Any, **options: Any) -> Any:
    from flax import nnx

    return nnx.merge(graph, _copied(params), rest)(x, **options)


def _read_linen(module: Any, variables: Any, per_sample: bool | None, options: dict[str, Any]) -> Reading:
    if variables is None and module.scope is not None:
        module, variables = module.unbind()
    name = f"Flax linen {type(module).__name__}"
    if not isinstance(variables, Mapping) or "params" not in variables:
        got = ", ".join(map(repr, variables)) if isinstance(variables, Mapping) else type(variables).__name__
        raise TypeError(
            f"model: {name} has its variables outside. Pass them with it, a dict as `module.init` returns it: "
            f"{{'params': ..., 'batch_stats': ...}}; got {got}."
        )
    rest = {collection: values for collection, values in variables.items() if collection != "params"}
    params = _copied(variables["params"])
    _refuse_none(name, params, "parameter")
    options = options if "method" in options else _evaluating(module, options)
    application = Application(name, _call_linen, module, rest, options, per_sample or False)
    return Reading(application, params, lambda at: {**rest, "params": at})


def _call_linen(module: Any, params: Params, rest: Any, x: Any, **options: Any) -> Any:
    return module.apply({**rest, "params": params}, x, **options)


def _read_equinox(module: Any, state: Any, per_sample: bool | None, options: dict[str, Any]) -> Reading:
    import equinox as eqx

    name = f"Equinox {type(module).__name__}"
    if state is not None and not is_state(state):
        raise TypeError(f"model: {name} takes an `equinox.nn.State` beside it or nothing, got {type(state).__name__}.")
    remembered = jax.tree.leaves(module, is_leaf=_is_index)
    if state is None and any(_is_index(leaf) for leaf in remembered):
        raise TypeError(
            f"model: {name} has a state, as batch normalisation has. Pass it beside the module: "
            "`model, state = equinox.nn.make_with_state(...)(...)` and `secant.model(model, state)`."
        )
    options = _evaluating(module, options, taken=1 if state is None else 2)
    # The markers of a module's state are not trained, whatever they hold.
    trained = jax.tree.map(eqx.is_inexact_array, module, is_leaf=_is_index)
    params, others = eqx.partition(module, trained)
    _refuse_none(name, params, "floating-point array")
    rest = eqx.partition(eqx.nn.inference_mode(module), trained)[1]
    numbers, static = eqx.partition(rest, eqx.is_array)
    leaves, tree = jax.tree.flatten(static)
    application = Application(name, _call_equinox, tree, (numbers, leaves, state), options, per_sample)
    return Reading(application, params, lambda at: eqx.combine(at, others))


def _call_equinox(tree: Any, params: Params, fixed: Any, x: Any, **options: Any) -> Any:
    import equinox as eqx

    numbers, leaves, state = fixed
    module = eqx.combine(params, numbers, jax.tree.unflatten(tree, leaves))
    return module(x, **options) if state is None else module(x, state, **options)[0]


def _is_index(node: Any) -> bool:
    import equinox as eqx

    return isinstance(node, eqx.nn.StateIndex)


def _copied(tree: Any) -> Any:
    """A copy of the containers of a tree, with the same numbers."""
    return jax.tree.map(lambda leaf: jnp.array(leaf) if isinstance(leaf, np.ndarray) else leaf, tree)


def _refuse_none(name: str, params: Params, what: str) -> None:
    if not jax.tree.leaves(params):
        raise ValueError(f"model: {name} has no {what}: there is nothing to train or to differentiate by.")


def _evaluating(module: Any, options: dict[str, Any], taken: int = 1) -> dict[str, Any]:
    """The arguments of a call after the first `taken`: the given ones, and those that ask for evaluation."""
    try:
        arguments = list(inspect.signature(module.__call__).parameters.values())
    except (TypeError, ValueError):
        return options
    named = [a for a in arguments[taken:] if a.kind in (a.POSITIONAL_OR_KEYWORD, a.KEYWORD_ONLY)]
    asked = {a.name: EVALUATION[a.name] for a in named if a.name in EVALUATION and a.default is not None}
    options = asked | options
    missing = [a.name for a in named if a.default is a.empty and a.name not in options]
    if missing:
        raise TypeError(
            f"model: `{type(module).__name__}.__call__` also takes {', '.join(map(repr, missing))}. "
            f"Pass it by name: `secant.model(module, ..., {missing[0]}=...)`."
        )
    return options
