"""A killed run loses nothing: whatever the moment, the next run ends with the same bits, and so does a sweep."""

import random
import shutil
import signal
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
from forks import Forks

from secant.lab import Store
from secant.lab.runs import netcdf
from secant.lab.runs.store import load

KILLS = 10
KILLS_OF_A_SWEEP = 3

SERVER = textwrap.dedent("""
    import os, sys
    sys.path.insert(0, sys.argv[1])
    import chores, netCDF4, jax, scipy.special
    from secant.dynamics import runner
    from secant.lab import Store, run, sweep
    from secant.lab.runs.code import code_version

    runner.SAVE_SECONDS = 0.01
    runner.CHUNK_SECONDS = 0.005
    jax.config.update("jax_compilation_cache_dir", sys.argv[2])
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    code_version(chores.chaos)  # what every child needs is read and imported once
    for line in sys.stdin:
        kind, home = line.strip().split(" ", 1)
        child = os.fork()
        if child == 0:
            if kind == "run":
                run(chores.chaos, scale="smoke", store=Store(home), figure=False)
            else:
                over = {"rate": (3.7, 3.9), "start": (0.2, 0.3)}
                sweep(chores.chaos, over, store=Store(home), steps=400_000).save(home + "/sweep.nc")
            os._exit(0)
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
""")


@pytest.fixture(scope="module")
def forks(tmp_path_factory):
    forks = Forks(SERVER, Path(__file__).parents[1], tmp_path_factory.mktemp("compiled"))
    yield forks
    forks.close()


def usual_time(forks, kind, folder):
    """How long a child takes that finds everything compiled; the first leaves its results in `calm`."""
    assert forks.run(f"{kind} {folder / 'calm'}") == 0
    began = time.perf_counter()
    assert forks.run(f"{kind} {folder / 'timed'}") == 0
    return time.perf_counter() - began


def only_record(home):
    (record,) = Store(home).records()
    return load(record.directory)


class Storm:
    """Kills at random moments of a span that follows the machine, now fast, now slow.

    Every kill lengthens the span and every run that ends shortens it: so both happen, however busy the machine is.
    """

    def __init__(self, forks, line, home, usual):
        self.forks, self.line, self.span, self.moments = forks, line, 1.1 * usual, random.Random(0)
        self.home, self.killed, self.finished, self.resumed = home, 0, 0, 0

    def strike(self):
        """One more run: whether it came to its end."""
        status = self.forks.run(self.line, kill_after=self.moments.uniform(0.0, self.span))
        assert status in (0, -signal.SIGKILL)
        self.killed += status != 0
        self.finished += status == 0
        self.resumed += any(self.home.glob("runs/demo/chaos/.*.work/*/state.npz"))
        self.span *= 0.8 if status == 0 else 1.05
        return status == 0

    def over(self, kills):
        return self.killed >= kills and self.finished > 0 and self.resumed > 0


def test_killing_a_run_at_random_moments_changes_nothing(tmp_path, forks):
    usual = usual_time(forks, "run", tmp_path)
    expected = only_record(tmp_path / "calm").data()
    home = tmp_path / "stormy"
    storm = Storm(forks, f"run {home}", home, usual)
    for _ in range(10 * KILLS):
        if storm.strike():
            for name in expected:
                np.testing.assert_array_equal(only_record(home).data()[name], expected[name])
            shutil.rmtree(home)
        if storm.over(KILLS):
            break
    assert forks.run(f"run {home}") == 0
    for name in expected:
        np.testing.assert_array_equal(only_record(home).data()[name], expected[name])
    assert storm.killed >= KILLS, "too few kills to test anything"
    assert storm.resumed > 0, "no kill left a checkpoint to go on from"
    assert storm.finished > 0, "no run came through the storm"


def test_killing_a_sweep_at_random_moments_changes_nothing(tmp_path, forks):
    usual = usual_time(forks, "sweep", tmp_path)
    home, kept = tmp_path / "stormy", 0
    storm = Storm(forks, f"sweep {home}", home, usual)
    for _ in range(10 * KILLS_OF_A_SWEEP):
        ended = storm.strike()
        kept += 0 < len(Store(home).records()) < 4
        if kept > 0 and storm.resumed > 0 and storm.killed >= KILLS_OF_A_SWEEP:
            break  # in the midst of it: the run that follows goes on from what is kept
        if ended:
            shutil.rmtree(home)
    assert forks.run(f"sweep {home}") == 0
    assert storm.killed >= KILLS_OF_A_SWEEP, "too few kills to test anything"
    assert kept > 0, "no kill left a part of the cells"
    assert storm.resumed > 0, "no kill left a checkpoint to go on from"
    calm, stormy = (netcdf.read(tmp_path / name / "sweep.nc") for name in ("calm", "stormy"))
    assert stormy.identical(calm)
