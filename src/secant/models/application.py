"""Application: a module of Flax or Equinox as one function of parameters and a batch."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from secant.core.types import Params

Function = Callable[[Params, Any], Array]
"""`f(params, x)`: takes a batch of inputs and returns one row of outputs for each sample."""

_HINTS = {
    "InvalidRngError": "It asks for random numbers. Switch that off, or fix them: "
    "`secant.model(..., rngs={name: key})`.",
    "ModifyScopeVariableError": "It wants to update its own state, as in training. Build or call it for evaluation: "
    "`secant.model(..., name=value)` passes arguments on, `train=False` for one.",
}


class Application:
    """The function `f(params, x)` of a module.

    Everything that the module holds beside its parameters (batch statistics, keys, flags) is fixed. Two applications of
    one module are equal and share compiled code.

    Attributes:
        name: the name of the library and the module.
        per_sample: whether the module takes one sample, and is mapped over the batch; None if both ways are tried.
        options: the arguments of a call beside `x`.
    """

    def __init__(
        self,
        name: str,
        call: Callable[..., Array],
        structure: Any,
        fixed: Any,
        options: dict[str, Any],
        per_sample: bool | None = False,
    ) -> None:
        """Made from `call(structure, params, fixed, x, **options)`; `fixed` is a pytree, `structure` has no numbers."""
        self.name, self.per_sample, self.options = name, per_sample, options
        self._call, self._structure = call, structure
        leaves, self._tree = jax.tree.flatten((fixed, options))
        # An array that anybody could write to is no constant.
        self._leaves = [leaf.copy() if isinstance(leaf, np.ndarray) else leaf for leaf in leaves]
        tokens = tuple(_token(leaf) for leaf in (structure, self._tree, *self._leaves))
        self._key = (name, call, per_sample, tokens)
        self._hash = hash(self._key)
        self._ways: dict[Hashable, _Ways] = {}

    def __call__(self, params: Params, x: Any) -> Array:
        """The outputs, one row a sample."""
        each = self.per_sample
        if each is None:
            each = not self._tried(params, x).whole
        try:
            return self._mapped(params, x) if each else self._whole(params, x)
        except Exception as error:
            way = "one sample at a time" if each else "as a batch"
            error.add_note(f"{self.name} was called {way}, for `x` of shape {_shapes_of(x)}.")
            if type(error).__name__ in _HINTS:
                error.add_note(_HINTS[type(error).__name__])
            raise

    def settle(self, params: Params, x: Any) -> None:
        """Raises an error if the module takes a batch as well as one sample and the numbers differ. Tracers pass."""
        traced = any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves((params, x)))
        if self.per_sample is not None or traced:
            return
        found = self._tried(params, x)
        if not (found.whole and found.each) or found.compared:
            return
        few = jax.tree.map(lambda leaf: jnp.asarray(leaf)[:2], x)
        if not _agree(self._whole(params, few), self._mapped(params, few)):
            raise ValueError(
                f"{self.name} takes a batch as well as one sample, and the outputs differ. Say which it was written "
                "for: `secant.model(module, per_sample=True)`, or False."
            )
        self._ways[_sample(x)] = found._replace(compared=True)

    @property
    def is_traced(self) -> bool:
        """Whether the module's fixed part is known only inside a function that is being compiled."""
        return any(isinstance(leaf, jax.core.Tracer) for leaf in self._leaves)

    @property
    def way(self) -> str:
        """How the module is called, in words."""
        each = {self.per_sample} if self.per_sample is not None else {not found.whole for found in self._ways.values()}
        ways: dict[tuple[bool, ...], str] = {(True,): "each sample", (False,): "the batch"}
        on = ways.get(tuple(each), "each sample or the batch, by the shape of its inputs")
        given = ", ".join(f"{name}={_brief(value)}" for name, value in self.options.items())
        return f"{on}, with {given}" if given else on

    def _whole(self, params: Params, x: Any) -> Array:
        fixed, options = jax.tree.unflatten(self._tree, self._leaves)
        return self._call(self._structure, params, fixed, x, **options)

    def _mapped(self, params: Params, x: Any) -> Array:
        return jax.vmap(lambda one: self._whole(params, one))(x)

    def _tried(self, params: Params, x: Any) -> _Ways:
        """The ways in which the module takes inputs of this shape. Only shapes decide, so that the answer is kept."""
        if _sample(x) not in self._ways:
            self._ways[_sample(x)] = self._try(params, x)
        return self._ways[_sample(x)]

    def _try(self, params: Params, x: Any) -> _Ways:
        # This number of samples differs from all other sizes: a module for one sample cannot take it for features.
        sizes = {size for leaf in jax.tree.leaves((params, x)) for size in jnp.shape(leaf)}
        count = next(n for n in itertools.count(3) if n not in sizes)
        batch = jax.tree.map(lambda a: jax.ShapeDtypeStruct((count, *jnp.shape(a)[1:]), jnp.result_type(a)), x)
        whole = _raised(lambda: _same_samples(jax.eval_shape(self._whole, params, batch), count))
        each = _raised(lambda: jax.eval_shape(self._mapped, params, batch))
        if whole is not None and each is not None:
            each.add_note(
                f"{self.name} takes `x` of shape {_shapes_of(x)} neither one sample at a time, which raised this, nor "
                f"as a batch: {type(whole).__name__}: {str(whole).split(chr(10))[0]}"
            )
            raise each
        return _Ways(whole is None, each is None)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Application) and self._key == other._key

    def __repr__(self) -> str:
        return f"{self.name}.apply"


