"""A small study that the lab's tests run, and a Ray cluster."""

import os
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from secant.dynamics import Map, simulate
from secant.lab import Erratum, Finding, Store, claim, option, scaled, study

sys.path.insert(0, str(Path(__file__).parent))  # new processes find `chores` and `errands` there


@dataclass(frozen=True)
class Config:
    rate: float = option(0.5, above=0, below=1, help="factor per step")
    steps: int = scaled(smoke=10, laptop=20, paper=40, at_least=1)
    starts: tuple[float, ...] = option((1.0, 2.0), at_least=0)


@study("demo/halving", section="1.2", title="Halving")
def halving(config: Config) -> xr.Dataset:
    """$x_{t+1} = r x_t$"""
    halving.calls = getattr(halving, "calls", 0) + 1
    rate = config.rate
    return simulate(
        Map(init=lambda x: x, step=lambda x: rate * x),
        lambda start: start,
        config.steps,
        probes={"x": lambda x: x},
        over={"start": np.array(config.starts)},
    ).dataset


@halving.findings
def check(data: xr.Dataset, config: Config) -> Iterator[Finding | Erratum]:
    last = float(data.x.isel(start=0, step=-1))
    exact = config.starts[0] * config.rate**config.steps
    yield claim("halving", "it halves").equal(exact, last, 0, "rounding", relative=1e-14)
    yield claim("power", "power").erratum(
        ("r^{2t}", exact**2), ("r^t", exact), last, 0, "rounding", relative=1e-14, note="doubled", where="equation (3)"
    )


@halving.figure
def draw(data: xr.Dataset, figure, config: Config) -> None:
    axes = figure.subplots()
    axes.plot(data.step, data.x.T)


@pytest.fixture
def demo():
    halving.calls = 0
    return halving


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "home")


@pytest.fixture(scope="module")
def cluster():
    """A Ray cluster of two workers on this machine, to which this process is connected.

    Its processes look around thirty times a second, so it is not kept until all tests are done.
    """
    ray = pytest.importorskip("ray")
    path = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"os\.fork\(\) was called")
        ray.init(
            address="local",
            num_cpus=2,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="ERROR",
            runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join(path)}},
            _system_config={"task_retry_delay_ms": 0},
        )
    yield ray
    ray.shutdown()
