"""Brings losses from an accelerator many at a time: one copy each step would cost as much as the rest of a call."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from secant.core.device import jit

TOGETHER = 64
"""How many numbers are brought together."""


class Bundle:
    """Up to `TOGETHER` numbers of one type and place, which become one array."""

    def __init__(self) -> None:
        self.numbers: list[jax.Array] = []
        self.array: Any = None

    def add(self, number: jax.Array) -> Promise:
        """Adds a number; it will come with the others."""
        self.numbers.append(number)
        if len(self.numbers) == TOGETHER:
            self.array, self.numbers = _stacked(self.numbers), []
            self.array.copy_to_host_async()
        return Promise(self, len(self.numbers) - 1 if self.array is None else TOGETHER - 1)


class Promise:
    """A number of a bundle, which may still be under way."""

    def __init__(self, bundle: Bundle, place: int) -> None:
        self.bundle, self.place = bundle, place

    def is_ready(self) -> bool:
        """Whether it has come."""
        array = self.bundle.array
        return array is not None and (isinstance(array, np.ndarray) or array.is_ready())

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        """The number; waits for it."""
        if self.bundle.array is None:  # asked for before the bundle is full
            return np.asarray(self.bundle.numbers[self.place], dtype)
        self.bundle.array = np.asarray(self.bundle.array)
        return np.asarray(self.bundle.array[self.place], dtype)


class Carrier:
    """Puts numbers into bundles."""

    def __init__(self) -> None:
        self._bundle = Bundle()
        self._kind: Any = None

    def promise(self, value: Any) -> Any:
        """Puts a number that is under way into a bundle and returns its promise; returns any other value as it is."""
        if not isinstance(value, jax.Array) or value.shape != () or len(value.devices()) > 1:
            return value
        kind = value.dtype, value.sharding
        if self._bundle.array is not None or kind != self._kind:
            self._bundle, self._kind = Bundle(), kind
        return self._bundle.add(value)


@jit
def _stacked(numbers: list[jax.Array]) -> jax.Array:
    return jnp.stack(numbers)
