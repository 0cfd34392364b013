"""Recursions iterated on the host, where every state is wanted and a compiled loop would not pay."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

State = TypeVar("State")


def orbit(step: Callable[[State], State], start: State, steps: int) -> list[State]:
    """The start and the states after each of `steps` steps."""
    states = [start]
    for _ in range(steps):
        states.append(step(states[-1]))
    return states
