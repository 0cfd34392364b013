"""Checks of the arguments that all measurements share: shapes, types, losses, and functions that mix samples."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from secant.core.arguments import is_traced
from secant.core.device import all_finite, jit
from secant.core.memo import kept
from secant.core.types import Params
from secant.losses import LOSSES, Loss
from secant.losses import get as get_loss
from secant.models.application import Function
from secant.models.entrance import settle


def samples_in(caller: str, x: Any, name: str = "x") -> int:
    """The number of samples in a batch: the common leading length of its arrays."""
    leaves = jax.tree.leaves(x)
    lengths = {jnp.shape(leaf)[0] if jnp.ndim(leaf) else None for leaf in leaves}
    if len(lengths) != 1 or None in lengths:
        raise ValueError(f"{caller}: `{name}` must hold one row a sample, got shapes {[jnp.shape(a) for a in leaves]}.")
    count = lengths.pop()
    if count == 0:
        raise ValueError(f"{caller}: `{name}` is an empty batch. Pass at least one sample.")
    assert count is not None
    return count


def outputs_of(caller: str, f: Function, params: Params, x: Any, name: str = "x") -> jax.ShapeDtypeStruct:
    """Shape and type of `f(params, x)`. Checks every argument and computes nothing."""
    real_parameters(caller, params)
    count = samples_in(caller, x, name)
    settle(f, params, x)
    try:
        outputs = _shapes(f)(params, x)
    except Exception as error:
        if _takes_inputs_first(f, params, x, count):
            raise TypeError(
                f"{caller}: `f` takes its arguments the other way round: `f(params, {name})` fails and "
                f"`f({name}, params)` does not. Wrap it: `lambda params, x: f(x, params)`."
            ) from error
        shapes = [jnp.shape(leaf) for leaf in jax.tree.leaves(x)]
        error.add_note(f"{caller}: this is what `f(params, {name})` raised, for `{name}` of shape {shapes}.")
        raise
    if not isinstance(outputs, jax.ShapeDtypeStruct):
        raise TypeError(f"{caller}: `f` must return one array, it returns {jax.tree.structure(outputs)}.")
    if outputs.ndim < 1 or outputs.shape[0] != count:
        swapped = (
            f" `f({name}, params)` does: if `f` takes its inputs first, wrap it: `lambda params, x: f(x, params)`."
            if _takes_inputs_first(f, params, x, count)
            else ""
        )
        raise ValueError(
            f"{caller}: `f(params, {name})` has shape {outputs.shape} for {count} samples. "
            f"It must return one row a sample: ({count},) or ({count}, outputs).{swapped}"
        )
    if not jnp.issubdtype(outputs.dtype, jnp.floating):
        raise TypeError(f"{caller}: `f` must return real floating-point outputs, it returns {outputs.dtype}.")
    return outputs


def _takes_inputs_first(f: Function, params: Params, x: Any, count: int) -> bool:
    """Whether `f(x, params)` gives one row of floating-point numbers for each sample."""
    try:
        outputs = _shapes(f)(x, params)
    except Exception:
        return False
    floats = isinstance(outputs, jax.ShapeDtypeStruct) and jnp.issubdtype(outputs.dtype, jnp.floating)
    return floats and outputs.shape[:1] == (count,)


@kept
def _shapes(function: Callable[..., Any]) -> Callable[..., Any]:
    """Shapes and types of what a function returns. Known input shapes do not evaluate the function again."""
    # The lambda is needed because JAX cannot compile a function without a hash.
    shapes: Callable[..., Any] = jax.jit(lambda *arguments: function(*arguments)).eval_shape
    return shapes


def real_parameters(caller: str, params: Params) -> None:
    """Raises an error if parameters have no real derivative."""
    leaves = jax.tree.leaves_with_path(params)
    if not leaves:
        raise ValueError(f"{caller}: `params` holds no array. Pass the parameters of `f`.")
    for path, leaf in leaves:
        dtype = jnp.result_type(leaf)
        if not jnp.issubdtype(dtype, jnp.floating):
            where = jax.tree_util.keystr(path)
            raise TypeError(
                f"{caller}: `params`{where} is of type {dtype}; every parameter must be real and floating-point. "
                "Keep counters and complex numbers out of `params`, or split them into real and imaginary parts."
            )


def scalar_loss(caller: str, loss: Callable[..., Any], outputs: jax.ShapeDtypeStruct, y: Any) -> None:
    """Raises an error if the loss is not one real number."""
    value = _shapes(loss)(outputs, y)
    if not isinstance(value, jax.ShapeDtypeStruct) or value.shape != ():
        got = getattr(value, "shape", value)
        raise TypeError(
            f"{caller}: `loss(outputs, targets)` must be one number, its shape is {got}. Sum or average it."
        )
    if not jnp.issubdtype(value.dtype, jnp.floating):
        raise TypeError(f"{caller}: `loss(outputs, targets)` must be a real number, it is of type {value.dtype}.")
    if isinstance(loss, Loss):
        loss.check_targets(outputs.shape, y)


def squared_curvature(caller: str, loss: Loss | str, outputs: Any) -> float:
    r"""The number $c$ of a squared loss, $\partial^2 L/\partial f \partial f = c\, I$. Any other loss is an error."""
    found = get_loss(loss)
    c = found.curvature(outputs)
    if c is None:
        squared = ", ".join(name for name, one in LOSSES.items() if one.weight is not None)
        raise ValueError(
            f"{caller}: `loss` must be one of the squared losses of secant.losses ({squared}), got {found.name}."
        )
    return c


def finite_results(caller: str, *results: Array) -> None:
    """Raises an error if a result is not finite. Traced results have no numbers yet and pass."""
    if not is_traced(results) and not all(map(_is_finite, results)):
        raise FloatingPointError(
            f"{caller}: the result is not finite. Check that the parameters, the data and the loss are finite."
        )


def _is_finite(result: Any) -> bool:
    """Whether all numbers are finite. On a CPU numpy looks, without a copy and without a program for every shape."""
    if jax.default_backend() == "cpu":
        return bool(np.isfinite(np.asarray(result)).all())
    return all_finite(result)


def squared_norm(tree: Any) -> float:
    """The sum of the squares of all numbers. On a CPU numpy adds them, without a program for every shape."""
    square = (lambda a: np.sum(np.square(a))) if jax.default_backend() == "cpu" else (lambda a: jnp.vdot(a, a))
    return sum(float(square(leaf)) for leaf in jax.tree.leaves(tree))


def matching_targets(caller: str, outputs: jax.ShapeDtypeStruct, y: Any) -> None:
    """Raises an error if targets and outputs have different numbers of samples."""
    if samples_in(caller, y, "y") != outputs.shape[0]:
        raise ValueError(
            f"{caller}: `y` has {samples_in(caller, y, 'y')} samples and `x` has {outputs.shape[0]}. "
            "Pass one target row for each input row."
        )


def refuse_mixing(caller: str, f: Function, params: Params, x: Any) -> None:
    """Raises an error if the output for one sample depends on other samples, as with batch normalisation.

    The check compares the first half of the outputs with the outputs of the first half alone. It also looks for
    derivatives of the first outputs in the second half of the inputs. While a function is being compiled there are no
    numbers to compare, and every function passes.
    """
    count = samples_in(caller, x)
    if count < 2 or is_traced(params, x):
        return
    if not bool(_treats_samples_alone(f)(params, x)):
        raise ValueError(
            f"{caller}: `f` mixes samples: its first {count // 2} outputs change when the others are left out, as with "
            "batch normalisation. Per-sample gradients do not exist then. Use the operator's `mv` and `top`, which "
            "treat the batch as one function, or evaluate `f` with fixed statistics."
        )


@kept
def _treats_samples_alone(f: Function) -> Callable[[Params, Any], Array]:
    def check(params: Params, x: Any) -> Array:
        leaves, structure = jax.tree.flatten(x)
        half = leaves[0].shape[0] // 2
        smooth = [jnp.issubdtype(leaf.dtype, jnp.inexact) for leaf in leaves]

        def first_outputs(*moving: Array) -> Array:
            given = iter(moving)
            mixed = [next(given) if moves else leaf for leaf, moves in zip(leaves, smooth, strict=True)]
            return f(params, jax.tree.unflatten(structure, mixed))[:half]

        whole, pull = jax.vjp(first_outputs, *(leaf for leaf, moves in zip(leaves, smooth, strict=True) if moves))
        alone = f(params, jax.tree.map(lambda a: a[:half], x))
        slack = 1e4 * jnp.finfo(whole.dtype).eps * jnp.maximum(jnp.max(jnp.abs(whole)), 1.0)
        same = jnp.all(jnp.abs(whole - alone) <= slack) | ~jnp.all(jnp.isfinite(whole))
        # If every sample is treated alone, these derivatives are exactly zero, not merely small.
        # The weights have no pattern; random numbers would be most of the program.
        weights = jnp.cos(jnp.arange(1.0, 1.0 + whole.size) ** 2).reshape(whole.shape).astype(whole.dtype)
        others = [signal[half:] for signal in pull(weights)]
        silent = [jnp.all((signal == 0) | ~jnp.isfinite(signal)) for signal in others]
        return functools.reduce(jnp.logical_and, silent, same)

    return jit(check)
