"""The Map: a discrete dynamical system as two pure functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

State = Any
"""Any pytree of arrays."""


def everything(state: State) -> State:
    """The state itself: what a [`Map`][secant.dynamics.Map] shows unless it says otherwise."""
    return state


class Map(NamedTuple):
    r"""A discrete dynamical system, $s_{t+1} = F(s_t)$.

    Gradient descent on a network is a Map, and so is a two-number recursion. Everything that iterates is a Map, so that
    one runner, [`simulate`][secant.dynamics.simulate], serves all.

    Attributes:
        init: starting point -> state.
        step: state -> state; pure, one step, no logging.
        shown: state -> the part of the state that probes, stopping rules and the result of a run see; by default all
            of it. An optimiser shows the parameters, and keeps its averages to itself.

    Example:
        ```python
        import secant as sc

        halving = sc.Map(init=lambda x: x, step=lambda x: x / 2)
        ```
    """

    init: Callable[..., State]
    step: Callable[[State], State]
    shown: Callable[[State], Any] = everything
