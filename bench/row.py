"""A row of the table, and how to time fairly."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

ROWS: dict[str, Callable[[], Row]] = {}
"""Every row, by name."""


def row(function: Callable[[], Row]) -> Callable[[], Row]:
    """Enters a function into the table under its own name."""
    ROWS[function.__name__] = function
    return function


@dataclass(frozen=True)
class Row:
    """One piece of work.

    `ratio` is our cost over the peer's where the promise is a ceiling (`at most`), and the peer's over ours where it
    is a speed-up (`at least`). Where a row compares no times, its `unit` says what.
    """

    name: str
    work: str
    peer: str
    peer_seconds: float
    seconds: float
    target: float
    sense: str = "at most"
    unit: str = "s"

    @property
    def ratio(self) -> float:
        pair = (self.seconds, self.peer_seconds)
        return pair[0] / pair[1] if self.sense == "at most" else pair[1] / pair[0]

    @property
    def met(self) -> bool:
        return self.ratio <= self.target if self.sense == "at most" else self.ratio >= self.target

    def as_dict(self) -> dict[str, Any]:
        fields = ("name", "work", "peer", "peer_seconds", "seconds", "ratio", "target", "sense", "met")
        return {name: getattr(self, name) for name in fields}


def alternate(ours: Callable[[], Any], peer: Callable[[], Any], rounds: int = 9) -> tuple[float, float]:
    """Median seconds of ours and of the peer, taken in turns so that both see the same machine.

    Each runs once first, so that neither is charged for what happens only once.
    """
    ours()
    peer()
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for function, log in zip((ours, peer), times, strict=True):
            gc.collect()
            began = time.perf_counter()
            function()
            log.append(time.perf_counter() - began)
    return statistics.median(times[0]), statistics.median(times[1])


def seconds(function: Callable[[], Any], rounds: int = 9) -> float:
    """Median seconds of a function that ends when its work is done; it runs once first."""
    return alternate(function, lambda: None, rounds)[0]


def processor_seconds(function: Callable[[], Any], rounds: int = 5) -> float:
    """Median of what all threads of this process work, which a busy machine hardly changes; it runs once first."""
    function()
    found = []
    for _ in range(rounds):
        began = time.process_time()
        function()
        found.append(time.process_time() - began)
    return statistics.median(found)
