"""Activations: by name, with parameters, or any function of your own."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

__all__ = ["ACTIVATIONS", "Nonlinearity", "exp", "hermite", "leaky", "monomial", "rbf", "sigmoid_like"]

Function = Callable[[Array], Array]
"""A function applied to every entry of an array."""


@dataclass(frozen=True)
class Nonlinearity:
    r"""A function of one number with the parameters that make it: $\sigma(z; \theta)$.

    Two nonlinearities with the same name and parameters are equal, so a network of either is compiled once. Formulas
    for a kind of activation are found by its name.

    Attributes:
        name: the kind, such as `leaky`.
        formula: `formula(z, *parameters)`, entry by entry.
        parameters: numbers, which are not trained.

    Example:
        ```python
        from secant import nets

        leaky = nets.activations.leaky
        net = nets.mlp([64, 64], activation=leaky(0.2))
        print(leaky(0.2) == leaky(0.2), leaky(0.2))
        ```
        ```text
        True leaky(0.2)
        ```
    """

    name: str
    formula: Callable[..., Array]
    parameters: tuple[Any, ...] = ()

    def __call__(self, z: Array) -> Array:
        """The activation of every entry."""
        return self.formula(z, *self.parameters)

    @property
    def __name__(self) -> str:
        """The name in errors and records."""
        return str(self)

    def __str__(self) -> str:
        shown = ", ".join(f"{p:g}" if isinstance(p, float | int) else str(p) for p in self.parameters)
        return f"{self.name}({shown})" if self.parameters else self.name


def _identity(z: Array) -> Array:
    return z


def _gelu(z: Array) -> Array:
    return jax.nn.gelu(z, approximate=False)


def _swish(z: Array) -> Array:
    return z * jax.nn.sigmoid(z)


def _softplus(z: Array) -> Array:
    return jnp.logaddexp(z, jnp.zeros((), z.dtype))


def _step(z: Array) -> Array:
    return (z > 0).astype(z.dtype)


def _leaky(z: Array, slope: float) -> Array:
    return jnp.where(z >= 0, z, slope * z)


def _exp(z: Array, a: float, b: float) -> Array:
    return a * jnp.exp(b * z)


def _rbf(z: Array, gamma: float) -> Array:
    return math.sqrt(2) * jnp.sin(math.sqrt(2 * gamma) * z + math.pi / 4)


def _monomial(z: Array, degree: int) -> Array:
    return z**degree


def _hermite(z: Array, *coefficients: float) -> Array:
    before, here = jnp.zeros_like(z), jnp.ones_like(z)
    total = coefficients[0] * here
    for k, c in enumerate(coefficients[1:], start=1):
        before, here = here, (z * here - math.sqrt(k - 1) * before) / math.sqrt(k)
        total = total + c * here
    return total


def _sigmoid_like(z: Array, a: float, b: float, c: float) -> Array:
    return a * jax.scipy.special.erf(b * z) + c


def _number(kind: str, name: str, value: float) -> float:
    value = float(value)
    if not math.isfinite(value):
        raise ValueError(f"{kind}: `{name}` must be a finite number, got {value}.")
    return value


def leaky(slope: float = 0.01) -> Nonlinearity:
    r"""$\sigma(z) = z$ for $z \ge 0$ and $s z$ below."""
    return Nonlinearity("leaky", _leaky, (_number("leaky", "slope", slope),))


def exp(a: float = 1.0, b: float = 1.0) -> Nonlinearity:
    r"""$\sigma(z) = a\,e^{b z}$."""
    return Nonlinearity("exp", _exp, (_number("exp", "a", a), _number("exp", "b", b)))


def rbf(gamma: float = 1.0) -> Nonlinearity:
    r"""$\sigma(z) = \sqrt2 \sin(\sqrt{2\gamma}\, z + \pi/4)$, whose wide first layer has the Gaussian kernel
    $e^{-\gamma\,\mathbb E(z - z')^2}$."""
    gamma = _number("rbf", "gamma", gamma)
    if gamma <= 0:
        raise ValueError(f"rbf: `gamma` must be above 0, got {gamma}.")
    return Nonlinearity("rbf", _rbf, (gamma,))


def monomial(degree: int) -> Nonlinearity:
    r"""$\sigma(z) = z^k$, with a whole $k \ge 0$."""
    if not isinstance(degree, int) or degree < 0:
        raise ValueError(f"monomial: `degree` must be a whole number of at least 0, got {degree!r}.")
    return Nonlinearity("monomial", _monomial, (degree,))


def hermite(coefficients: Sequence[float]) -> Nonlinearity:
    r"""$\sigma(z) = \sum_k c_k\, h_k(z)$ with the Hermite polynomials, orthonormal for a standard normal $z$."""
    found = tuple(_number("hermite", "coefficients", c) for c in coefficients)
    if not found:
        raise ValueError("hermite: `coefficients` must hold at least one number, got none.")
    return Nonlinearity("hermite", _hermite, found)


def sigmoid_like(a: float = 0.5, b: float = 1 / 2.4020563531719796, c: float = 0.5) -> Nonlinearity:
    r"""$\sigma(z) = a \operatorname{erf}(b z) + c$; by default within 0.01 of the logistic function.

    The default $b$ minimises the mean square difference over $[-5, 5]$, as in neural-tangents.
    """
    numbers = [_number("sigmoid_like", name, value) for name, value in (("a", a), ("b", b), ("c", c))]
    return Nonlinearity("sigmoid_like", _sigmoid_like, tuple(numbers))


_PLAIN: dict[str, Callable[..., Array]] = {
    "identity": _identity,
    "relu": jax.nn.relu,
    "tanh": jnp.tanh,
    "erf": jax.scipy.special.erf,
    "sigmoid": jax.nn.sigmoid,
    "swish": _swish,
    "gelu": _gelu,
    "softplus": _softplus,
    "sin": jnp.sin,
    "cos": jnp.cos,
    "abs": jnp.abs,
    "step": _step,
    "sign": jnp.sign,
}

ACTIVATIONS: dict[str, Nonlinearity] = {name: Nonlinearity(name, formula) for name, formula in _PLAIN.items()} | {
    made.name: made for made in (leaky(), exp(), rbf(), sigmoid_like())
}
r"""Every activation that has a name. Those with parameters have the default ones.

The slope of `relu` at zero is 0, and its second derivative is 0 everywhere; `gelu` is $z\,\Phi(z)$ with the Gaussian
distribution function, not its approximation by tanh; `step` and `sign` have the slope 0 everywhere.
"""


def named(activation: str | Function) -> tuple[str, Function]:
    """The name of an activation and the function; a function is called after itself."""
    if isinstance(activation, str):
        if activation in ACTIVATIONS:
            return activation, ACTIVATIONS[activation]
        close = difflib.get_close_matches(activation, ACTIVATIONS, n=1)
        hint = f"Did you mean {close[0]!r}?" if close else f"Known activations: {', '.join(ACTIVATIONS)}."
        raise ValueError(f"unknown activation {activation!r}. {hint} Any function of an array will do as well.")
    if not callable(activation):
        raise TypeError(f"`activation` must be a name or a function of an array, got {activation!r}.")
    return getattr(activation, "__name__", "activation"), activation


_heard: ContextVar[list[Array] | None] = ContextVar("heard", default=None)


@contextmanager
def listening() -> Iterator[list[Array]]:
    """Collects the inputs of every activation while the block runs."""
    heard: list[Array] = []
    token = _heard.set(heard)
    try:
        yield heard
    finally:
        _heard.reset(token)


def activate(function: Function, z: Array) -> Array:
    """Applies an activation. All layers apply theirs through this function, so that `listening` hears of every one."""
    heard = _heard.get()
    if heard is not None:
        heard.append(z)
    return function(z)
