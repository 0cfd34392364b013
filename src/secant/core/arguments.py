"""Checks of numeric arguments. Each error names the function called, the argument, and what would work."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import jax
import numpy as np


def is_traced(*trees: Any) -> bool:
    """Whether values have no numbers yet, as inside a function that is being compiled or differentiated."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(trees))


def _number(caller: str, name: str, value: Any, allowed: Callable[[float], bool], what: str) -> Any:
    if is_traced(value):  # an axis of a run: there is no number to look at yet
        return value
    try:
        found = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{caller}: `{name}` must be a number {what}, got {value!r}.") from None
    if isinstance(value, bool) or not math.isfinite(found) or not allowed(found):
        raise ValueError(f"{caller}: `{name}` must be a finite number {what}, got {value!r}.")
    return found


def step_size(caller: str, value: Any) -> Any:
    """Accepts a finite number above 0, or a schedule, `step -> step size`."""
    return value if callable(value) else _number(caller, "lr", value, lambda found: found > 0, "above 0")


def positive(caller: str, name: str, value: Any) -> Any:
    """Accepts a finite number above 0."""
    return _number(caller, name, value, lambda found: found > 0, "above 0")


def at_least_zero(caller: str, name: str, value: Any) -> Any:
    """Accepts a finite number of at least 0."""
    return _number(caller, name, value, lambda found: found >= 0, "of at least 0")


def fraction(caller: str, name: str, value: Any) -> Any:
    """Accepts a number of at least 0 and below 1."""
    return _number(caller, name, value, lambda found: 0 <= found < 1, "of at least 0 and below 1")


def share(caller: str, name: str, value: Any) -> Any:
    """Accepts a number above 0 and below 1."""
    return _number(caller, name, value, lambda found: 0 < found < 1, "above 0 and below 1")


def whole(caller: str, name: str, value: Any, least: int = 1) -> Any:
    """Accepts a whole number of at least `least`."""
    if is_traced(value):
        return value
    try:
        found = None if isinstance(value, (bool, np.bool_)) else operator.index(value)
    except TypeError:
        found = None
    if found is None or found < least:
        raise ValueError(f"{caller}: `{name}` must be a whole number of at least {least}, got {value!r}.")
    return found
