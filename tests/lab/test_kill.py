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

from secant.lab import Store, netcdf
from secant.lab.store import load

KILLS = 30
KILLS_OF_A_SWEEP = 8

SERVER = textwrap.dedent("""
    import os, sys
    sys.path.insert(0, sys.argv[1])
    import chores, netCDF4, jax, scipy.special
    from secant.dynamics import runner
    from secant.lab import Store, run, sweep
    from secant.lab.code import code_version

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
    forks = Forks(SERVER, Path(__file__).parent, tmp_path_factory.mktemp("compiled"))
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


def test_killing_a_run_at_random_moments_changes_nothing(tmp_path, forks):
    usual = usual_time(forks, "run", tmp_path)
    expected = only_record(tmp_path / "calm").data()
    moments, killed, finished, resumed = random.Random(0), 0, 0, 0
    home = tmp_path / "stormy"
    for _ in range(KILLS):
        status = forks.run(f"run {home}", kill_after=moments.uniform(0.0, 1.1 * usual))
        killed += status == -signal.SIGKILL
        resumed += any(home.glob("runs/demo/chaos/.*.work/*/state.npz"))
        if status == 0:
            finished += 1
            for name in expected:
                np.testing.assert_array_equal(only_record(home).data()[name], expected[name])
            shutil.rmtree(home)
    assert forks.run(f"run {home}") == 0
    for name in expected:
        np.testing.assert_array_equal(only_record(home).data()[name], expected[name])
    assert killed >= KILLS // 3, "the kills came too late to test anything"
    assert resumed > 0, "no kill left a checkpoint to go on from"
    assert finished > 0


def test_killing_a_sweep_at_random_moments_changes_nothing(tmp_path, forks):
    usual = usual_time(forks, "sweep", tmp_path)
    moments, home, killed, kept, resumed = random.Random(0), tmp_path / "stormy", 0, 0, 0
    for _ in range(KILLS_OF_A_SWEEP):
        status = forks.run(f"sweep {home}", kill_after=moments.uniform(0.1, 0.9) * usual)
        killed += status == -signal.SIGKILL
        kept += 0 < len(Store(home).records()) < 4
        resumed += any(home.glob("runs/demo/chaos/.*.work/*/state.npz"))
        if status == 0:
            shutil.rmtree(home)
    assert forks.run(f"sweep {home}") == 0
    assert killed >= KILLS_OF_A_SWEEP // 3, "the kills came too late to test anything"
    assert kept > 0, "no kill left a part of the cells"
    assert resumed > 0, "no kill left a checkpoint to go on from"
    calm, stormy = (netcdf.read(tmp_path / name / "sweep.nc") for name in ("calm", "stormy"))
    assert stormy.identical(calm)
