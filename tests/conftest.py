"""Fixtures every room uses."""

import os
import random

import jax
import pytest

from secant.dynamics import runner


@pytest.fixture(autouse=True)
def float64():
    """Tests compare identities to rounding, so they run in float64 unless they say otherwise."""
    with jax.enable_x64(True):
        yield


class RandomClock:
    """A clock that runs now fast, now slow, as that of a busy machine does: each look at it is up to a minute later."""

    def __init__(self, seed):
        self.draw = random.Random(seed)
        self.now = 0.0

    def __call__(self):
        self.now += 10 ** self.draw.uniform(-7, 1.8)
        return self.now


@pytest.fixture
def random_clock(monkeypatch):
    """A function that sets the runner's clock to a random one."""
    return lambda seed=None: monkeypatch.setattr(runner, "clock", RandomClock(seed))


@pytest.fixture
def runs_of_studies(tmp_path_factory):
    """A store where all of the tests' processes keep the smoke runs of studies, so that each is computed once."""
    base = tmp_path_factory.getbasetemp()
    return (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "runs-of-studies"
