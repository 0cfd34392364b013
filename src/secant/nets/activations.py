"""Activations: by name, or any function of your own."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import jax
import jax.numpy as jnp
from jaxtyping import Array

Function = Callable[[Array], Array]
"""A function applied to every entry of an array."""


def identity(z: Array) -> Array:
    r"""$\sigma(z) = z$."""
    return z


def leaky(z: Array) -> Array:
    r"""$\sigma(z) = z$ for $z \ge 0$ and $0.01\, z$ below."""
    return jax.nn.leaky_relu(z, 0.01)


def gelu(z: Array) -> Array:
    r"""$\sigma(z) = z\,\Phi(z)$ with the Gaussian distribution function $\Phi$, not its tanh approximation."""
    return jax.nn.gelu(z, approximate=False)


def swish(z: Array) -> Array:
    r"""$\sigma(z) = z / (1 + e^{-z})$."""
    return z * jax.nn.sigmoid(z)


def softplus(z: Array) -> Array:
    r"""$\sigma(z) = \log(1 + e^z)$."""
    return jnp.logaddexp(z, jnp.zeros((), z.dtype))


ACTIVATIONS: dict[str, Function] = {
    "identity": identity,
    "relu": jax.nn.relu,
    "leaky": leaky,
    "tanh": jnp.tanh,
    "erf": jax.scipy.special.erf,
    "sigmoid": jax.nn.sigmoid,
    "swish": swish,
    "gelu": gelu,
    "softplus": softplus,
    "sin": jnp.sin,
}
r"""Every activation, by name. The slope of `relu` at zero is 0, and its second derivative is 0 everywhere."""


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
    """Collects what every activation is given while the block runs."""
    heard: list[Array] = []
    token = _heard.set(heard)
    try:
        yield heard
    finally:
        _heard.reset(token)


def activate(function: Function, z: Array) -> Array:
    """Applies an activation. Every layer does it through here, so that pre-activations can be listened to."""
    heard = _heard.get()
    if heard is not None:
        heard.append(z)
    return function(z)
