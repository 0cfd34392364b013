"""What workers do in the tests of sweeps: a plain module, which any process can import."""

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr

from secant.dynamics import Map, Probe, simulate
from secant.lab import Finding, Store, claim, option, study
from secant.lab.registry import lookup
from secant.lab.sweeping import sweeps


@dataclass(frozen=True)
class Config:
    start: float = option(0.3, above=0, below=1)
    rate: float = option(3.9, above=0, at_most=4)
    steps: int = option(100_000)


trap: Path | None = None
"""Where there is such a file, the study removes it and dies."""


def logistic(rate: float) -> Map:
    return Map(init=lambda x: x, step=lambda x: rate * x * (1 - x))


def near(origin: float, shift: float) -> float:
    return origin + shift


# Both runs of all cells differ in their numbers only, so that a process compiles them once.
SHIFTS = np.linspace(0, 0.1, 8)
PROBES = {"x": Probe(lambda x: x, every=100)}


@study("demo/chaos", section="1", title="Chaos")
def chaos(config: Config) -> xr.Dataset:
    """The map is sensitive to every bit.

    Two runs come one after the other. A worker that steps on the trap dies between them.
    """
    parts = []
    for name, origin in (("x", config.start), ("y", config.start / 2)):
        over = {"rate": np.array([config.rate]), "origin": np.array([origin]), "shift": SHIFTS}
        run = simulate(logistic, near, config.steps, probes=PROBES, over=over)
        parts.append(run.dataset["x"].isel(rate=0, origin=0, drop=True).rename(name))
        if trap is not None and trap.exists():
            trap.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
    return xr.merge(parts)


@chaos.findings
def check(data: xr.Dataset, config: Config) -> Iterator[Finding]:
    yield claim("bounded", "bounded").at_most(1.0, float(abs(data.x).max()), "exact")


def enlist(deadly: Path | None = None, elsewhere: Path | None = None) -> None:
    """Makes the study known to a worker, which may die of it and may have a disk of its own."""
    global trap
    trap = deadly
    lookup._all = lambda: {chaos.id: chaos}
    sweeps.Store = Store if elsewhere is None else lambda root: Store(elsewhere)