class _Ways(NamedTuple):
    """Whether a module takes a batch, whether it takes one sample, and whether both were seen to agree."""

    whole: bool
    each: bool
    compared: bool = False


def only(application: Application) -> Application:
    """The first of all equal applications, which knows how the module was called before."""
    # A traced application ends with its trace, and must not be kept.
    return application if application.is_traced else _first(application)


@functools.lru_cache(maxsize=32)
def _first(application: Application) -> Application:
    return application


class _Same:
    """An object, equal to nothing but itself."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value


def _token(value: Any) -> Hashable:
    """A token that stands for a value in comparisons. Arrays never change, so that their identity is compared."""
    try:
        hash(value)
    except TypeError:
        return _Same(value)
    return _Same(value) if isinstance(value, jax.Array) else (type(value), value)


def _raised(call: Callable[[], Any]) -> Exception | None:
    try:
        call()
    except Exception as error:
        return error
    return None


def _same_samples(outputs: Any, count: int) -> None:
    shapes = _shapes_of(outputs)
    if not shapes or any(shape[:1] != (count,) for shape in shapes):
        raise ValueError(f"{count} samples give outputs of shape {shapes}.")


def _agree(first: Any, second: Any) -> bool:
    """Whether two outputs are equal up to rounding."""
    if _shapes_of(first) != _shapes_of(second):
        return False
    for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True):
        one, other = np.asarray(a, float), np.asarray(b, float)
        slack = float(jnp.finfo(jnp.result_type(a, jnp.bfloat16)).eps) ** 0.5
        size = np.max(np.abs(one[np.isfinite(one)]), initial=1.0)
        if not np.allclose(one, other, rtol=0, atol=slack * size, equal_nan=True):
            return False
    return True


def _brief(value: Any) -> str:
    return repr(value) if isinstance(value, (bool, int, float, str)) else "..."


def _shapes_of(tree: Any) -> list[tuple[int, ...]]:
    return [tuple(jnp.shape(leaf)) for leaf in jax.tree.leaves(tree)]


def _sample(x: Any) -> Hashable:
    """Structure, shape and type of one sample of a batch."""
    leaves, tree = jax.tree.flatten(x)
    return tree, tuple((jnp.shape(leaf)[1:], jnp.result_type(leaf)) for leaf in leaves)
